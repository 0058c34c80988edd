"""The processes under test: an HTTP server, a stdio server, and the test, on one store."""

import asyncio
import contextlib
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

import attrs

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import open_store
from taskmachine.protocol.sealing import Sealer
from tests.lifecycle.wire.stdio_client import StdioClient
from tests.lifecycle.wire.tool_control import BOUND_S, ToolControl
from tests.oracle import REPOSITORY

__all__ = ["NAMES", "PAGE", "Servers", "serving"]

PAGE: Final = 3
START_S: Final = 120.0
"""Time for a server to start on a busy machine."""

NAMES: Final = tuple(f"{name}{number}" for number in range(50) for name in ("alice", "bob"))
"""Owners over HTTP: each run takes the next two."""

_COMMAND: Final = str(Path(sys.executable).with_name("taskmachine"))
_SETTINGS: Final = """
[times]
grace_ms = 300
[transport]
keep_alive_s = 1
lookups_per_second = 1000000
lookups_burst = 1000000
[limits]
page = {page}
[limits.caps]
live = 100000
retained = 10000000
live_of_owner = 10000
retained_of_owner = 10000000
[auth]
kind = "tokens"
tokens = "{tokens}"
"""


class _Log:
    """The standard error of a server."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.text = ""
        self._pipe = pipe
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        for line in self._pipe:
            with self._changed:
                self.text += line.decode()
                self._changed.notify_all()
        with self._changed:
            self.text += "(the end)"
            self._changed.notify_all()

    def find(self, pattern: str) -> re.Match[str]:
        with self._changed:
            self._changed.wait_for(
                lambda: re.search(pattern, self.text) or "(the end)" in self.text, START_S
            )
        found = re.search(pattern, self.text)
        assert found is not None, self.text
        return found

    def close(self) -> None:
        self._thread.join()
        self._pipe.close()


@attrs.define(eq=False)
class Servers:
    """The running servers; after they have stopped, their logs."""

    tokens: dict[str, str]
    tool_control: ToolControl
    address: str
    pipe: StdioClient
    logs: list[_Log]
    processes: list[subprocess.Popen[bytes]]
    runner: asyncio.Runner
    service: TaskService

    def check(self) -> None:
        """Assert that the servers are running."""
        for process, log in zip(self.processes, self.logs, strict=True):
            assert process.poll() is None, f"a server stopped: {log.text}"

    def cancel_in_store(self, task_id: str) -> None:
        """Cancel a task in this process, past the servers."""

        async def cancel() -> None:
            task = await self.service.store.load(task_id)
            assert task is not None
            await self.service.cancel(task.owner, task_id)

        self.runner.run(cancel())


@contextlib.contextmanager
def serving(folder: Path, url: str, bugs: Mapping[str, str] = {}) -> Iterator[Servers]:
    """Start the servers on the store of that URL, "HTTP" and "stdio" each with a bug if named."""
    tokens = {name: secrets.token_hex(16) for name in NAMES}
    tokens_file = folder / "tokens.toml"
    tokens_file.touch(0o600)
    tokens_file.write_text("".join(f'{name} = "{token}"\n' for name, token in tokens.items()))
    settings = folder / "settings.toml"
    settings.write_text(_SETTINGS.format(page=PAGE, tokens=tokens_file))
    with contextlib.ExitStack() as stack:
        tool_control = ToolControl()
        stack.callback(tool_control.close)

        def start(name: str, stream: int, *where: str) -> tuple[subprocess.Popen[bytes], _Log]:
            process = subprocess.Popen(
                [_COMMAND, "serve", *where, "--config", str(settings), "--store", url,
                 "--tools", "tests.lifecycle.wire.tools:TOOLS"],
                stdin=stream, stdout=stream, stderr=subprocess.PIPE,
                cwd=REPOSITORY, env=os.environ
                | {"WIRE_TOOL_CONTROL": tool_control.address, "LIFECYCLE_BUG": bugs.get(name, "")},
            )  # fmt: skip
            assert process.stderr is not None
            log = _Log(process.stderr)
            stack.callback(log.close)
            stack.callback(_end, process)
            return process, log

        web, web_log = start("HTTP", subprocess.DEVNULL, "--http", "127.0.0.1:0")
        piped, pipe_log = start("stdio", subprocess.PIPE, "--stdio")
        address = web_log.find(r"on http://([0-9.:]+)/mcp")[1]
        pipe_log.find("on standard input and output")
        assert piped.stdin is not None
        assert piped.stdout is not None
        pipe = StdioClient(piped.stdout, piped.stdin)
        for after in (piped.stdout.close, pipe.join, lambda: _end(piped), piped.stdin.close):
            stack.callback(after)  # in the reverse order
        pipe.initialize()
        runner = stack.enter_context(asyncio.Runner())
        store = runner.run(open_store(url))
        stack.callback(lambda: runner.run(store.close()))
        sealer = Sealer(runner.run(store.secret()))
        service = TaskService(store, sealer, clock=_now_ms, new_id=lambda: "")
        yield Servers(
            tokens, tool_control, address, pipe, [web_log, pipe_log], [web, piped], runner, service
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
