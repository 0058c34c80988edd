"""Real server processes that are killed by SIGKILL again and again, and what has to survive it."""
