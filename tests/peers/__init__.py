"""The server against official peers: the conformance suite, and the clients of the SDKs."""
