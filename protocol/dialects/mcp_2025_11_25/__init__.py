"""MCP 2025-11-25: tasks in the core protocol."""
