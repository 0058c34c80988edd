"""The server on the wire: stdio and Streamable HTTP, both generations at one address."""
