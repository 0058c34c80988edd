"""Clients of both revisions that retry while the server is killed and restarted."""

import asyncio
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import attrs

from taskmachine.adapters.stores import open_store
from taskmachine.statemachine import State
from tests.wire_faults.clients import Modern, Session, text_of
from tests.wire_faults.server_process import TOKEN, Server, one_token, serving
from tests.wire_faults.wire import Events

__all__ = ["Campaign", "campaign"]

PATIENCE_S: Final = 60.0
_ENDS: Final = (State.COMPLETED, State.FAILED, State.CANCELLED)


@attrs.define
class Campaign:
    """The figures and violations of a campaign."""

    tasks: int
    kills: int
    wrong: list[str] = attrs.field(factory=list)
    retries: int = 0
    """How often a client retried after a broken or refused connection."""
    completed: int = 0
    lost_workers: int = 0
    took_s: float = 0.0


def campaign(folder: Path, tasks: int, kills: int, *, with_token: bool, seed: int = 1) -> Campaign:
    """Create the tasks, then kill the server repeatedly while a client waits for each task."""
    settings: dict[str, Any] = {"limits": {"blocked_calls": 1_000}}
    if with_token:
        settings["auth"] = one_token(folder)
    outcome, chance = Campaign(tasks, kills), random.Random(seed)
    began = time.monotonic()
    created = threading.Barrier(tasks + 1)
    with serving(folder, **settings) as server, ThreadPoolExecutor(tasks) as pool:
        kinds = (_wait_in_session, _poll)
        token = TOKEN if with_token else None
        futures = [
            pool.submit(kinds[number % 2], server, token, number, created)
            for number in range(tasks)
        ]
        try:
            created.wait(PATIENCE_S)
            for _ in range(kills):
                time.sleep(chance.uniform(0.05, 0.4))  # while tasks run
                server.kill()
                server.start()
        except threading.BrokenBarrierError:
            outcome.wrong.append("not every task was created")
        for number, future in enumerate(futures):
            try:
                outcome.retries += future.result(PATIENCE_S)
                outcome.completed += 1
            except (AssertionError, OSError, EOFError, threading.BrokenBarrierError) as error:
                outcome.wrong.append(f"task {number}: {error!r:.400}")
        outcome.took_s = time.monotonic() - began
    asyncio.run(_take_stock(f"sqlite:{folder / 'tasks.db'}", outcome))
    return outcome


def _wait_in_session(
    server: Server, token: str | None, number: int, created: threading.Barrier
) -> int:
    """Wait for a result in a session of 2025-11-25; return the number of retries."""
    session = Session(server, token)
    task_id = session.create("brief", number=number)
    created.wait(PATIENCE_S)
    again = 0
    responses = list[dict[str, Any]]()
    deadline = time.monotonic() + PATIENCE_S
    while len(responses) < 2 and time.monotonic() < deadline:
        try:
            responses.append(_result(session, task_id))
        except (OSError, EOFError):  # the server is down: the only allowed failure
            again += 1
            time.sleep(0.05)
    first, second = responses
    assert text_of(first["result"]) == f"number {number}", first
    assert second["result"] == first["result"], "the result does not change"
    return again


def _result(session: Session, task_id: str) -> dict[str, Any]:
    with session.open("tasks/result", {"taskId": task_id}) as wire:
        status, headers = wire.head()
        assert status == 200, f"{status}: the session was lost"
        if headers["content-type"] == "text/event-stream":
            *_, last = Events(wire)
            response: dict[str, Any] = last.json
            assert "method" not in response, response
            return response
    return session.ask("tasks/result", {"taskId": task_id})


def _poll(server: Server, token: str | None, number: int, created: threading.Barrier) -> int:
    """Poll a task of 2026-07-28 to its end; return the number of retries."""
    modern = Modern(server, token)
    task_id = modern.create("brief", number=number)
    created.wait(PATIENCE_S)
    again, shown = 0, dict[str, Any]()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            shown = modern.get_task(task_id)
        except (OSError, EOFError):
            again += 1
        if shown.get("status") not in (None, "working"):
            break
        time.sleep(0.05)
    assert shown["status"] == "completed", shown
    assert text_of(shown["result"]) == f"number {number}", shown
    return again


async def _take_stock(url: str, outcome: Campaign) -> None:
    store = await open_store(url)
    count = 0
    try:
        async for task, entries in store.export():
            count += 1
            ends = [entry for entry in entries if entry.dest in _ENDS]
            if len(ends) != 1 or task.state is not State.COMPLETED:
                outcome.wrong.append(f"task {task.id} ended {len(ends)} times, now {task.state}")
            outcome.lost_workers += task.losses
    finally:
        await store.close()
    if count != outcome.tasks:
        outcome.wrong.append(f"{count} tasks in the store instead of {outcome.tasks}")
