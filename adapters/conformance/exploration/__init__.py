"""Exploration: random moves against a target, and the replays of those that show a fault."""
