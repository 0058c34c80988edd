"""Our server as a separate process, as peers use it."""

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.ports import free_port

__all__ = ["Server", "command", "serving"]

_PATIENCE_S: Final = 20
_REVISION: Final = "2026-07-28"


_SERVE: Final = [str(Path(sys.executable).with_name("taskmachine")), "serve", "--store", "memory:"]
_STARTS: Final[Mapping[str, Sequence[str]]] = {
    "demo": [*_SERVE, "--tools", "demo"],
    "conformance": [*_SERVE, "--tools", "conformance"],
    "sdk": [sys.executable, str(Path(__file__).parent / "servers" / "sdk_tasks.py")],
}
"""Our own server with one of two toolsets, and the official SDK's with our tasks."""


def command(name: str, *transport: str) -> list[str]:
    """Return the command that starts a server."""
    return [*_STARTS[name], *transport]


class Server:
    """A listening server."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, log: Path) -> None:
        self._process = process
        self.url = f"http://{address}/mcp"
        self.log = log

    def names(self) -> set[str]:
        """Return the current tools, which also shows that the server is up."""
        assert self._process.poll() is None, f"the server is gone: {self.log.read_text()}"
        meta = {
            "io.modelcontextprotocol/protocolVersion": _REVISION,
            "io.modelcontextprotocol/clientInfo": {"name": "peers", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": _REVISION,
            "Mcp-Method": "tools/list",
        }
        request = urllib.request.Request(self.url, json.dumps(message).encode(), headers)
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as response:
            body = response.read().decode()
        if response.headers["Content-Type"].startswith("text/event-stream"):
            body = next(line[5:] for line in body.splitlines() if line.startswith("data:"))
        answer: dict[str, Any] = json.loads(body)
        return {tool["name"] for tool in answer["result"]["tools"]}


@contextlib.contextmanager
def serving(name: str, folder: Path, *options: str) -> Iterator[Server]:
    """Run a server over HTTP and yield it when it answers; `folder` keeps its logs.

    `options` are appended to its command, where the last option of a kind applies.
    """
    address = f"127.0.0.1:{free_port()}"
    log = folder / "server.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command(name, "--http", address, *options),
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
        )
    try:
        server = Server(process, address, log)
        _await(server)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(server: Server) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            server.names()
            return
        except urllib.error.HTTPError:
            raise
        except OSError:  # not listening yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
