"""Connect to a server by its URL, or by the command that starts it."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from importlib.metadata import version

import attrs

from taskmachine.adapters.client import stdio
from taskmachine.adapters.client.answering import Answer, Answering, declared
from taskmachine.adapters.client.connection import Connection
from taskmachine.adapters.client.errors import CallFailed
from taskmachine.adapters.client.generations import REVISIONS, Generation, Server, legacy, modern
from taskmachine.adapters.client.handshake import introduce, probe
from taskmachine.adapters.client.receiving import Receiver, Receiving, open_receiving
from taskmachine.adapters.client.session import Session
from taskmachine.adapters.client.target import explained, read_target
from taskmachine.protocol.jsonrpc import Message
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = ["connect"]


@contextlib.asynccontextmanager
async def connect(
    target: str | Sequence[str],
    *,
    generation: str | None = None,
    token: str | None = None,
    answer: Answer | None = None,
    sampling: bool = False,
    receive: Receiver | None = None,
    info: JSONObject | None = None,
    timeout: float = 60.0,
    meta: Callable[[], JSONObject] = dict,
) -> AsyncIterator[Session]:
    """Open a session with the server at a URL, or with a server that a command starts.

    The command is a list of words, or a text as for a shell.
    `generation` is detected if it is not given.  `token` is sent to the server as a bearer token.
    With `answer` the server may send form elicitations, with `sampling` also sampling requests,
    and with `receive` a server of 2025-11-25 may send both as tasks.  `timeout` limits each
    request, in seconds, including a plain call, but not the duration of a task.  `meta` returns
    additional members for the `_meta` of each request, as `telemetry.current_meta` does for traces.
    """
    if generation not in (None, *REVISIONS):
        raise ConfigurationError(f"unknown generation '{generation}': use {' or '.join(REVISIONS)}")
    target = read_target(target) if isinstance(target, str) else target
    answering = Answering(answer, declared(answer, sampling=sampling))
    named = info or {"name": "taskmachine", "version": version("taskmachine")}
    connection = Connection(timeout, meta)
    async with contextlib.AsyncExitStack() as stack:
        receiving = await _receiving(receive, answering, connection, stack)
        answered = answering.capabilities
        received = {} if receiving is None else receiving.capabilities
        choice = _Choice(
            modern(answered, named), legacy({**answered, **received}, named), generation
        )
        if isinstance(target, str):
            try:
                spoken, server = await _over_http(connection, stack, target, token, choice)
            except TaskmachineError as error:
                raise explained(error, target) from None
        else:
            spoken, server = await _over_pipes(connection, stack, target, choice)
        if spoken is choice.modern and receiving is not None:  # without tasks of clients
            await receiving.close()
            receiving = None
        session = Session(connection, spoken, server, answering, receiving)
        stack.push_async_callback(session.close)
        yield session


async def _receiving(
    receiver: Receiver | None,
    answering: Answering,
    connection: Connection,
    stack: contextlib.AsyncExitStack,
) -> Receiving | None:
    """Open the receiver before the handshake, as the server may send requests immediately."""
    if receiver is None:
        return None

    def say(message: Message) -> None:
        if connection.failure is None:
            connection.send(message)

    return await stack.enter_async_context(open_receiving(receiver, answering, say))


@attrs.frozen(eq=False)
class _Choice:
    modern: Generation
    legacy: Generation
    forced: str | None

    @property
    def only(self) -> Generation | None:
        """The revision to use, if the caller chose one."""
        both = (self.modern, self.legacy)
        return next((g for g in both if g.dialect.revision == self.forced), None)


async def _over_pipes(
    connection: Connection,
    stack: contextlib.AsyncExitStack,
    command: Sequence[str],
    choice: _Choice,
) -> tuple[Generation, Server]:
    if not command:
        raise ConfigurationError("the command that starts the server is empty")
    connection.transport = await stdio.start(command, connection)
    stack.push_async_callback(connection.transport.close)
    if choice.only is not None:
        return choice.only, await introduce(connection, choice.only)
    server = await probe(connection, choice.modern, choice.legacy)
    if server is not None:
        return choice.modern, server
    try:
        return choice.legacy, await introduce(connection, choice.legacy)
    except CallFailed:  # perhaps the server was slow to start
        server = await probe(connection, choice.modern, choice.legacy)
        if server is None:
            raise
        return choice.modern, server


async def _over_http(
    connection: Connection,
    stack: contextlib.AsyncExitStack,
    url: str,
    token: str | None,
    choice: _Choice,
) -> tuple[Generation, Server]:
    try:  # httpx is optional for clients of stdio servers
        from taskmachine.adapters.client.http.mcp_2025_11_25 import LegacyHttp
        from taskmachine.adapters.client.http.mcp_2026_07_28 import ModernHttp
        from taskmachine.adapters.client.http.transport import Endpoint
    except ImportError as error:
        raise ConfigurationError(
            f"a URL needs the package {error.name}: pip install 'taskmachine[server]'"
        ) from None
    endpoint = Endpoint(url, token=token, timeout=connection.timeout)
    stack.push_async_callback(endpoint.close)
    connection.transport = transport = ModernHttp(endpoint, connection)
    stack.push_async_callback(lambda: connection.transport.close())
    if choice.only is choice.modern:
        return choice.modern, await introduce(connection, choice.modern)
    if choice.only is None:
        server = await probe(connection, choice.modern, choice.legacy)
        if server is None and transport.is_recognized:  # a modern server without server/discover
            server = Server(choice.modern.dialect.revision, {}, {})
        if server is not None:
            return choice.modern, server
        await transport.close()
    connection.transport = LegacyHttp(endpoint, connection)
    return choice.legacy, await introduce(connection, choice.legacy)
