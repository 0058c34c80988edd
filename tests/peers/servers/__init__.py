"""Small servers on what others made, for their environments: nothing here is imported by us."""
