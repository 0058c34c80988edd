"""How long a session is kept, whoever uses it; in one process, where time passes as we like."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from taskmachine.adapters.runtime.runtime import Surroundings
from taskmachine.adapters.stores import KeptSession
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.transports.http import application as http
from taskmachine.adapters.transports.http import sessions
from taskmachine.adapters.transports.settings import Transport
from tests.adapters.transports.wire import Caller, Gate, callers, serving

IDLE_S = 1_000.0
LOOK_S = 0.01


class Times:
    """A clock that can be put forward."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def pass_by(self, part: float) -> None:
        """So much of the time for which a session is kept."""
        self._ahead_ms += round(IDLE_S * part * 1_000)


class Watched(MemoryStore):
    """Counts how often a session was looked for, and may be told to end it right after."""

    looks = 0
    is_ending = False

    async def session(self, key: str) -> KeptSession | None:
        kept = await super().session(key)
        self.looks += 1
        if self.is_ending:
            await self.end_session(key)
        return kept

    async def until_looked(self) -> None:
        """Twice from now on: the first look may have begun before."""
        before = self.looks
        async with asyncio.timeout(20):
            while self.looks < before + 2:
                await asyncio.sleep(LOOK_S)


def with_replicas(act: Callable[[Caller, Caller, Watched, Times], Awaitable[None]]) -> None:
    """Two servers on one store, and one session: a caller of it at each of them."""

    async def main() -> None:
        store, clock, gate = Watched(b"s" * 32), Times(), Gate()
        world, transport = Surroundings(clock=clock), Transport(session_idle_s=IDLE_S)
        async with (
            serving(gate.tools, store, world=world, transport=transport) as one_url,
            serving(gate.tools, store, world=world, transport=transport) as other_url,
            callers(one_url) as [one],
            callers(other_url) as [other],
        ):
            await one.introduce()
            other.headers, other.is_legacy = one.headers, True
            await act(one, other, store, clock)

    asyncio.run(main())


async def status_of_ping(caller: Caller) -> int:
    return (await caller.post({"id": "ping", "method": "ping"})).status_code


def test_a_session_that_is_used_anywhere_is_kept_everywhere() -> None:
    async def act(one: Caller, other: Caller, store: Watched, clock: Times) -> None:
        for caller in (one, other, other, one):
            clock.pass_by(0.7)
            assert await status_of_ping(caller) == 200
        clock.pass_by(1.1)
        assert await status_of_ping(other) == 404
        assert await status_of_ping(one) == 404

    with_replicas(act)


@pytest.mark.parametrize("how", ["listens", "waits"])
def test_a_session_in_which_somebody_waits_is_used(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "LOOK_S", LOOK_S)
    monkeypatch.setattr(http, "TIDY_S", LOOK_S)

    async def act(one: Caller, other: Caller, store: Watched, clock: Times) -> None:
        task_id = await one.create("wait", {})
        waiting = one.stream("tasks/result", {"taskId": task_id}, id="r")
        async with one.listen() if how == "listens" else waiting:
            for _ in range(3):
                clock.pass_by(0.7)
                await store.until_looked()
            assert await status_of_ping(other) == 200

    with_replicas(act)


@pytest.mark.parametrize("how", ["listens", "waits"])
def test_what_waits_in_a_session_ends_with_it(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LOOK_S", LOOK_S)
    monkeypatch.setattr(http, "TIDY_S", LOOK_S)

    async def act(one: Caller, other: Caller, store: Watched, clock: Times) -> None:
        task_id = await one.create("wait", {})
        waiting = one.stream("tasks/result", {"taskId": task_id}, id="r")
        async with one.listen() if how == "listens" else waiting as events:
            gone = await other.client.delete(other.url, headers=other.headers)
            assert gone.status_code == 204
            with pytest.raises(EOFError):
                await events.next()
        assert await status_of_ping(one) == 404

    with_replicas(act)


def test_a_session_that_was_ended_is_not_kept_again() -> None:
    """Whoever was just about to keep it for longer is too late."""

    async def act(one: Caller, other: Caller, store: Watched, clock: Times) -> None:
        clock.pass_by(0.7)
        store.is_ending = True
        assert await status_of_ping(one) == 404
        store.is_ending = False
        assert await status_of_ping(one) == 404
        assert await status_of_ping(other) == 404

    with_replicas(act)


@pytest.mark.parametrize(
    "last_id",
    [
        "",
        ".",
        "g",
        "g-.",
        "g1-x",
        "g1-x.",
        "g1-x.-1",
        f"g{'9' * 30}-x.1",
        f"g1-x.{'9' * 30}",
        "x.1",
    ],
)
def test_an_event_of_no_stream_begins_a_new_one(last_id: str) -> None:
    async def act(one: Caller, other: Caller, store: Watched, clock: Times) -> None:
        task_id = await one.create("wait", {})
        async with other.listen(last_id) as events:
            await other.call("tasks/cancel", {"taskId": task_id})
            told = await events.until("notifications/tasks/status")
            assert (told["params"]["taskId"], told["params"]["status"]) == (task_id, "cancelled")

    with_replicas(act)
