"""Where tools run."""
