"""Addresses for servers that are started by other processes."""

import socket

__all__ = ["free_port"]


def free_port() -> int:
    """Return a free port on loopback that stays reserved until this process ends.

    A socket stays bound to it without listening: servers can listen there, as they all set
    `SO_REUSEADDR`, but the system hands it out no more, neither to a server nor to a client.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    port: int = reserved.getsockname()[1]
    reserved.detach()  # the system closes it when we are gone
    return port
