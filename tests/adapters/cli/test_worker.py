"""Replicas and workers as processes, started as the documentation describes."""

import asyncio
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from taskmachine.adapters.client.connect import connect
from tests.adapters.cli.programs import ORDER, Program
from tests.adapters.stores.postgres_server import Server
from tests.oracle import REPOSITORY
from tests.site.pages import blocks_of

COMMAND: Final = str(Path(sys.executable).with_name("taskmachine"))
PATIENCE_S: Final = 30.0


class Process:
    """A replica or worker and its output."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as said:
            self._process = subprocess.Popen(command, stderr=said, cwd=REPOSITORY)

    def until_said(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self._log.read_text())):
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, f"{pattern!r} is not in {self._log.read_text()}"
            time.sleep(0.02)
        return found

    def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        return self._process.wait(PATIENCE_S)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def begin(*arguments: str) -> Process:
        log = tmp_path / f"{len(started)}.log"
        started.append(Process([COMMAND, *arguments], log))
        return started[-1]

    yield begin
    for process in started:
        if process.is_running:
            process.end(signal.SIGKILL)


def commands_of_the_page(url: str) -> tuple[list[str], list[str]]:
    [shown] = blocks_of("docs/howto/operations.md", "shell")
    said = {
        "127.0.0.1:8000": "127.0.0.1:0",
        "postgresql://tasks@db/tasks": url,
        "shop:TOOLS": "demo",
    }
    serve, worker = (
        [said.get(word, word) for word in shlex.split(line.removeprefix("$ taskmachine "))]
        for line in shown.text.splitlines()
    )
    return serve, worker


def address(replica: Process) -> str:
    return replica.until_said(r"serving .* on (http://\S+),")[1]


async def count(url: str, to: int, then: Callable[[], None] = lambda: None) -> Any:
    async with connect(url) as session:
        task = await session.call("count", {"to": to})
        then()
        return await task.result()


def test_the_commands_of_the_page_work(server: Server, start: Start) -> None:
    serve, worker = commands_of_the_page(server.new_url())
    replica, first = start(*serve), start(*worker)
    first.until_said(r"working with 6 tools, 16 at a time, for postgresql://")
    assert asyncio.run(count(address(replica), 1))["structuredContent"] == {"counted": 1}
    for process in (first, replica):
        assert process.end(signal.SIGTERM) == 0


def test_worker_runs_the_tools_of_a_program(server: Server, start: Start, tmp_path: Path) -> None:
    """The program is `__main__` in one process and a module in the other."""
    url = server.new_url()
    (tmp_path / "shop.py").write_text(ORDER)
    replica = Program(
        [sys.executable, "shop.py", "--http", "127.0.0.1:0", "--engine", "procrastinate",
         "--store", url], tmp_path,
    )  # fmt: skip
    try:
        start("worker", str(tmp_path / "shop.py"), "--store", url).until_said(
            "working with 3 tools"
        )
        served_at = replica.until_logged(r"serving 3 tools on (http://\S+),")

        async def greet() -> Any:
            async with connect(served_at) as session:
                return await (await session.call("greet", {"name": "Ada"})).result()

        assert asyncio.run(greet())["content"][0]["text"] == "Hello, Ada!"
        assert replica.end(signal.SIGTERM) == 0
    finally:
        replica.process.kill()
        replica.process.wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_second_worker_continues_the_task_of_a_stopped_worker(
    server: Server, start: Start, number: signal.Signals
) -> None:
    serve, worker = commands_of_the_page(server.new_url())
    replica, first = start(*serve), start(*worker)

    def change_workers() -> None:
        first.until_said("start, now working")
        second = start(*worker)
        second.until_said("working with")
        first.end(number)

    url = address(replica)
    assert asyncio.run(count(url, 12, change_workers))["structuredContent"] == {"counted": 12}


def test_ten_replica_processes_can_start_at_once(server: Server, start: Start) -> None:
    url = server.new_url()
    serve, worker = commands_of_the_page(url)
    replicas = [start(*serve) for _ in range(10)]
    addresses = [address(replica) for replica in replicas]
    schema = url.rpartition("=")[2]
    for name in ("version", "procrastinate"):
        found = server.execute(f"SELECT 1 FROM {schema}.meta WHERE name = %s", (name,))
        assert len(found) == 1
    start(*worker).until_said("working with")
    assert asyncio.run(count(addresses[9], 1))["structuredContent"] == {"counted": 1}
    for replica in replicas:
        assert replica.end(signal.SIGTERM) == 0


def refusal(*arguments: str) -> str:
    ended = subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, cwd=REPOSITORY
    )
    assert ended.returncode in (1, 2)
    assert ended.stdout == ""
    return ended.stderr


def test_command_reports_configuration_errors_in_one_sentence(
    server: Server, tmp_path: Path
) -> None:
    foreign = server.new_url().rpartition("=")[2]
    server.execute(f"CREATE SCHEMA {foreign}")
    server.execute(f"CREATE TABLE {foreign}.meta (anything text)")
    server.execute("DROP ROLE IF EXISTS guarded")
    server.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    guarded = server.url(user="guarded:wrong")
    for arguments, says in (
        (["worker"], "requires a PostgreSQL store: --store postgresql://..."),
        (["worker", "no_such.py"], "there is no file"),
        (["worker", "--concurrency", "0"], "limits.concurrency must be from 1"),
        (["worker", "--concurrency", "many"], "invalid int value: 'many'"),
        (["worker", "--store", guarded], "refuses the password of this user"),
        (["worker", "--store", "postgresql://a@127.0.0.1:1/b"], "cannot be reached"),
        (["worker", "--store", server.url(foreign)], "belongs to another program"),
        (["serve", "--stdio", "--engine", "celery"], "engine must be one of local, procrastinate"),
        (
            ["serve", "--stdio", "--engine", "procrastinate", "--store", f"sqlite:{tmp_path}/t.db"],
            "the engine procrastinate requires a PostgreSQL store",
        ),
    ):
        said = refusal(*arguments)
        assert says in said
        assert "Traceback" not in said
        assert "wrong" not in said
