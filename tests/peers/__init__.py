"""The server and official peers: the conformance suite, and the clients of the SDKs."""
