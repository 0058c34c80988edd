"""`taskmachine cluster`."""
