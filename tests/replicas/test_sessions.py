"""How long a session that several replicas use is kept; in one process, with a fake clock."""

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


class FakeClock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def advance(self, part: float) -> None:
        """Advance by that part of a session's idle time."""
        self._ahead_ms += round(IDLE_S * part * 1_000)


class ObservedStore(MemoryStore):
    """Counts the reads of a session, and can end it right after a read."""

    reads = 0
    is_ending = False

    async def session(self, key: str) -> KeptSession | None:
        kept = await super().session(key)
        self.reads += 1
        if self.is_ending:
            await self.end_session(key)
        return kept

    async def next_read(self) -> None:
        """Wait for two reads: the first one may have first_id before."""
        before = self.reads
        async with asyncio.timeout(20):
            while self.reads < before + 2:
                await asyncio.sleep(LOOK_S)


def with_replicas(
    act: Callable[[Caller, Caller, ObservedStore, FakeClock], Awaitable[None]],
) -> None:
    """Run two servers on one store and one session, with a caller at each server."""

    async def main() -> None:
        store, clock, gate = ObservedStore(b"s" * 32), FakeClock(), Gate()
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


def test_a_session_in_use_at_one_replica_is_kept_at_all() -> None:
    async def act(one: Caller, other: Caller, store: ObservedStore, clock: FakeClock) -> None:
        for caller in (one, other, other, one):
            clock.advance(0.7)
            assert await status_of_ping(caller) == 200
        clock.advance(1.1)
        assert await status_of_ping(other) == 404
        assert await status_of_ping(one) == 404

    with_replicas(act)


@pytest.mark.parametrize("how", ["listens", "waits"])
def test_a_session_with_a_waiting_request_is_in_use(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "LOOK_S", LOOK_S)
    monkeypatch.setattr(http, "TIDY_S", LOOK_S)

    async def act(one: Caller, other: Caller, store: ObservedStore, clock: FakeClock) -> None:
        task_id = await one.create("wait", {})
        waiting = one.stream("tasks/result", {"taskId": task_id}, id="r")
        async with one.listen() if how == "listens" else waiting:
            for _ in range(3):
                clock.advance(0.7)
                await store.next_read()
            assert await status_of_ping(other) == 200

    with_replicas(act)


@pytest.mark.parametrize("how", ["listens", "waits"])
def test_waiting_requests_end_with_their_session(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LOOK_S", LOOK_S)
    monkeypatch.setattr(http, "TIDY_S", LOOK_S)

    async def act(one: Caller, other: Caller, store: ObservedStore, clock: FakeClock) -> None:
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
    """A concurrent request does not extend it."""

    async def act(one: Caller, other: Caller, store: ObservedStore, clock: FakeClock) -> None:
        clock.advance(0.7)
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
def test_an_invalid_event_id_opens_a_new_stream(last_id: str) -> None:
    async def act(one: Caller, other: Caller, store: ObservedStore, clock: FakeClock) -> None:
        task_id = await one.create("wait", {})
        async with other.listen(last_id) as events:
            await other.call("tasks/cancel", {"taskId": task_id})
            params = (await events.until("notifications/tasks/status"))["params"]
            assert (params["taskId"], params["status"]) == (task_id, "cancelled")

    with_replicas(act)
