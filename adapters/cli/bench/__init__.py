"""`taskmachine bench`: what servers of MCP Tasks do in a second, side by side on this machine."""
