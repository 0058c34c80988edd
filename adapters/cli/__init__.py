"""The `taskmachine` command."""
