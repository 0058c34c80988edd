"""Servers on the wire: HTTP and stdio, in every dialect."""
