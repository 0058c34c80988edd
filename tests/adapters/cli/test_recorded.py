"""Recorded steps, sleeps and failed attempts in `taskmachine tasks`, on the file of a server."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from taskmachine.adapters.cli.main import main
from taskmachine.adapters.rendering.recorded import MOST_CHARS, read_record
from taskmachine.adapters.rendering.waiting import short_time, waiting_text
from taskmachine.adapters.runtime.runtime import open_runtime
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.recorded import MAX_KEY, MAX_RECORD
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.tools.retries import Again, Retry
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.protocol.operations import Create
from taskmachine.protocol.timestamps import decode_timestamp, encode_timestamp
from taskmachine.statemachine import Call, State, Task
from tests.adapters.memory_service import HOUR, MemoryService

URL = "sqlite:tasks.db"
DAY = 24 * HOUR
NOON = 1_700_049_600_000  # 2023-11-15 12:00:00 UTC
tools = Tools()


async def fetch(pages: int) -> dict[str, int]:
    return {"pages": pages}


@tools.task()
async def digest(ctx: Context) -> None:
    await ctx.step("fetch", fetch, 3)
    await ctx.sleep("nap", hours=3)


@tools.task(retries=5)
async def order(ctx: Context) -> None:
    try:
        raise ConnectionError("password=hunter2 was refused")
    except ConnectionError as error:
        raise Retry(after=7_200, reason="The shop is closed") from error


@tools.task()
async def many(ctx: Context) -> None:
    for number in range(25):
        await ctx.step(f"page {number}", fetch, number)
    await ctx.sleep("nap", hours=3)


async def made() -> dict[str, Task]:
    """Run the tools until they wait, and return the tasks by tool."""
    tasks: dict[str, Task] = {}
    async with open_runtime(URL, tools) as runtime:
        for name in ("digest", "order", "many"):
            task = await runtime.create("alice", Create(Call("tools/call", name)))
            while task.due_at is None:
                task = await runtime.service.wait("alice", task.id, after=task.version)
            tasks[name] = task
    return tasks


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Task]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return asyncio.run(made())


Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> str:
        capsys.readouterr()
        assert main(("tasks", *arguments, "--store", URL)) == 0
        return capsys.readouterr().out

    return run


def rows(shown: str) -> list[tuple[str, str]]:
    cells = (line.partition("  ") for line in shown.splitlines())
    return [(name, value.strip()) for name, _, value in cells]


def due(task: Task) -> str:
    assert task.due_at is not None
    return encode_timestamp(task.due_at).replace("T", " ").removesuffix("Z")


def test_a_task_that_sleeps_shows_its_steps_and_until_when(
    tasks: dict[str, Task], run: Run
) -> None:
    task = tasks["digest"]
    shown = dict(rows(run("show", task.id)))
    assert re.fullmatch(rf"sleeps until {due(task)} UTC, in (2|3)h", shown["waiting"])
    assert shown["step"] == 'fetch, 11 bytes: {"pages":3}'
    assert shown["sleep"] == f"nap until {due(task)[:19]} UTC"
    assert not {"failed attempts", "last error"} & shown.keys()
    document = json.loads(run("show", task.id, "--json"))
    step, sleep = document["recorded"]
    assert step == {"kind": "step", "key": "fetch", "size": 11, "result": '{"pages":3}'}
    assert (sleep["kind"], sleep["key"]) == ("sleep", "nap")
    assert decode_timestamp(document["dueAt"]) == task.due_at
    assert (document["recordedCount"], document["failures"], document["lastError"]) == (2, 0, None)


def test_a_task_that_waits_for_a_retry_shows_the_attempt_and_its_error(
    tasks: dict[str, Task], run: Run
) -> None:
    task = tasks["order"]
    shown = dict(rows(run("show", task.id)))
    assert shown["waiting"].startswith(f"attempt 2 of 6 from {due(task)} UTC, in ")
    assert shown["failed attempts"] == "1"
    assert shown["last error"] == "Retry('The shop is closed')"
    assert shown["message"].startswith("Attempt 1 of 6 failed: The shop is closed; ")
    document = json.loads(run("show", task.id, "--json"))
    assert (document["failures"], document["lastError"]) == (1, "Retry('The shop is closed')")
    assert (document["losses"], document["recorded"]) == (0, [])


def test_a_list_says_what_tasks_wait_for(tasks: dict[str, Task], run: Run) -> None:
    lines = {line.split()[2]: line for line in run("list", "--owner", "alice").splitlines()[2:]}
    assert lines["digest"].rstrip().endswith(f"  sleeps until {due(tasks['digest'])[11:19]}")
    assert lines["order"].rstrip().endswith(f"  attempt 2 of 6 from {due(tasks['order'])[11:19]}")
    assert max(map(len, lines.values())) <= 100
    assert all("recorded" not in task for task in json.loads(run("list", "--json")))


def test_a_history_shows_recorded_steps(tasks: dict[str, Task], run: Run) -> None:
    shown = run("history", tasks["digest"].id)
    assert re.search(r"report +working +working +step fetch, 11 bytes: ", shown)
    assert re.search(r"report +working +working +sleep nap until ", shown)
    assert max(map(len, shown.splitlines())) <= 100
    entries = json.loads(run("history", tasks["digest"].id, "--json"))
    recorded = [entry["recorded"] for entry in entries]
    assert [record and record["key"] for record in recorded] == [None, None, "fetch", "nap", None]


def test_a_task_shows_its_latest_steps(tasks: dict[str, Task], run: Run) -> None:
    shown = rows(run("show", tasks["many"].id))
    steps = [value for name, value in shown if name in ("step", "sleep")]
    assert ("steps", "6 earlier ones: see tasks history") in shown
    assert len(steps) == 20
    assert steps[0].startswith("page 6, ")
    assert steps[-1].startswith("nap until ")
    assert len(json.loads(run("show", tasks["many"].id, "--json"))["recorded"]) == 26


# --- one record ------------------------------------------------------------------------------


def record(kind: str, key: str, result: Any) -> bytes:
    return encode_json({"kind": kind, "key": key, "request": "", "result": result})


def test_a_long_result_is_shortened() -> None:
    key, text = "k" * MAX_KEY, "é" * (MAX_RECORD // 2 - 400)
    data = record("step", key, text)
    assert len(data) <= MAX_RECORD
    shown = read_record(data)
    assert (shown.key, shown.size) == (key, 2 * len(text) + 2)
    assert shown.result == f'"{"é" * (MOST_CHARS - 1)}…'
    assert len(shown.words) < MAX_KEY + MOST_CHARS + 30
    exact = read_record(record("step", "a", "x" * (MOST_CHARS - 2)))
    assert exact.result == f'"{"x" * (MOST_CHARS - 2)}"'


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (record("step", "a", None), "a, 4 bytes: null"),
        (record("sleep", "a", NOON), "a until 2023-11-15 12:00:00 UTC"),
        (record("sleep", "a", 10**20), "a until 9999-12-31 23:59:59 UTC"),
        (b"[1]", ", 3 bytes: [1]"),
        (b"\xff", ", 1 byte: \\xff"),
    ],
)
def test_a_record_in_words(data: bytes, words: str) -> None:
    assert read_record(data).words == words


# --- what a task waits for -------------------------------------------------------------------


def waits(task: Task) -> str | None:
    return waiting_text(task, lambda at: short_time(at, NOON))


async def test_a_sleep_after_a_retry_is_not_taken_for_a_retry() -> None:
    """The message of the earlier retry is still there."""
    there = MemoryService()
    there.clock.now = NOON
    task = await there.create()
    assert waits(task) is None
    held = await there.claim(task.id)
    await held.try_again(Again(HOUR / 1_000, "RuntimeError()", "no\nconnection"), 6)
    retried = await there.service.get("alice", task.id)
    assert waits(retried) == "attempt 2 of 6 from 13:00:00"
    there.clock.now += HOUR
    held = await there.claim(task.id)
    assert waits(held.task) is None
    await held.park(NOON + DAY)
    sleeping = await there.service.get("alice", task.id)
    assert (sleeping.message, sleeping.failures) == (retried.message, 1)
    assert waits(sleeping) == "sleeps until 2023-11-16 12:00"
    assert waits(attrs.evolve(sleeping, due_at=NOON + DAY - 1)) == "sleeps until 11:59:59"


async def test_a_task_that_is_to_start_later_says_so() -> None:
    task = attrs.evolve(await MemoryService().create(), due_at=NOON)
    assert waits(task) == "starts at 12:00:00"
    assert waits(attrs.evolve(task, state=State.WORKING)) is None
