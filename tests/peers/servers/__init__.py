"""Small servers on what others made: nothing here is imported by us."""
