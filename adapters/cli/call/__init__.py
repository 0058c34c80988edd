"""`taskmachine call`."""
