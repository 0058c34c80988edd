"""Tasks for servers of FastMCP 4."""

from taskmachine.adapters.bridges.required import require

require("fastmcp", "fastmcp", "4.1")
require("mcp", "fastmcp", "2.3")

from taskmachine.adapters.bridges.fastmcp.extension import Tasks  # noqa: E402  after the docstring

__all__ = ["Tasks"]
