"""The scenes of the demo: calls in both revisions side by side, and a server that is killed.

Everything shown is also checked; `Broken` is raised if a check fails.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import attrs

from taskmachine.adapters.cli import operator_actions as operators
from taskmachine.adapters.cli.demo.screen import Bar, Screen, Story, counted_so_far
from taskmachine.adapters.cli.demo.server import STORE, Server
from taskmachine.adapters.cli.demo.tap import Tap, tapping
from taskmachine.adapters.cli.demo.wire import in_words
from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.errors import Cancelled
from taskmachine.adapters.client.generations import REVISIONS
from taskmachine.adapters.client.remote_task import Question, RemoteTask, Update
from taskmachine.adapters.client.session import Session
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import Entry, Event, TaskmachineError

__all__ = ["Broken", "play"]

GENERATIONS: Final = sorted(REVISIONS)
PATIENCE_S: Final = 10.0
"""Timeout of each request, longer than the time for an answer."""

COUNT: Final = {"to": 4, "pause_ms": 300}  # slower than the first polls
LONG_COUNT: Final = {"to": 12, "pause_ms": 150}
KILL_AT: Final = 4
UNWANTED_COUNT: Final = {"to": 25, "pause_ms": 100}
CANCEL_AT: Final = 6


class Broken(TaskmachineError):
    """A check of the demo failed."""


@attrs.frozen
class _Side:
    """One protocol revision: a session, and the tap that records its messages."""

    revision: str
    session: Session
    tap: Tap


_Each = Callable[[str, RemoteTask, Update], Awaitable[None]]


async def play(screen: Screen, folder: Path) -> None:
    """Play all scenes on a server whose store is in the folder."""
    server = Server(folder)
    try:
        await _Play(screen, server).run(folder / STORE)
    finally:
        await server.close()


class _Play:
    def __init__(self, screen: Screen, server: Server) -> None:
        self._screen = screen
        self._server = server
        self._sides: list[_Side] = []
        self._stories: list[Story] = []
        self._asked: asyncio.Task[dict[str, Any] | None] | None = None

    async def run(self, path: Path) -> None:
        """Play all scenes in order."""
        self._screen.title(self._server.command)
        await self._server.start()
        self._screen.say(f"Process {self._server.pid} is listening.")
        async with contextlib.AsyncExitStack() as stack:
            for revision in GENERATIONS:
                self._sides.append(await stack.enter_async_context(self._connected(revision)))
            # On an error, stop the server before the sessions, whose shutdown could take long.
            stack.push_async_exit(self._give_up)
            await self._a_call_becomes_a_task()
            await self._a_tool_asks()
            await self._a_call_is_cancelled()
            await self._a_tool_fails()
            survivors = await self._the_server_is_killed()
        _promise(await self._server.stop() == 0, "the server did not stop with status 0")
        await self._show_the_store(f"sqlite:{path}", survivors)

    async def _give_up(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            await self._server.close()

    @contextlib.asynccontextmanager
    async def _connected(self, revision: str) -> AsyncIterator[_Side]:
        async with (
            tapping(lambda: self._server.port) as (tap, url),
            connect(url, generation=revision, answer=self._answer, timeout=PATIENCE_S) as session,
        ):
            yield _Side(revision, session, tap)

    # --- scenes ----------------------------------------------------------------------------------

    async def _a_call_becomes_a_task(self) -> None:
        self._screen.heading(
            "A call becomes a task: the client decides in 2025-11-25, the server in 2026-07-28."
        )
        stories = await self._with_bars("count", COUNT)
        for story in stories:
            _check(story, "completed", f'{{"counted":{COUNT["to"]}}}')
        self._compare(stories)
        self._screen.say("→ from the client, ← from the server, × repetitions", "dim")  # noqa: RUF001

    async def _a_tool_asks(self) -> None:
        self._screen.heading(
            "A tool asks a person: by a request from the server, or by a question inside the task."
        )
        stories = await self._both("deploy", {"version": "2.0"})
        if self._asked is None:
            raise Broken("the tool did not ask")
        content = self._asked.result()
        is_confirmed = content is not None and content["confirmed"]
        done = "is deployed to test." if is_confirmed else "was not deployed: not confirmed."
        for story in stories:
            _check(story, "completed", f"2.0 {done}")
        self._compare(stories)

    async def _a_call_is_cancelled(self) -> None:
        self._screen.heading(
            "A task is cancelled: tasks/cancel returns the task, or an empty result."
        )

        async def each(_: str, task: RemoteTask, update: Update) -> None:
            if counted_so_far(update) >= CANCEL_AT and update.status == "working":
                await task.cancel()

        stories = await self._with_bars("count", UNWANTED_COUNT, each)
        for story in stories:
            _check(story, "cancelled", "The task was cancelled by request.")
        self._compare(stories)

    async def _a_tool_fails(self) -> None:
        self._screen.heading("A tool fails: reported as failed, or as completed with isError.")
        stories = await self._both("fail", {})
        for story, shown in zip(stories, ("failed", "completed"), strict=True):
            _check(story, shown, "This tool always fails: that is its purpose.")
            _promise(story.is_error, f"{story.revision}: the error of the tool was lost")
        self._compare(stories)

    async def _the_server_is_killed(self) -> Sequence[Story]:
        self._screen.heading(
            "The server is killed during both tasks and restarted: the tasks continue."
        )
        late: set[str] = set(GENERATIONS)
        midway = asyncio.get_running_loop().create_future()

        async def each(revision: str, _: RemoteTask, update: Update) -> None:
            if counted_so_far(update) >= KILL_AT:
                late.discard(revision)
            if not late and not midway.done():
                midway.set_result(None)

        counting = asyncio.create_task(self._with_bars("count", LONG_COUNT, each))
        try:
            await asyncio.wait({counting, midway}, return_when=asyncio.FIRST_COMPLETED)
            if counting.done():
                await counting  # raises its own error
                raise Broken("the tasks ended before the server could be killed")
            first = self._server.pid
            await self._server.kill()
            self._screen.say(f"$ kill -9 {first}", "bold red")
            await self._server.start()
            second = self._server.pid
            self._screen.say(f"Process {second} has recovered both tasks: their tools run again.")
            stories = await counting
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
        for story in stories:
            _check(story, "completed", f'{{"counted":{LONG_COUNT["to"]}}}')
        self._compare(stories)
        return stories

    async def _show_the_store(self, url: str, survivors: Sequence[Story]) -> None:
        self._screen.heading("The store keeps the history of every task.")
        async with operators.existing_store(url) as store:
            histories = [await operators.history(store, story.task_id) for story in self._stories]
        self._screen.summary(self._stories, histories)
        self._screen.history(histories[self._stories.index(survivors[0])])
        for story, entries in zip(self._stories, histories, strict=True):
            _check_history(story, entries, is_survivor=story in survivors)

    # --- calls -----------------------------------------------------------------------------------

    async def _with_bars(
        self, tool: str, arguments: Mapping[str, int], each: _Each | None = None
    ) -> Sequence[Story]:
        with self._screen.bars(GENERATIONS, arguments["to"]) as bars:
            return await self._both(tool, dict(arguments), each, bars)

    async def _both(
        self,
        tool: str,
        arguments: JSONObject,
        each: _Each | None = None,
        bars: Mapping[str, Bar] | None = None,
    ) -> Sequence[Story]:
        """Make the same call in both revisions concurrently."""

        async def step(revision: str, task: RemoteTask, update: Update) -> None:
            if bars is not None:
                bars[revision].show(update)
            if each is not None:
                await each(revision, task, update)

        calls = (_follow(side, tool, arguments, step) for side in self._sides)
        stories = await asyncio.gather(*calls)
        self._stories += stories
        return stories

    async def _answer(self, question: Question) -> JSONObject:
        """Answer both revisions with one answer of the user."""
        if self._asked is None:
            self._asked = asyncio.create_task(self._screen.ask(question))
        content = await self._asked
        return question.decline() if content is None else question.accept(**content)

    def _compare(self, stories: Sequence[Story]) -> None:
        self._screen.compare(stories, [in_words(side.tap.take()) for side in self._sides])


async def _follow(side: _Side, tool: str, arguments: JSONObject, each: _Each) -> Story:
    task = await side.session.call(tool, arguments)
    _promise(task.id is not None, f"{side.revision}: the call did not become a task")
    statuses: list[str] = []
    async for update in task:
        if statuses[-1:] != [update.status]:
            statuses.append(update.status)
        await each(side.revision, task, update)
    story = Story(side.revision, tool, str(task.id), statuses, "")
    try:
        result = await task.result()
    except Cancelled as error:
        return attrs.evolve(story, end=str(error.reason))
    [content] = result["content"]
    return attrs.evolve(story, end=content["text"], is_error=result.get("isError", False))


# --- promises --------------------------------------------------------------------------------


def _promise(is_kept: bool, otherwise: str) -> None:
    if not is_kept:
        raise Broken(otherwise)


def _check(story: Story, status: str, end: str) -> None:
    # Not the whole path: a client may miss statuses that last only briefly.
    what = f"{story.tool} in {story.revision}"
    last = story.statuses[-1]
    _promise(last == status, f"the last status of {what} was {last}, not {status}")
    _promise(story.end == end, f"{what} ended with {story.end!r}, not with {end!r}")


def _check_history(story: Story, entries: Sequence[Entry], *, is_survivor: bool) -> None:
    what = f"{story.tool} in {story.revision}"
    events = [entry.event for entry in entries]
    is_unbroken = all(before.dest == after.source for before, after in pairwise(entries))
    _promise(is_unbroken, f"the history of {what} has a gap")
    # A parked question also releases the worker.
    runs = 2 if is_survivor or story.tool == "deploy" else 1
    _promise(events.count(Event.START) == runs, f"{what} was not started {runs} times")
