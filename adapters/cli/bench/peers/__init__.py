"""Servers of others.  Each script runs with an interpreter, or a node, that has what it needs."""
