"""Clients as targets: we are the server."""
