"""`taskmachine demo`."""
