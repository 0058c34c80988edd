"""Ports for servers in other processes."""

import socket

__all__ = ["free_port"]


def free_port() -> int:
    """Return a free port on loopback that stays reserved until this process ends.

    A socket stays bound to it without listening: servers can listen there, as they all set
    `SO_REUSEADDR`, but the system does not assign it to another server or client.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    port: int = reserved.getsockname()[1]
    reserved.detach()  # closed when this process ends
    return port
