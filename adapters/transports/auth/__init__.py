"""Authentication of callers, and the owners of tasks."""
