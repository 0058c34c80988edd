"""After the last fault, clients that follow a task at any replica are notified of its end."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, Final

import httpx

from tests.chaos.clients import Client
from tests.chaos.fleet import Fleet, Member
from tests.chaos.record import Channel, Evidence
from tests.chaos.wire import Caller
from tests.lifecycle.wire.observations import is_terminal
from tests.lifecycle.wire.record import JSON, NEW, OLD

__all__ = ["check_delivery"]

DELIVERED_S: Final = 20.0
OWNER: Final = "ann"


async def check_delivery(
    fleet: Fleet, evidence: Evidence, http: httpx.AsyncClient, seed: int
) -> None:
    """For each replica: create a task there, answer it at any replica, watch it at all."""
    for number, replica in enumerate(fleet.replicas):
        await _Scenario(fleet, evidence, http, seed, number, replica).run()


class _Scenario:
    """One task in a session of 2025-11-25 that has its GET stream at another replica."""

    def __init__(
        self, fleet: Fleet, evidence: Evidence, http: httpx.AsyncClient, seed: int, number: int,
        replica: Member,
    ) -> None:  # fmt: skip
        self._evidence = evidence
        self._client = Client(OWNER, 1_000 + number, fleet, evidence, http, seed, {})
        self._channels: list[Channel] = []
        self._watchers: list[Caller] = []
        for one in fleet.replicas:
            self._watchers.append(Caller(OWNER, fleet, evidence, http, random.Random(seed)))
            self._watchers[-1].replica = one
        self._here, self._there = replica, fleet.replicas[number - 1]

    async def run(self) -> None:
        streams: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout(DELIVERED_S):
                await self._follow(streams)
        except TimeoutError:
            pushed = [f"{c.kind}: {[p.status for p in c.pushes]}" for c in self._channels]
            self._evidence.complaints.append(
                f"a task created at {self._here.name} did not reach every stream in"
                f" {DELIVERED_S:g} s: {pushed}"
            )
        finally:
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*streams, return_exceptions=True)

    async def _follow(self, streams: list[asyncio.Task[None]]) -> None:
        caller = self._client.caller
        await caller.new_session()
        caller.replica = self._there
        streams.append(await self._open(caller.listen(_ignore)))
        caller.replica = self._here
        task_id = None
        while task_id is None:
            task_id = await self._client.create("asking", OLD)
        for watcher in self._watchers:
            streams.append(await self._open(watcher.watch([task_id])))
        caller.replica = None
        while True:
            shown = (await caller.ask(NEW, "tasks/get", {"taskId": task_id})).result or {}
            if shown.get("inputRequests"):
                await self._client.answer(task_id, list(shown["inputRequests"]))
            if all(self._has_delivered(channel, task_id) for channel in self._channels):
                return
            await asyncio.sleep(0.1)

    async def _open(self, following: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Open a stream and wait until the server has accepted it."""
        known = len(self._evidence.channels)
        stream = asyncio.create_task(following)
        while len(self._evidence.channels) == known or not self._evidence.channels[known].is_open:
            await asyncio.sleep(0.01)
        self._channels.append(self._evidence.channels[known])
        return stream

    def _has_delivered(self, channel: Channel, task_id: str) -> bool:
        wire = NEW if channel.kind == "watch" else OLD
        statuses = (push.status for push in channel.pushes if push.task_id == task_id)
        return any(is_terminal(status, wire) for status in statuses)


async def _ignore(message: JSON) -> None:
    """Another caller answers the questions."""
