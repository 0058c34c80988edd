"""Third-party servers and the failures that `taskmachine check` finds in them.

The page about them is docs/explanation/findings.md.
"""

import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from tests.peers.installed import node_folder, python_of
from tests.ports import free_port

__all__ = ["SERVERS", "Checked", "check"]

BUDGET_S: Final = 45
PATIENCE_S: Final = 240
_SERVERS: Final = Path(__file__).parent / "servers"


def _python(name: str, script: str) -> Callable[[], list[str]]:
    return lambda: [str(python_of(name)), str(_SERVERS / script)]


def _node(name: str, script: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        modules = node_folder(name) / "node_modules"
        return [str(modules / ".bin" / "node"), str(modules / "@modelcontextprotocol" / script)]

    return command


@attrs.frozen
class Checked:
    """A server, and requirements that it reliably violates."""

    command: Callable[[], list[str]]
    """Returns the command that starts it; raises Unavailable if it cannot be installed."""
    known: frozenset[str]
    arguments: Sequence[str] = ()
    port: str | None = None
    """The variable that names its port; None for a server over stdio."""


SERVERS: Final[Mapping[str, Checked]] = {
    "everything": Checked(
        _node("everything", "server-everything/dist/index.js"),
        frozenset({
            "2025-11-25:related-task-ignored-on-task-requests",
            "2025-11-25:required-tool-plain-refused-32601",
            "2025-11-25:get-unknown-32602",
        }),
        ["stdio"],
    ),
    "simple_streamable_http": Checked(
        _node("typescript", "sdk/dist/esm/examples/server/simpleStreamableHttp.js"),
        frozenset({"alive", "2025-11-25:required-tool-plain-refused-32601"}),
        port="MCP_PORT",
    ),
    "simple_task_interactive": Checked(
        _node("typescript", "sdk/dist/esm/examples/server/simpleTaskInteractive.js"),
        frozenset({"2025-11-25:get-unknown-32602", "2025-11-25:result-unknown-32602"}),
        port="PORT",
    ),
    "mcp_1": Checked(
        _python("mcp_1", "mcp_1.py"),
        frozenset({
            "alive",
            "2025-11-25:task-required-fields",
            "2025-11-25:result-matches-request-type",
            "2025-11-25:required-tool-plain-refused-32601",
        }),
    ),
    "fastmcp_3": Checked(
        _python("fastmcp_3_tasks", "fastmcp_3_or_4.py"),
        frozenset({
            "2025-11-25:result-blocks",
            "2025-11-25:related-task-on-result",
            "2025-11-25:server-capability-keys",
            "2025-11-25:last-updated-at-order",
        }),
    ),
    "fastmcp_4": Checked(
        _python("fastmcp_4", "fastmcp_3_or_4.py"),
        frozenset({"2026-07-28:reads-do-not-write"}),
    ),
}  # fmt: skip


def check(server: Checked | str, folder: Path) -> tuple[int, Mapping[str, Any]]:
    """Check a server, or a URL; return the exit status and the report."""
    with contextlib.ExitStack() as stack:
        if isinstance(server, str):
            target = [server]
        elif server.port is None:
            target = [shlex.join([*server.command(), *server.arguments])]
        else:
            words = [*server.command(), *server.arguments]
            target = [stack.enter_context(_listening(words, server.port, folder))]
        ran = subprocess.run(
            [
                str(Path(sys.executable).with_name("taskmachine")), "check", *target,
                "--budget", f"{BUDGET_S}s", "--json", str(folder / "report.json"),
            ],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    assert not ran.stderr, ran.stderr
    report: Mapping[str, Any] = json.loads((folder / "report.json").read_text())
    return ran.returncode, report


@contextlib.contextmanager
def _listening(words: Sequence[str], port: str, folder: Path) -> Iterator[str]:
    """Start a server and yield its URL when it is listening."""
    number = free_port()
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, port: str(number)},
        )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", number), 1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{number}/mcp"
    finally:
        process.kill()
        process.wait()
