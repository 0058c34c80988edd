"""Loads: clients that send requests continuously, and the floor with as many clients.

Run as a module, it reads a `Job` from its input and writes `Figures`.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

import attrs

from taskmachine.adapters.cli.bench.clients import connect, run_as_client
from taskmachine.adapters.cli.bench.connection import Connection, Script, WrongAnswer
from taskmachine.adapters.cli.bench.dialogs import DIALOGS, Dialog, constant
from taskmachine.adapters.cli.bench.processes import Address, processor_seconds
from taskmachine.adapters.cli.bench.requester import Frame, Work, sized

__all__ = ["Client", "Figure", "Figures", "Job", "Kind", "Load", "Turn", "load", "repeated"]

PATIENCE_S: Final = 30
"""How long after the end of a load its last requests may take."""

Kind = Literal["get", "task"]


@attrs.frozen
class Load:
    """What to do, and by how many clients."""

    kind: Kind
    clients: int
    size: int = 0
    """Length of the result in characters; 0: the standard text."""


@attrs.frozen
class Job:
    dialog: str
    path: str
    subject: Address
    floor: Address
    loads: list[Load]
    """In sequence."""
    seconds: float
    warm_seconds: float
    """Duration of an uncounted warm-up before the first load of each kind."""
    most: int
    """Maximum operations per client and load, even if time remains."""


@attrs.frozen
class Figure:
    done: int
    sent: int
    """Number of requests sent."""
    seconds: float
    client_s: float
    """Processor time of the client."""
    server_s: float

    def __add__(self, other: "Figure") -> "Figure":
        both = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return Figure(*(mine + its for mine, its in both))

    @property
    def rate(self) -> float:
        return self.done / self.seconds

    @property
    def sent_each(self) -> float:
        return self.sent / self.done

    @property
    def cost_us(self) -> float:
        """Processor time of the server per request."""
        return self.server_s / self.sent * 1e6


@attrs.frozen
class Turn:
    """One load, with the floor under the same number of clients before and after it."""

    subject: Figure
    floor: Figure

    @property
    def share(self) -> float:
        """The rate as a fraction of the floor's, for an equal number of requests."""
        return self.subject.rate * self.subject.sent_each / self.floor.rate

    @property
    def share_by_cpu(self) -> float:
        """The share by processor time, unaffected by other processes and idle time."""
        return self.floor.cost_us / self.subject.cost_us


@attrs.frozen
class Figures:
    turns: list[Turn]
    """The successful loads."""
    failed: str = ""
    """Why the next load failed."""


class Client:
    """A connection to the subject, one to the floor, and a completed task."""

    def __init__(self, dialog: Dialog, subject: Connection, floor: Connection) -> None:
        self.dialog = dialog
        self.subject = subject
        self.floor = floor
        self.known = ""
        self._work: Work | None = None

    async def open(self) -> None:
        await self.subject.play(self.dialog.open())

    async def prepare(self, work: Work) -> None:
        """Create and complete a task of this work, if there is none yet."""
        if self._work == work:
            return
        self._work = work
        self.known = await self.subject.play(self.dialog.create(work))
        await self.subject.play(self.dialog.finish(self.known, work))

    async def answer(self, one: Load, work: Work) -> bytes:
        """Return the body for the floor: an answer to `tasks/get`, or the one with the payload."""
        has_payload = one.kind == "task" and one.size
        ask = self.dialog.finish if has_payload else self.dialog.get
        return await self.subject.play(ask(self.known, work))

    def one_task(self, work: Work) -> Script[None]:
        task_id = yield from self.dialog.create(work)
        yield from self.dialog.finish(task_id, work)


def repeated(make: Callable[[], Script[object]], until: float, most: int) -> Script[int]:
    """Repeat a script until the time or count limit, but at least once."""
    done = 0
    while True:
        yield from make()
        done += 1
        if done >= most or time.perf_counter() >= until:
            return done


def put(body: bytes) -> Script[None]:
    answer = yield b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )
    if answer.body != body:
        raise WrongAnswer("the floor did not take the constant")


async def load(
    pid: int,
    seconds: float,
    most: int,
    parts: Sequence[tuple[Connection, Callable[[], Script[object]]]],
) -> Figure:
    """Play the script of each connection repeatedly."""
    before = sum(connection.sent for connection, _ in parts)
    of_server, of_client = processor_seconds(pid), time.process_time()
    start = time.perf_counter()
    try:
        async with asyncio.timeout(seconds + PATIENCE_S):
            done = await asyncio.gather(
                *(
                    connection.play(repeated(make, start + seconds, most))
                    for connection, make in parts
                )
            )
    except TimeoutError:
        raise WrongAnswer(f"{len(parts)} clients were not answered in {PATIENCE_S} s") from None
    took = time.perf_counter() - start
    return Figure(
        sum(done),
        sum(connection.sent for connection, _ in parts) - before,
        took,
        time.process_time() - of_client,
        processor_seconds(pid) - of_server,
    )


async def take_turn(
    job: Job, one: Load, clients: Sequence[Client], body: bytes, *, is_first: bool
) -> Turn:
    work = sized(one.size)

    def floor_of(client: Client) -> Callable[[], Script[object]]:
        return lambda: constant(client.dialog, clients[0].known, body)

    def subject_of(client: Client) -> Callable[[], Script[object]]:
        if one.kind == "task":
            return lambda: client.one_task(work)
        return lambda: client.dialog.get(client.known, work)

    floor = [(client.floor, floor_of(client)) for client in clients]
    subject = [(client.subject, subject_of(client)) for client in clients]
    if job.warm_seconds and is_first:
        await load(job.floor.pid, job.warm_seconds / 2, job.most, floor)
        await load(job.subject.pid, job.warm_seconds, job.most, subject)
    before = await load(job.floor.pid, job.seconds / 4, job.most, floor)
    between = await load(job.subject.pid, job.seconds, job.most, subject)
    after = await load(job.floor.pid, job.seconds / 4, job.most, floor)
    return Turn(between, before + after)


async def play(job: Job) -> Figures:
    """Run the loads up to the first failure, after which the connections are unusable."""
    clients: list[Client] = []
    turns: list[Turn] = []
    failed = ""
    for one in job.loads:
        try:
            turns.append(await _prepared_turn(job, one, clients))
        except (WrongAnswer, OSError, TimeoutError) as error:
            failed = str(error) or type(error).__name__
            break
    for client in clients:
        client.subject.close()
        client.floor.close()
    return Figures(turns, failed)


async def _prepared_turn(job: Job, one: Load, clients: list[Client]) -> Turn:
    """Add missing clients, prepare the tasks, and run one load."""
    async with asyncio.timeout(2 * PATIENCE_S):
        while len(clients) < one.clients:
            dialog = DIALOGS[job.dialog](Frame(f"127.0.0.1:{job.subject.port}", job.path))
            both = await connect(job.subject.port), await connect(job.floor.port)
            clients.append(Client(dialog, *both))
            await clients[-1].open()
        mine, work = clients[: one.clients], sized(one.size)
        # Whole tasks need no existing one, except to prepare the answer of the floor.
        for client in mine if one.kind == "get" else mine[:1]:
            await client.prepare(work)
        body = await mine[0].answer(one, work)
        await mine[0].floor.play(put(body))
    is_first = one == next(each for each in job.loads if each.kind == one.kind)
    return await take_turn(job, one, mine, body, is_first=is_first)


if __name__ == "__main__":
    sys.exit(run_as_client(Job, play))
