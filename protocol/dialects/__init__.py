"""Every dialect of MCP Tasks, each in a folder of the same shape."""
