"""The other side: calls to any server, in either generation."""
