"""The client of `grow`: fill a server in steps and measure the cost of requests at each step.

Run as a module, it reads a `Job` from its input and writes `Steps`.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

import attrs

from taskmachine.adapters.cli.bench.clients import connected, run_as_client
from taskmachine.adapters.cli.bench.connection import Connection, Script, WrongAnswer
from taskmachine.adapters.cli.bench.dialogs import DIALOGS, Dialog
from taskmachine.adapters.cli.bench.load import load
from taskmachine.adapters.cli.bench.processes import Address, resident_bytes
from taskmachine.adapters.cli.bench.requester import Frame, decode

__all__ = ["Job", "Step", "Steps"]

FILLERS: Final = 32
CHUNK: Final = 100_000
"""Tasks per call of `fill`."""
KNOWN: Final = 200
SETTLE_S: Final = 0.5
ROUNDS: Final = 5


@attrs.frozen
class Job:
    dialog: str
    path: str
    server: Address
    sizes: list[int]
    fill_s: float
    """Time limit for filling by requests; 0: use the tool `fill`."""
    seconds: float
    has_pages: bool
    most: int


@attrs.frozen
class Step:
    size: int
    costs_us: dict[str, float]
    """Processor time of the server for each kind of request."""
    resident: int


@attrs.frozen
class Steps:
    empty: int
    """Bytes in memory before filling."""
    steps: list[Step]
    failed: str = ""
    """Why there are no further steps."""


class Client:
    def __init__(self, job: Job, dialog: Dialog, connection: Connection) -> None:
        self._job = job
        self._dialog = dialog
        self._connection = connection
        self._known: list[str] = []
        self._has_pages = False

    async def open(self) -> None:
        await self._connection.play(self._dialog.open())
        for _ in range(20):
            await self._connection.play(self._one())
        try:
            self._has_pages = (
                self._job.has_pages and await self._connection.play(self._dialog.page()) > 0
            )
        except WrongAnswer:  # an empty list, or no tasks/list
            self._has_pages = False

    async def fill(self, count: int) -> None:
        """Fill the store with the tool."""

        def asking(size: int) -> Script[list[str]]:
            answer = yield self._dialog.fill(size)
            message = decode(answer.messages()[-1])
            if "result" not in message:
                raise WrongAnswer(f"fill: {answer.body[:200]!r}")
            ids: str = message["result"]["content"][0]["text"]
            return ids.split()

        for begin in range(0, count, CHUNK):
            self._known += await self._connection.play(asking(min(CHUNK, count - begin)))

    async def costs(self) -> dict[str, float]:
        """Return the minimum over some rounds, as other activity only adds to the cost."""
        acts: dict[str, Callable[[], Script[object]]] = {"create": self._one, "get": self._get}
        if self._has_pages:
            acts["page"] = self._dialog.page
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            for name, act in acts.items():
                figure = await load(
                    self._job.server.pid,
                    self._job.seconds,
                    self._job.most,
                    [(self._connection, act)],
                )
                cost = figure.server_s / figure.done * 1e6
                best[name] = min(cost, best.get(name, cost))
        return best

    def _one(self) -> Script[None]:
        """Create a task and wait for its end, to include the cost of its cleanup."""
        task_id = yield from self._dialog.create()
        yield from self._dialog.finish(task_id)
        self._known = [*self._known[-KNOWN:], task_id]

    def _get(self) -> Script[bytes]:
        return self._dialog.get(random.choice(self._known))


async def fill_by_requests(
    creators: Sequence[tuple[Dialog, Connection]], count: int, until: float
) -> int:
    """Create tasks until the time limit and return their number."""
    left = count

    def creating(dialog: Dialog) -> Script[None]:
        nonlocal left
        while left > 0 and time.perf_counter() < until:
            left -= 1
            yield from dialog.create()

    await asyncio.gather(*(link.play(creating(dialog)) for dialog, link in creators))
    return count - max(left, 0)


async def play(job: Job) -> Steps:
    make, port = DIALOGS[job.dialog], job.server.port
    frame = Frame(f"127.0.0.1:{port}", job.path)
    async with AsyncExitStack() as stack:
        client = Client(job, make(frame), await stack.enter_async_context(connected(port)))
        await client.open()
        creators = []
        for _ in range(FILLERS if job.fill_s else 0):
            dialog, link = make(frame), await stack.enter_async_context(connected(port))
            await link.play(dialog.open())
            creators.append((dialog, link))
        return await _grown(job, client, creators)


async def _grown(job: Job, client: Client, creators: Sequence[tuple[Dialog, Connection]]) -> Steps:
    await asyncio.sleep(min(SETTLE_S, job.seconds))
    empty, there, used_s = resident_bytes(job.server.pid), 0, 0.0
    steps: list[Step] = []
    pace = 0.0
    for size in job.sizes:
        wanted = size - there
        if job.fill_s:
            if pace and wanted * pace > job.fill_s - used_s:
                return Steps(empty, steps, _too_long(size, wanted * pace + used_s, there, used_s))
            begun = time.perf_counter()
            made = await fill_by_requests(creators, wanted, begun + job.fill_s - used_s)
            took = time.perf_counter() - begun
            used_s, pace = used_s + took, took / max(made, 1)
            if made < wanted:
                whole = used_s + (wanted - made) * pace
                return Steps(empty, steps, _too_long(size, whole, there + made, used_s))
        else:
            await client.fill(wanted)
        there = size
        await asyncio.sleep(min(SETTLE_S, job.seconds))
        resident = resident_bytes(job.server.pid)
        steps.append(Step(size, await client.costs(), resident))
    return Steps(empty, steps)


def _too_long(size: int, whole_s: float, there: int, used_s: float) -> str:
    """Extrapolate from the latest pace, a lower limit because most servers get slower."""
    shown = f"{whole_s:.0f} s" if whole_s < 120 else f"{whole_s / 60:.0f} min"
    if whole_s >= 7200:
        shown = f"{whole_s / 3600:.0f} h"
    known = f"{there:,} took {used_s:.0f} s"
    return f"{size:,} tasks would have taken {shown} or more (extrapolated: {known})"


if __name__ == "__main__":
    sys.exit(run_as_client(Job, play))
