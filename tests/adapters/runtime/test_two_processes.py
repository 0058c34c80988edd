"""Two processes on one file: an operator beside a server, and a server after another one."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Final

import pytest

from tests.oracle import REPOSITORY

COMMAND: Final = str(Path(sys.executable).with_name("taskmachine"))
DEADLINE_S: Final = 20.0
LOOK_S: Final = 5.0
"""How often a server looks for work that others have left."""


class Server:
    """A server in a separate process, and its output."""

    def __init__(self, url: str, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.adapters.server_process", url, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY,
        )  # fmt: skip
        self._lines: Queue[str] = Queue()
        self._heard: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()
        self.expect("ready")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())

    def order(self, *words: str) -> None:
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)

    def expect(self, start: str) -> str:
        """The rest of the first line that begins so; the others stay."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := [line for line in self._heard if line.startswith(start)]):
            try:
                self._heard.append(self._lines.get(timeout=max(0, deadline - time.monotonic())))
            except Empty:
                pytest.fail(f"the server said {self._heard}, and not '{start}'")
        self._heard.remove(found[0])
        return found[0].removeprefix(start).strip()

    def kill(self) -> None:
        """Kill and reap the process."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        self._reading.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


Start = Callable[[str], Server]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'tasks.db'}"


@pytest.fixture
def start(url: str) -> Iterator[Start]:
    servers: list[Server] = []

    def start(name: str) -> Server:
        servers.append(Server(url, name))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_an_operator_stops_a_tool_of_a_running_server(start: Start, url: str) -> None:
    server = start("first")
    server.order("create", "hold")
    task_id = server.expect("created")
    assert server.expect("running") == task_id
    server.order("collect", task_id)
    command = [COMMAND, "tasks", "cancel", task_id, "--store", url, "--reason", "enough"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = time.monotonic()
    assert (done.returncode, done.stdout) == (0, f"Task {task_id} is cancelled.\n"), done.stderr
    assert server.expect("stopped") == task_id
    assert server.expect("ended") == f"{task_id} cancelled cancelled"
    assert time.monotonic() - told < 1


def test_running_server_continues_the_tasks_of_a_killed_server(start: Start) -> None:
    first = start("first")
    first.order("create", "pass_on", '{"name":"first"}')
    running = first.expect("created")
    assert first.expect("passing") == running
    second = start("second")
    second.order("collect", running)
    first.kill()
    killed = time.monotonic()
    assert second.expect("passing") == running
    assert second.expect("ended") == f"{running} completed result"
    # Not after a lease of 15 s: a process of this machine is known to be dead.
    assert time.monotonic() - killed < LOOK_S + 7


def test_starting_server_takes_over_the_tasks_of_a_killed_server_at_once(start: Start) -> None:
    first = start("first")
    first.order("create", "pass_on", '{"name":"first"}')
    running = first.expect("created")
    assert first.expect("passing") == running
    first.kill()
    second = start("second")
    ready = time.monotonic()
    second.order("collect", running)
    assert second.expect("ended") == f"{running} completed result"
    assert time.monotonic() - ready < LOOK_S - 1
