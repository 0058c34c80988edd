"""Bridges to what people already run: the official SDK, its first generation, FastMCP."""
