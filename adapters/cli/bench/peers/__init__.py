"""Peer servers; each script runs in an interpreter, or a node, that has its packages."""
