"""`wake` and `notify`: the latency from the end of a task to a waiting client.

A task of the tool `hold` ends when a plain call of the tool `release` names its key.  The clock
runs from the sending of that call to the arrival of the news, so it includes one request, which
is the same for all servers and needs no timestamps from them.  Tasks are released one by one
while the other clients continue to wait; releasing all at once would measure throughput instead.

Run as a module, it reads a `Job` from its input and writes `Delays`.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import attrs

from taskmachine.adapters.cli.bench.clients import connected, run_as_client, run_client
from taskmachine.adapters.cli.bench.connection import Connection, Script, WrongAnswer
from taskmachine.adapters.cli.bench.dialogs import DIALOGS, Dialog
from taskmachine.adapters.cli.bench.figures import percentile
from taskmachine.adapters.cli.bench.requester import Frame, decode, hold
from taskmachine.adapters.cli.bench.rounds import Measure, Round, Taken
from taskmachine.adapters.cli.bench.streams import Listening

__all__ = ["NOTIFY", "WAKE", "Delays", "Job"]

ALL_S: Final = 60
EACH_S: Final = 5
SETTLE_S: Final = 1.0
"""Time for waiters to settle, as some servers begin a stream only after a delay."""


@attrs.frozen
class Job:
    dialog: str
    path: str
    port: int
    waiters: int
    """Number of clients that wait at the same time."""
    notices: int
    """Number of notifications, one after the other on streams of changes, if there are no waiters.
    """
    settle_s: float


@attrs.frozen
class Delays:
    seconds: list[float]


class Waiter:
    """A client with a held task and a connection for news of it."""

    def __init__(self, dialog: Dialog, key: str) -> None:
        self.dialog = dialog
        self.key = key
        self.task_id = ""
        self.news: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._counts: Callable[[dict[str, Any], str], bool] = dialog.is_end
        self._stream: Listening | None = None

    async def begin(self, connection: Connection) -> None:
        self.task_id = await connection.play(self.dialog.create(hold(self.key)))

    async def listen(self, port: int, *, to_changes: bool) -> None:
        loop = asyncio.get_running_loop()
        _, self._stream = await loop.create_connection(
            lambda: Listening(self._on_message, self._on_error), "127.0.0.1", port
        )
        dialog = self.dialog
        self._counts = dialog.is_news if to_changes else dialog.is_end
        self._stream.send(dialog.listen(self.task_id) if to_changes else dialog.wait(self.task_id))

    def forget(self) -> None:
        """Discard news that came before the release, such as the status `working`."""
        if self.news.done():
            self.news.result()  # raises a refusal
        self.news = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self.news.done():
            self.news.exception()

    def _on_message(self, text: bytes) -> None:
        now = time.perf_counter()
        message = decode(text)
        if not self.news.done():
            if self._counts(message, self.task_id):
                self.news.set_result(now)
            elif "error" in message:
                self._on_error(WrongAnswer(f"refused: {text[:200]!r}"))

    def _on_error(self, error: Exception) -> None:
        if not self.news.done():
            self.news.set_exception(error)


async def released(waiter: Waiter, dialog: Dialog, connection: Connection) -> float:
    """Release the task; return the seconds until its client received the news."""
    begun = 0.0

    def asking() -> Script[None]:
        nonlocal begun
        request = dialog.release(waiter.key)
        begun = time.perf_counter()
        answer = yield request
        if answer.status != 200 or "result" not in decode(answer.messages()[-1]):
            raise WrongAnswer(f"release: HTTP {answer.status} {answer.body[:200]!r}")

    await connection.play(asking())
    try:
        async with asyncio.timeout(EACH_S):
            return await waiter.news - begun
    except TimeoutError:
        raise WrongAnswer(f"no news within {EACH_S} s") from None


async def play(job: Job) -> Delays:
    make = DIALOGS[job.dialog]
    frame = Frame(f"127.0.0.1:{job.port}", job.path)
    asking = make(frame)
    async with asyncio.timeout(ALL_S), connected(job.port) as connection:
        await connection.play(asking.open())
        if job.waiters:
            return Delays(await _woken(job, lambda: make(frame), asking, connection))
        return Delays(await _notified(job, lambda: make(frame), asking, connection))


async def _woken(
    job: Job, make: Callable[[], Dialog], asking: Dialog, connection: Connection
) -> list[float]:
    waiters: list[Waiter] = []
    try:
        return await _all_woken(job, make, asking, connection, waiters)
    finally:
        for waiter in waiters:
            waiter.close()


async def _all_woken(
    job: Job,
    make: Callable[[], Dialog],
    asking: Dialog,
    connection: Connection,
    waiters: list[Waiter],
) -> list[float]:
    for number in range(job.waiters):
        waiter = Waiter(make(), f"wake {number}")
        waiters.append(waiter)
        async with connected(job.port) as own:
            await own.play(waiter.dialog.open())
            await waiter.begin(own)
        await waiter.listen(job.port, to_changes=False)
    await asyncio.sleep(job.settle_s)
    for waiter in waiters:
        if waiter.news.done():
            waiter.news.result()  # raises a refusal
            raise WrongAnswer("a task ended before it was released")
    return [await released(waiter, asking, connection) for waiter in waiters]


async def _notified(
    job: Job, make: Callable[[], Dialog], asking: Dialog, connection: Connection
) -> list[float]:
    delays = []
    for number in range(job.notices):
        waiter = Waiter(make(), f"notice {number}")
        async with connected(job.port) as own:
            await own.play(waiter.dialog.open())
            await waiter.begin(own)
            await waiter.listen(job.port, to_changes=True)
            await asyncio.sleep(job.settle_s / 20)
            waiter.forget()
            delays.append(await released(waiter, asking, connection))
            waiter.close()
    return delays


def _values(one_round: Round, waiters: int, notices: int) -> dict[str, float]:
    one, workload = one_round.contestant, one_round.workload
    settle_s = min(SETTLE_S, workload.seconds)
    job = Job(one.dialog, one.path, one_round.address.port, waiters, notices, settle_s)
    delays = run_client("wakeup_latency", job, Delays, ALL_S + 20).seconds
    return {"p50_ms": percentile(delays, 0.5) * 1e3, "p99_ms": percentile(delays, 0.99) * 1e3}


def _wake(one_round: Round) -> Taken:
    waiters = one_round.workload.waiters
    return {f"{waiters} waiters": _values(one_round, waiters, 0)}


def _notify(one_round: Round) -> Taken:
    return {"one stream": _values(one_round, 0, one_round.workload.notices)}


WAKE: Final = Measure("wake", _wake)
NOTIFY: Final = Measure("notify", _notify)


if __name__ == "__main__":
    sys.exit(run_as_client(Job, play))
