"""The MCP client: tool calls to any server, in either protocol revision."""
