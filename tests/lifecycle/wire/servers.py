"""The servers under test: one over HTTP and one over pipes, on one store."""

import contextlib
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import attrs

from tests.oracle import REPOSITORY
from tests.wire.pipe_wire import PipeCaller
from tests.wire.strings import BOUND_S, Strings

__all__ = ["NAMES", "PAGE", "Servers", "serving"]

PAGE: Final = 3
NAMES: Final = tuple(f"{name}{number}" for number in range(50) for name in ("alice", "bob"))
"""Every run has an alice and a bob of its own, for as long as there are new ones."""

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
    """What a server says aside."""

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
                lambda: re.search(pattern, self.text) or "(the end)" in self.text, BOUND_S
            )
        found = re.search(pattern, self.text)
        assert found is not None, self.text
        return found

    def close(self) -> None:
        self._thread.join()
        self._pipe.close()


@attrs.define(eq=False)
class Servers:
    """Both, while they run; afterwards what they have left."""

    tokens: dict[str, str]
    strings: Strings
    address: str
    pipe: PipeCaller
    logs: list[_Log]
    processes: list[subprocess.Popen[bytes]]

    def check(self) -> None:
        """That they live."""
        for process, log in zip(self.processes, self.logs, strict=True):
            assert process.poll() is None, f"a server is gone: {log.text}"


@contextlib.contextmanager
def serving(folder: Path, url: str) -> Iterator[Servers]:
    """On the store of that URL, from when they answer until they have left."""
    tokens = {name: secrets.token_hex(16) for name in NAMES}
    tokens_file = folder / "tokens.toml"
    tokens_file.touch(0o600)
    tokens_file.write_text("".join(f'{name} = "{token}"\n' for name, token in tokens.items()))
    settings = folder / "settings.toml"
    settings.write_text(_SETTINGS.format(page=PAGE, tokens=tokens_file))
    with contextlib.ExitStack() as stack:
        strings = Strings()
        stack.callback(strings.close)

        def start(stream: int, *where: str) -> tuple[subprocess.Popen[bytes], _Log]:
            process = subprocess.Popen(
                [_COMMAND, "serve", *where, "--config", str(settings), "--store", url,
                 "--tools", "tests.wire.tools:TOOLS"],
                stdin=stream, stdout=stream, stderr=subprocess.PIPE,
                cwd=REPOSITORY, env=os.environ | {"WIRE_STRINGS": strings.address},
            )  # fmt: skip
            assert process.stderr is not None
            log = _Log(process.stderr)
            stack.callback(log.close)
            stack.callback(_end, process)
            return process, log

        web, web_log = start(subprocess.DEVNULL, "--http", "127.0.0.1:0")
        piped, pipe_log = start(subprocess.PIPE, "--stdio")
        address = web_log.find(r"on http://([0-9.:]+)/mcp")[1]
        pipe_log.find("on standard input and output")
        assert piped.stdin is not None
        assert piped.stdout is not None
        pipe = PipeCaller(piped.stdout, piped.stdin)
        for after in (piped.stdout.close, pipe.join, lambda: _end(piped), piped.stdin.close):
            stack.callback(after)  # in the reverse order
        pipe.introduce()
        yield Servers(tokens, strings, address, pipe, [web_log, pipe_log], [web, piped])


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
