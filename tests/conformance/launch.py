"""Start a server on stdio without delay: pass the descriptors to `prefork`, wait for its end.

It is run as a file, by an interpreter that loads nothing else.
"""

import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOL_SOCKET, socket


def main(path: str, *arguments: str) -> int:
    """Return the exit status of the server."""
    connection = socket(AF_UNIX)
    connection.connect(path)
    descriptors = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
    connection.sendmsg(["\0".join(arguments).encode()], [(SOL_SOCKET, SCM_RIGHTS, descriptors)])
    for descriptor in (0, 1, 2):  # else the tester would not notice that the server closed them
        os.close(descriptor)
    status = connection.recv(1)
    return status[0] if status else 1


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))
