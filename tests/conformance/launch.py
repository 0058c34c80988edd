"""Becomes a server on pipes at once: hands its descriptors to `prefork`, and waits for the end.

It is run as a file, by an interpreter that loads nothing else.
"""

import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOL_SOCKET, socket


def main(path: str, *arguments: str) -> int:
    """How the server left."""
    connection = socket(AF_UNIX)
    connection.connect(path)
    descriptors = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
    connection.sendmsg(["\0".join(arguments).encode()], [(SOL_SOCKET, SCM_RIGHTS, descriptors)])
    for descriptor in (0, 1, 2):  # or nobody would notice that the server closed them
        os.close(descriptor)
    status = connection.recv(1)
    return status[0] if status else 1


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))
