"""Tasks for servers of FastMCP 4; their clients use `taskmachine.mcp.ClientTasks`."""

from taskmachine.adapters.bridges.fastmcp import Tasks

__all__ = ["Tasks"]
