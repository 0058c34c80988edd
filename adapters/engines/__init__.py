"""Engines: where the tools of tasks run."""
