"""Bridges to the official SDK (current and first generation) and FastMCP."""
