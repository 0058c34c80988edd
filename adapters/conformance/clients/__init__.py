"""Check clients: the tester is the server."""
