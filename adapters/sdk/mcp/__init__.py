"""Tasks for servers and clients of the official SDK, `mcp` 2.3 and later."""

from taskmachine.adapters.sdk.required import require

require("mcp", "mcp", "2.3")
