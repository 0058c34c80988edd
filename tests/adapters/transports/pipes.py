"""A client in plain JSON for a server process on its standard streams."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import IO, Any, Final

import pytest

from tests.oracle import REPOSITORY

COMMAND: Final = str(Path(sys.executable).with_name("taskmachine"))
DEADLINE_S: Final = 20.0
MISBEHAVING: Final = "tests.adapters.transports.misbehaving_tools:TOOLS"

JSON = dict[str, Any]

HELLO: Final[JSON] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}, "sampling": {}},
    "clientInfo": {"name": "test", "version": "1"},
}
MODERN: Final[JSON] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {"form": {}},
        "sampling": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}


class PipeReader:
    """Reads lines from a pipe in the background."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.lines: list[bytes] = []
        self.is_over = False
        self._pipe = pipe
        self._changed = threading.Condition()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        for line in self._pipe:
            with self._changed:
                self.lines.append(line)
                self._changed.notify()
        with self._changed:
            self.is_over = True
            self._changed.notify()

    def until(self, is_there: Callable[[], bool]) -> bool:
        """Wait for a condition; return False at the end of the pipe or after the timeout."""
        with self._changed:
            return (
                self._changed.wait_for(lambda: is_there() or self.is_over, DEADLINE_S)
                and is_there()
            )

    def close(self) -> None:
        self._reading.join()
        self._pipe.close()


class Client:
    """A server process and its client: `ask` uses 2025-11-25, `ask_modern` 2026-07-28."""

    def __init__(
        self, folder: Path, *arguments: str, tools: str = "demo", is_not_reading: bool = False
    ) -> None:
        store = f"sqlite:{folder / 'tasks.db'}"
        self.process = subprocess.Popen(
            [COMMAND, "serve", "--stdio", "--store", store, "--tools", tools, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY,
        )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._errors = PipeReader(self.process.stderr)
        self._output: PipeReader | None = None
        if not is_not_reading:
            self.listen()
        self._messages: list[JSON] = []
        self._taken: set[int] = set()
        self._numbers = count(1)

    def listen(self) -> None:
        self._output = PipeReader(self.stdout)

    # --- sending -----------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def send(self, message: JSON) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, method: str, params: JSON, id: int | str | None = None) -> int | str:
        id = next(self._numbers) if id is None else id
        self.send({"id": id, "method": method, "params": params})
        return id

    def introduce(self) -> JSON:
        answer = self.ask("initialize", HELLO)
        self.send({"method": "notifications/initialized"})
        return answer

    def ask(self, method: str, params: JSON | None = None) -> JSON:
        return self.answer(self.request(method, params or {}))

    def ask_modern(self, method: str, params: JSON | None = None) -> JSON:
        return self.ask(method, {**(params or {}), "_meta": MODERN})

    # --- receiving ---------------------------------------------------------------------------

    @property
    def messages(self) -> list[JSON]:
        """All messages in order; ValueError if a line is not JSON."""
        assert self._output is not None
        self._messages += map(json.loads, self._output.lines[len(self._messages) :])
        return self._messages

    def expect(self, is_wanted: Callable[[JSON], bool]) -> JSON:
        """Wait for the first wanted message that was not returned before."""
        assert self._output is not None

        def found() -> int | None:
            return next(
                (
                    index
                    for index, message in enumerate(self.messages)
                    if index not in self._taken and is_wanted(message)
                ),
                None,
            )

        self._output.until(lambda: found() is not None)
        index = found()
        if index is None:
            pytest.fail(f"the server sent {self.messages}, and logged: {self.stderr}")
        self._taken.add(index)
        return self.messages[index]

    def answer(self, id: int | str) -> JSON:
        return self.expect(lambda message: message.get("id") == id and "method" not in message)

    def called(self, method: str) -> JSON:
        """Wait for a request or notification of the server."""
        return self.expect(lambda message: message.get("method") == method)

    def until_status(self, task_id: str, status: str) -> JSON:
        """Poll a task of 2026-07-28 until it has this status."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            result: JSON = self.ask_modern("tasks/get", {"taskId": task_id})["result"]
            if result["status"] == status:
                return result
        pytest.fail(f"the task stayed {result}")

    @property
    def stderr(self) -> str:
        """The standard error output so far."""
        return b"".join(self._errors.lines).decode()

    def until_logged(self, words: str, times: int = 1) -> None:
        assert self._errors.until(lambda: self.stderr.count(words) >= times), self.stderr

    # --- the end -----------------------------------------------------------------------------

    def end(self) -> int:
        """Close the input and return the exit status of the server."""
        self.stdin.close()
        return self.wait()

    def wait(self) -> int:
        """Wait for the exit and the rest of the output, and return the exit status."""
        status = self.process.wait(DEADLINE_S)
        for reader in (self._output, self._errors):
            assert reader is None or reader.until(lambda: False) is False
        return status

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def peak_bytes(self) -> int:
        [peak] = [
            line.split()[1]
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            if line.startswith("VmHWM:")
        ]
        return int(peak) * 1024

    def close(self) -> None:
        self.kill()
        with contextlib.suppress(OSError):
            self.stdin.close()
        for reader in (self._output, self._errors):
            if reader is not None:
                reader.close()
        self.stdout.close()
