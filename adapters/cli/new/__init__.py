"""`taskmachine new`."""
