"""`taskmachine bench`: compare the throughput of MCP Tasks servers on this machine."""
