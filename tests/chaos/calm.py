"""When the faults are over: whoever follows a task is told of its end, at whatever replica."""

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

__all__ = ["everybody_is_told"]

TOLD_S: Final = 20.0
OWNER: Final = "ann"


async def everybody_is_told(
    fleet: Fleet, evidence: Evidence, http: httpx.AsyncClient, seed: int
) -> None:
    """A task for each replica: created there, answered anywhere, watched everywhere."""
    for number, replica in enumerate(fleet.replicas):
        await _Scene(fleet, evidence, http, seed, number, replica).play()


class _Scene:
    """One task in a session of 2025-11-25, which has its general stream at another replica."""

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

    async def play(self) -> None:
        streams: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout(TOLD_S):
                await self._play(streams)
        except TimeoutError:
            told = [f"{c.kind}: {[p.status for p in c.pushes]}" for c in self._channels]
            self._evidence.complaints.append(
                f"not everybody was told in {TOLD_S:g} s of a task at {self._here.name}: {told}"
            )
        finally:
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*streams, return_exceptions=True)

    async def _play(self, streams: list[asyncio.Task[None]]) -> None:
        caller = self._client.caller
        await caller.new_session()
        caller.replica = self._there
        streams.append(await self._open(caller.listen(_nothing)))
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
            if all(self._has_told(channel, task_id) for channel in self._channels):
                return
            await asyncio.sleep(0.1)

    async def _open(self, following: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin to follow, and wait until the server has agreed."""
        known = len(self._evidence.channels)
        stream = asyncio.create_task(following)
        while len(self._evidence.channels) == known or not self._evidence.channels[known].is_open:
            await asyncio.sleep(0.01)
        self._channels.append(self._evidence.channels[known])
        return stream

    def _has_told(self, channel: Channel, task_id: str) -> bool:
        wire = NEW if channel.kind == "watch" else OLD
        told = (push.status for push in channel.pushes if push.task_id == task_id)
        return any(is_terminal(status, wire) for status in told)


async def _nothing(message: JSON) -> None:
    """Questions are answered elsewhere."""
