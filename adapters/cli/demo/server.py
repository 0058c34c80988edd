"""The server of the demo: `taskmachine serve` in a separate process, which can be killed."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path
from typing import Final

from taskmachine.adapters.transports.settings import PREFIX
from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = ["STORE", "Server"]

STORE: Final = "tasks.db"

OPTIONS: Final = ("--http", "127.0.0.1:0", "--store", f"sqlite:{STORE}", "--tools", "demo")

# Not the `taskmachine` script, which may be missing although the package is importable.
_MAIN: Final = "import sys; from taskmachine.adapters.cli.main import main; sys.exit(main())"


class Server:
    """A server that can be killed and restarted on the same store."""

    command: Final = " ".join(("taskmachine", "serve", *OPTIONS))
    """The equivalent shell command."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._said: list[str] = []
        self._ready = asyncio.Event()
        self.port: int | None = None
        """The port, or None while the server is not listening."""

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None, "there is one"
        return self._process.pid

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        self._said, self._ready = [], asyncio.Event()
        own = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _MAIN, "serve", *OPTIONS, "--log-level", "error"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._folder,
            env=own,
        )
        self._reading = asyncio.create_task(self._read())
        await self._ready.wait()
        if self.port is None:
            status = await self._end()
            said = self._said[-1] if self._said else f"it exited with status {status}"
            words = f"the server did not start: {said.removeprefix('taskmachine: error: ')}"
            raise ConfigurationError(words) if status == 2 else TaskmachineError(words)

    async def kill(self) -> int:
        """Kill the process with SIGKILL and return its exit status."""
        return await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """Stop the process with SIGTERM and return its exit status."""
        return await self._end(signal.SIGTERM)

    async def close(self) -> None:
        """Kill the process if it is still running."""
        if self._process is not None and self._process.returncode is None:
            await self.kill()

    async def _end(self, number: signal.Signals | None = None) -> int:
        assert self._process is not None, "there is one"
        assert self._reading is not None
        if number is not None:
            self._process.send_signal(number)
        await self._reading
        return await self._process.wait()

    async def _read(self) -> None:
        """Read all output, so that the pipe never blocks; the first line has the address."""
        assert self._process is not None, "there is one"
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip()
            found = re.search(r"serving .* on http://127\.0\.0\.1:(\d+)/", text)
            if found is None:
                self._said.append(text)
            else:
                self.port = int(found[1])
                self._ready.set()
        self.port = None
        self._ready.set()
