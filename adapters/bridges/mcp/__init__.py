"""Tasks for servers and clients of the official SDK, `mcp` 2.3 and later."""

from taskmachine.adapters.bridges.required import require

require("mcp", "mcp", "2.3")

from taskmachine.adapters.bridges.mcp.channel import elicitation  # noqa: E402  after the docstring
from taskmachine.adapters.bridges.mcp.extension import Tasks  # noqa: E402

__all__ = ["Tasks", "elicitation"]
