"""Tasks for servers and clients of the first generation of the official SDK, `mcp` 1.26 to 1.30."""

from taskmachine.adapters.sdk.required import require

require("mcp", "mcp1", "1.26", below="2.0")
