"""Real server processes that are killed with SIGKILL repeatedly; acknowledged writes survive."""
