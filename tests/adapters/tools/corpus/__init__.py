"""Signatures as people write them, beside FastMCP and the official SDK."""
