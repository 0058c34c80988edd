"""Engines, which run the tools of tasks."""
