"""Exploration: random moves against a target, and replays of the moves that show a fault."""
