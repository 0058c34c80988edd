"""A session with one server: its tools, and calls to them."""

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Coroutine, Iterable
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any, Final

import attrs

from taskmachine.adapters.client.answering import Answering
from taskmachine.adapters.client.connection import Connection
from taskmachine.adapters.client.errors import BadAnswer, CallFailed, ConnectionLost, SessionLost
from taskmachine.adapters.client.generations import Generation, Server
from taskmachine.adapters.client.handshake import introduce
from taskmachine.adapters.client.receiving import Receiving
from taskmachine.adapters.client.remote_task import Question, RemoteTask
from taskmachine.protocol.dialects.dialect import TaskSupport
from taskmachine.protocol.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Id,
    Message,
    Notification,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.protocol.outputs import Asked, Changed, Finished, Moved, Send
from taskmachine.protocol.requestor import Requestor
from taskmachine.statemachine import Call, Outcome, TaskmachineError

__all__ = ["Session"]

log: Final = logging.getLogger("taskmachine")

MOST_PAGES: Final = 1_000
MOST_RENEWALS: Final = 5  # lost sessions in a row without an answer
RENEWAL_PAUSE_S: Final = 0.5


class Session:
    """A session opened by `connect`.  Closing it ends all calls that are awaited."""

    def __init__(
        self,
        connection: Connection,
        generation: Generation,
        server: Server,
        answering: Answering,
        receiving: Receiving | None = None,
    ) -> None:
        self.server = server
        """The name and capabilities of the server, and the protocol revision."""
        self._connection = connection
        self._generation = generation
        self._answering = answering
        self._receiving = receiving
        self._supports: dict[str, TaskSupport | None] = {}
        self._are_tools_known = False
        self._dialect = generation.requestor(server, self._supports)
        timeout_ms = int(connection.timeout * 1_000)
        self._requestor = Requestor(
            self._dialect,
            new_id=connection.new_id,
            timeout_ms=timeout_ms,
            collect_timeout_ms=timeout_ms,
        )
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._timer: asyncio.TimerHandle | None = None
        self._names = map("call-{}".format, count(1))
        self._calls: dict[str, RemoteTask] = {}
        self._eras: dict[str, int] = {}
        """The number of the server session in which each call was made."""
        self._era = 0
        self._renewals = 0
        self._is_current = asyncio.Event()
        """Cleared while a lost session is renewed."""
        self._is_current.set()
        self._watches: dict[str, Id] = {}
        self._work: dict[asyncio.Task[None], str | Id | None] = {}
        """Background work, with the call or request it is for."""
        connection.listener = self

    # --- for the caller ---------------------------------------------------------------------------

    async def tools(self) -> list[JSONObject]:
        """Return all tools of the server as listed."""
        dialect, found = self._generation.dialect, []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._ask(self._generation.list_tools(cursor))
            found += [dialect.shapes.encode(tool) for tool in page.tools]
            cursor = page.nextCursor
            if cursor is None:
                break
        else:
            raise BadAnswer(f"the list of tools has more than {MOST_PAGES} pages")
        admitted = self._connection.transport.admit(found)
        self._supports.clear()
        self._supports.update({tool["name"]: _task_support(tool) for tool in admitted})
        self._are_tools_known = True
        return admitted

    async def call(
        self,
        name: str,
        arguments: JSONObject | None = None,
        *,
        ttl_ms: int | None = None,
        key: str | None = None,
        not_before: datetime | None = None,
    ) -> RemoteTask:
        """Call a tool, as a task wherever possible.

        Returns as soon as the call is a task; a plain call, when it shows progress or has ended.
        Cancelling this coroutine cancels the call.  `ttl_ms` applies where clients choose the TTL.
        A server that supports it creates only one task for calls with the same idempotency `key`,
        and does not start the task before the time `not_before`.
        """
        if not self._are_tools_known:  # for task support and header parameters
            await self.tools()
        at = None if not_before is None else round(not_before.timestamp() * 1_000)
        made = Call("tools/call", name, encode_json(arguments or {}), key=key, not_before=at)
        task = await self._start(made, ttl_ms)
        if task.was_refused_unread:  # 2025-11-25:session-404-starts-new-session
            await self._is_current.wait()
            task = await self._start(made, ttl_ms)
        elif self._generation.is_about_stale_tools(task.error_code):
            await self.tools()  # 2026-07-28:header-mismatch-retry
            task = await self._start(made, ttl_ms)
        return task

    async def _ask(self, params: Any) -> Any:
        try:
            return await self._connection.ask(self._generation.dialect, params)
        except SessionLost:
            await self._is_current.wait()
            return await self._connection.ask(self._generation.dialect, params)

    async def _start(self, call: Call, ttl_ms: int | None) -> RemoteTask:
        if self._connection.failure is not None:
            raise self._connection.failure
        name = next(self._names)
        task = self._calls[name] = RemoteTask(partial(self._cancel, name))
        self._eras[name] = self._era
        made = attrs.evolve(call, progress_token=name)
        self._carry_out(self._requestor.start(name, made, now=self._now(), ttl_ms=ttl_ms))
        try:
            await task.wait_until_known()
        except asyncio.CancelledError:
            with contextlib.suppress(CallFailed):
                self._cancel(name)
            raise
        return task

    def _cancel(self, name: str) -> None:
        if self._requestor.task_id(name) is not None and not self._dialect.takes_cancel:
            raise CallFailed(METHOD_NOT_FOUND, "the server does not support tasks/cancel")
        self._carry_out(self._requestor.cancel(name, now=self._now()))

    async def close(self) -> None:
        """Close the session.  Tasks continue on the server; awaited calls raise ConnectionLost."""
        self._end_everything(ConnectionLost("the session was closed"))
        running = list(self._work)
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # --- listener ---------------------------------------------------------------------------------

    def received(self, message: Message) -> None:
        """Handle a message other than an answer to `ask`."""
        match message:
            case Request() if self._receiving is not None and self._receiving.takes(message):
                self._receiving.receive(message)
            case Request() if self._generation.is_outside_tasks(message):
                self._do(self._serve(message), message.id)
            case Notification(method="notifications/tools/list_changed"):
                self._are_tools_known = False
            case _:
                if isinstance(message, Notification):
                    self._withdraw(message)
                if isinstance(message, ResultResponse):
                    self._renewals = 0
                self._carry_out(self._requestor.receive(message, now=self._now()))

    def lost(self, id: Id, error: TaskmachineError) -> None:
        """Handle a lost answer: a call ends with the error, a task is polled again later."""
        self._carry_out(self._requestor.lost(id, str(error), now=self._now()), because=error)

    def expired(self) -> None:
        """Renew a lost session."""
        self._renewals += 1
        self._era += 1
        if self._receiving is not None:
            self._receiving.forget_requests()
        self._is_current.clear()
        if self._renewals > MOST_RENEWALS:
            self._connection.gone(SessionLost("the server loses every session"))
        else:
            self._do(self._renew())

    def gone(self, error: ConnectionLost) -> None:
        """End all calls, as the server is lost."""
        self._end_everything(error)

    # --- internals --------------------------------------------------------------------------------

    def _now(self) -> int:
        return int(self._loop.time() * 1_000)

    def _tick(self) -> None:
        self._carry_out(self._requestor.tick(self._now()))

    def _carry_out(
        self, outputs: Iterable[Any], *, because: TaskmachineError | None = None
    ) -> None:
        if self._connection.failure is not None:
            return
        for output in outputs:
            match output:
                case Send(message=message):
                    self._connection.send(message)
                case Asked(call=name):
                    self._do(self._answer(output), name)
                case Changed(call=name, status=status, message=message):
                    self._identify(name)
                    self._calls[name].show_status(str(status), message)
                case Moved(call=name, progress=progress):
                    self._calls[name].show_progress(progress)
                case Finished(call=name, outcome=outcome):
                    self._finish(name, because or outcome)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self._requestor.next_tick()
        if due is None:
            self._timer = None
        else:  # polls belong to the session, not to the context of the latest call
            due_s = (due + 1) / 1_000
            self._timer = self._loop.call_at(due_s, self._tick, context=self._context)

    def _identify(self, name: str) -> None:
        """Record the task id of a call once it is known, and subscribe to the task if possible."""
        task, task_id = self._calls[name], self._requestor.task_id(name)
        if task.id is not None or task_id is None:
            return
        task.id = task_id
        if self._generation.watch is not None:
            id = self._watches[name] = self._connection.new_id()
            params = self._generation.watch(task_id)
            self._connection.send(self._generation.dialect.encode_request(id, params))

    def _finish(self, name: str, outcome: Outcome | TaskmachineError) -> None:
        watch, era = self._watches.pop(name, None), self._eras.pop(name)
        forget = None if watch is None else self._dialect.abandon(watch)
        if forget is not None:
            self._connection.send(self._generation.dialect.encode_notification(forget))
        is_unknown = isinstance(outcome, Outcome) and outcome.code == INVALID_PARAMS
        if is_unknown and era != self._era:
            outcome = SessionLost("the server lost the session, and the task with it")
        self._stop_work_for(name)
        self._calls.pop(name).end(outcome)

    def _end_everything(self, error: ConnectionLost) -> None:
        self._connection.failure = self._connection.failure or error
        self._is_current.set()  # wake up callers, which then fail
        if self._receiving is not None:
            self._receiving.gone()
        if self._timer is not None:
            self._timer.cancel()
        for work in self._work:
            work.cancel()
        calls, self._calls = self._calls, {}
        for task in calls.values():
            task.end(error)

    async def _renew(self) -> None:
        for attempt in range(MOST_RENEWALS):
            try:
                self.server = await introduce(self._connection, self._generation)
            except TaskmachineError as error:
                log.warning("could not renew the session: %s", error)
                await asyncio.sleep(RENEWAL_PAUSE_S * 2**attempt)
            else:
                self._is_current.set()
                return
        self._connection.gone(SessionLost("could not renew the session"))

    # --- questions -------------------------------------------------------------------------------

    async def _answer(self, asked: Asked) -> None:
        reply = await self._answering.reply(Question(asked.method, asked.params, asked.key))
        self._carry_out(self._requestor.answer(asked.call, asked.key, reply, now=self._now()))

    async def _serve(self, request: Request) -> None:
        answer = await self._answering.serve(request, self._generation.dialect)
        self._connection.send(answer)

    def _withdraw(self, notification: Notification) -> None:
        if notification.method == "notifications/cancelled":
            if self._receiving is not None:
                self._receiving.receive(notification)
            self._stop_work_for(notification.params.get("requestId"))

    def _do(self, work: Coroutine[Any, Any, None], owner: str | Id | None = None) -> None:
        task = self._loop.create_task(work)
        self._work[task] = owner
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._work[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("background work failed: %r", error, exc_info=error)

    def _stop_work_for(self, owner: Any) -> None:
        for task, whose in self._work.items():
            if owner is not None and whose == owner and task is not asyncio.current_task():
                task.cancel()


def _task_support(tool: JSONObject) -> TaskSupport | None:
    execution = tool.get("execution")
    return execution.get("taskSupport") if isinstance(execution, dict) else None
