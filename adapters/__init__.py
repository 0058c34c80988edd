"""Everything that touches the world: the command line and what it prints."""
