"""A server and its client in one process, for tests of tools."""

import asyncio
import contextvars
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

import attrs

from taskmachine.adapters.client.answering import Answering, declared
from taskmachine.adapters.client.connection import Connection
from taskmachine.adapters.client.generations import modern
from taskmachine.adapters.client.handshake import introduce
from taskmachine.adapters.client.remote_task import Question, RemoteTask
from taskmachine.adapters.client.session import Session
from taskmachine.adapters.runtime.runtime import (
    Runtime,
    RuntimeConfig,
    Surroundings,
    new_id,
    start_runtime,
)
from taskmachine.adapters.runtime.testing.virtual_loop import PROCESS, Process
from taskmachine.adapters.testing.answers import Script
from taskmachine.adapters.testing.crashes import CrashingStore, CrashPoint
from taskmachine.adapters.testing.loop import TestLoop
from taskmachine.adapters.testing.threads import on_virtual_time
from taskmachine.adapters.testing.transport import MemoryTransport
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.auth.owners import STDIO
from taskmachine.adapters.transports.connection.conversation import Conversation
from taskmachine.adapters.transports.connection.server_info import describe_server
from taskmachine.protocol.dialects.mcp_2026_07_28.receiver import RECEIVER
from taskmachine.protocol.jsonrpc import Message, decode_message, encode_message
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.protocol.outputs import Send
from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = ["CallResult", "MemoryServer", "open_server"]

EPOCH_MS: Final = 1_767_225_600_000
"""When the virtual time begins: 2026-01-01."""

TIMEOUT_S: Final = 60.0


@attrs.frozen
class CallResult:
    """The result of a call."""

    content: list[JSONObject]
    structured: Any
    is_error: bool

    @property
    def text(self) -> str:
        """All texts of the content."""
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")


@asynccontextmanager
async def open_server(
    tools: Tools,
    *,
    answers: Mapping[str, Any] | None = None,
    config: RuntimeConfig | None = None,
) -> AsyncIterator["MemoryServer"]:
    """Open a server with these tools in memory, and a client that is connected to it.

    `answers` has the answer to each question by its key: a value, the fields of a form, an object
    of its type, None to decline, or a function of the question.  At the end AssertionError is
    raised if a question had no answer, or a crash did not happen.

    On the virtual time of `run`, and in tests with the fixture `open_server`, nothing takes time,
    and the server can crash.
    """
    server = MemoryServer(tools, answers or {}, config or RuntimeConfig())
    await server._open()
    try:
        yield server
    finally:
        await server._close()
    server._check()


class MemoryServer:
    """A server in memory with its client, made by `open_server`."""

    def __init__(self, tools: Tools, answers: Mapping[str, Any], config: RuntimeConfig) -> None:
        loop = asyncio.get_running_loop()
        self.crashes = 0
        """How often the server has crashed."""
        self.session: Session
        """The client, for everything except `call` and `start`."""
        self._loop = loop
        self._virtual = loop if isinstance(loop, TestLoop) else None
        self._tools = tools if self._virtual is None else on_virtual_time(tools, self._virtual)
        self._script = Script(answers)
        self._config = config
        self._context = contextvars.copy_context()
        self._server_context = self._context.copy()
        self._store = CrashingStore(self._crash)
        self._connection = Connection(TIMEOUT_S)
        self._transport = MemoryTransport(self._connection)
        self._connection.transport = self._transport
        self._process: Process | None = None
        self._runtime: Runtime | None = None
        self._conversation: Conversation

    # --- for tests -------------------------------------------------------------------------------

    async def call(self, tool: str, /, **arguments: Any) -> CallResult:
        """Call a tool and wait for its result, which may have `is_error`.

        Raises as `RemoteTask.result` does, and AssertionError if a question had no answer.
        """
        task = await self.start(tool, **arguments)
        try:
            result = await task.result()
        except TaskmachineError:
            self._check_answers()
            raise
        self._check_answers()
        return CallResult(
            result.get("content", []),
            result.get("structuredContent"),
            bool(result.get("isError")),
        )

    async def start(self, tool: str, /, **arguments: Any) -> RemoteTask:
        """Call a tool and return once the call is a task.

        The call is repeated, with the same idempotency key, if a crash loses the id of the task.
        """
        key = secrets.token_urlsafe()
        while True:
            crashes = self.crashes
            task = await self.session.call(tool, arguments, key=key)
            if self.crashes == crashes or task.id is not None or self._is_plain(tool):
                return task

    @property
    def questions(self) -> list[Question]:
        """The questions that the client received so far."""
        return self._script.asked

    @property
    def events(self) -> list[str]:
        """The events of all tasks so far, as in the transition table."""
        return self._store.events

    def crash_after(self, event: str, times: int = 1) -> None:
        """Crash when this event is stored for the n-th time from now on.

        `report` is progress, `ask` a question, `answer` or `resume` an answer, `complete` the end
        of the tool: see the transition table.  The client gets no response, and a new server starts
        on the same store.
        """
        self._check_virtual()
        self._store.point = CrashPoint.of(event, times)

    async def crash(self) -> None:
        """Crash now: code of the server does not continue, not even a `finally`.

        A new server starts on the same store.  A tool that calls this never continues.
        """
        self._check_virtual()
        is_own = self._process is not None and PROCESS.get(None) is self._process
        self._crash()
        if is_own:
            await self._loop.create_future()

    # --- the server ------------------------------------------------------------------------------

    async def _open(self) -> None:
        await self._start()
        answering = Answering(self._script.answer, declared(self._script.answer, sampling=True))
        info = {"name": "taskmachine.testing", "version": version("taskmachine")}
        generation = modern(answering.capabilities, info)
        try:
            hello = await introduce(self._connection, generation)
        except BaseException:
            await self._stop()
            raise
        self.session = Session(self._connection, generation, hello, answering)

    async def _close(self) -> None:
        await self.session.close()
        await self._stop()

    def _check(self) -> None:
        self._check_answers()
        point = self._store.point
        if point is not None:
            happened = ", ".join(self.events) or "none"
            raise AssertionError(f"no crash, as '{point.event}' did not happen; events: {happened}")

    def _check_answers(self) -> None:
        if self._script.problem is not None:
            problem, self._script.problem = self._script.problem, None
            raise AssertionError(problem)

    def _check_virtual(self) -> None:
        if self._virtual is None:
            raise ConfigurationError(
                "a crash needs virtual time: use the fixture open_server or taskmachine.testing.run"
            )

    def _is_plain(self, tool: str) -> bool:
        return tool not in self._tools or self._tools[tool].support == "forbidden"

    def _start(self) -> "asyncio.Task[None]":
        if self._virtual is not None:
            self._process = self._virtual.new_process(f"server {self.crashes + 1}")
            self._process.on_death.append(self._died)
            self._server_context = self._process.context
        return self._loop.create_task(self._serve(), context=self._server_context)

    async def _serve(self) -> None:
        number = self.crashes
        world = Surroundings(
            clock=lambda: EPOCH_MS + round(self._loop.time() * 1_000),
            host="memory",
            pid=number,
            is_dead=lambda worker: worker.pid != number,
        )
        config = attrs.evolve(self._config, world=world)
        self._runtime = await start_runtime(self._store, self._tools, config)
        self._conversation = Conversation(
            self._runtime,
            RECEIVER,
            describe_server(self._tools, listing=True),
            owner=STDIO,
            new_id=new_id,
            send=self._send,
        )
        self._transport.attach(self._receive)

    def _receive(self, message: Message) -> None:
        self._loop.call_soon(self._conversation.receive, message, context=self._server_context)

    def _send(self, said: Send) -> None:
        message = decode_message(encode_message(said.message))
        self._loop.call_soon(self._deliver, message, self.crashes, context=self._context)

    def _deliver(self, message: Message, crashes: int) -> None:
        if crashes == self.crashes:  # else it is lost in the connection
            self._transport.deliver(message)

    async def _stop(self) -> None:
        runtime, self._runtime = self._runtime, None
        self._transport.detach()
        if runtime is not None:
            await self._loop.create_task(self._end(runtime), context=self._server_context)
        await self._store.close()

    async def _end(self, runtime: Runtime) -> None:
        await self._conversation.close()
        await runtime.stop(grace_s=0)

    # --- crashes ---------------------------------------------------------------------------------

    def _crash(self) -> None:
        assert self._virtual is not None
        assert self._process is not None
        self._virtual.kill(self._process)

    def _died(self) -> None:
        self.crashes += 1
        self._runtime = None
        self._transport.detach()
        self._store.disconnect()
        self._loop.call_soon(self._restart, context=self._context)

    def _restart(self) -> None:
        self._transport.lose_answers()
        self._start().add_done_callback(self._restarted, context=self._context)

    def _restarted(self, started: "asyncio.Task[None]") -> None:
        if not started.cancelled() and (error := started.exception()) is not None:
            self._transport.gone(f"the server did not start again: {error}")
