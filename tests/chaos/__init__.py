"""Replicas, workers, a database and the lines between them, all of which fail all the time."""
