"""The client of the benchmark, in a process and on a core of its own.

`python -m tests.benchmarks.server_load` reads a `Job` from its input and writes `Figures`.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

import attrs
import cattrs
import msgspec
import uvloop

from tests.benchmarks.server_connection import Connection, Script, WrongAnswer
from tests.benchmarks.server_dialogs import DIALOGS, Dialog, constant
from tests.benchmarks.server_processes import (
    Address,
    core_of_client,
    on_core,
    processor_seconds,
)

__all__ = ["Figure", "Figures", "Job", "Kind", "Turn"]

PATIENCE_S: Final = 30
"""Beyond the time of a load, for what was begun in it."""

Kind = Literal["get", "task"]


@attrs.frozen
class Job:
    revision: str
    path: str
    subject: Address
    floor: Address
    turns: list[tuple[Kind, int]]
    """What to do, and how many clients do it; one after the other."""
    seconds: float
    warm_seconds: float
    """Of the same load before, that is not counted."""
    most: int
    """Of each client in each load, however much time is left."""


@attrs.frozen
class Figure:
    done: int
    sent: int
    """Requests, as they are sent."""
    seconds: float
    client_s: float
    """Of the processor."""
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
        """Of one request, to the server's processor."""
        return self.server_s / self.sent * 1e6


@attrs.frozen
class Turn:
    """One load, with the floor under the same number of clients before and after it."""

    kind: Kind
    clients: int
    subject: Figure
    floor: Figure


@attrs.frozen
class Figures:
    answer_bytes: int
    """Of the answer to `tasks/get`, which the floor repeats."""
    turns: list[Turn]


class Client:
    """A connection to the subject, one to the floor, and a task that is completed."""

    def __init__(self, dialog: Dialog, subject: Connection, floor: Connection) -> None:
        self.dialog = dialog
        self.subject = subject
        self.floor = floor
        self.known = ""

    async def open(self) -> bytes:
        """The answer that the floor is to repeat."""
        await self.subject.play(self.dialog.open())
        self.known = await self.subject.play(self.dialog.create())
        await self.subject.play(self.dialog.finish(self.known))
        return await self.subject.play(self.dialog.get(self.known))

    def one_task(self) -> Script[None]:
        task_id = yield from self.dialog.create()
        yield from self.dialog.finish(task_id)


def repeated(make: Callable[[], Script[object]], until: float, most: int) -> Script[int]:
    """At least once, so that there is something to tell of a server that is very slow."""
    done = 0
    while True:
        yield from make()
        done += 1
        if done >= most or time.perf_counter() >= until:
            return done


async def connect(port: int) -> Connection:
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(Connection, "127.0.0.1", port))[1]


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
    """Each connection plays its script again and again."""
    before = sum(connection.sent for connection, _ in parts)
    of_server, of_client = processor_seconds(pid), time.process_time()
    start = time.perf_counter()
    async with asyncio.timeout(seconds + PATIENCE_S):
        done = await asyncio.gather(
            *(connection.play(repeated(make, start + seconds, most)) for connection, make in parts)
        )
    took = time.perf_counter() - start
    return Figure(
        sum(done),
        sum(connection.sent for connection, _ in parts) - before,
        took,
        time.process_time() - of_client,
        processor_seconds(pid) - of_server,
    )


async def take_turn(job: Job, kind: Kind, clients: Sequence[Client], body: bytes) -> Turn:
    def floor_of(client: Client) -> Callable[[], Script[object]]:
        return lambda: constant(client.dialog, client.known, body)

    def subject_of(client: Client) -> Callable[[], Script[object]]:
        return client.one_task if kind == "task" else lambda: client.dialog.get(client.known)

    floor = [(client.floor, floor_of(client)) for client in clients]
    subject = [(client.subject, subject_of(client)) for client in clients]
    if job.warm_seconds:
        await load(job.floor.pid, job.warm_seconds, job.most, floor)
        await load(job.subject.pid, job.warm_seconds, job.most, subject)
    before = await load(job.floor.pid, job.seconds / 2, job.most, floor)
    between = await load(job.subject.pid, job.seconds, job.most, subject)
    after = await load(job.floor.pid, job.seconds / 2, job.most, floor)
    return Turn(kind, len(clients), between, before + after)


async def play(job: Job) -> Figures:
    clients = [
        Client(
            DIALOGS[job.revision](f"127.0.0.1:{job.subject.port}", job.path),
            await connect(job.subject.port),
            await connect(job.floor.port),
        )
        for _ in range(max(count for _, count in job.turns))
    ]
    async with asyncio.timeout(PATIENCE_S):
        body, *_ = [await client.open() for client in clients]
        await clients[0].floor.play(put(body))
    turns = [await take_turn(job, kind, clients[:count], body) for kind, count in job.turns]
    for client in clients:
        client.subject.close()
        client.floor.close()
    return Figures(len(body), turns)


def main() -> int:
    on_core(core_of_client())
    job = cattrs.structure(msgspec.json.decode(sys.stdin.buffer.read()), Job)
    gc.disable()  # the client makes no circles, and its pauses are not the server's
    try:
        figures = uvloop.run(play(job))
    except (WrongAnswer, OSError, TimeoutError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(cattrs.unstructure(figures)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
