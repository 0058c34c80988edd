"""The way to a server: by its URL, or by the command that starts it."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from importlib.metadata import version

import attrs

from taskmachine.adapters.client import stdio
from taskmachine.adapters.client.answering import Answer, Answering, declared
from taskmachine.adapters.client.errors import CallFailed
from taskmachine.adapters.client.generations import REVISIONS, Generation, Server, legacy, modern
from taskmachine.adapters.client.handshake import introduce, probe
from taskmachine.adapters.client.line import Line
from taskmachine.adapters.client.receiving import Receiver, Receiving, open_receiving
from taskmachine.adapters.client.session import Session
from taskmachine.protocol.jsonrpc import Message
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import ConfigurationError

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
    """A session with the server at a URL, or with one that a command starts.

    `generation` is found out if it is not given.  `token` goes to the server as a bearer token.
    With `answer` the server may ask for forms to be filled in, with `sampling` also for what a
    model says; with `receive` a server of 2025-11-25 may ask that as a task.  `timeout` is for
    each request, in seconds: a task may take as long as it wants, a plain call may not.  `meta`
    is asked for more members of the `_meta` of each request: `telemetry.current_meta` names the
    trace that it belongs to.
    """
    if generation not in (None, *REVISIONS):
        raise ConfigurationError(f"no generation '{generation}'; there are {', '.join(REVISIONS)}")
    answering = Answering(answer, declared(answer, sampling=sampling))
    named = info or {"name": "taskmachine", "version": version("taskmachine")}
    line = Line(timeout, meta)
    async with contextlib.AsyncExitStack() as stack:
        receiving = await _receiving(receive, answering, line, stack)
        answered = answering.capabilities
        received = {} if receiving is None else receiving.capabilities
        choice = _Choice(
            modern(answered, named), legacy({**answered, **received}, named), generation
        )
        if isinstance(target, str):
            spoken, server = await _over_http(line, stack, target, token, choice)
        else:
            spoken, server = await _over_pipes(line, stack, target, choice)
        if spoken is choice.modern and receiving is not None:  # where clients have no tasks
            await receiving.close()
            receiving = None
        session = Session(line, spoken, server, answering, receiving)
        stack.push_async_callback(session.close)
        yield session


async def _receiving(
    receiver: Receiver | None, answering: Answering, line: Line, stack: contextlib.AsyncExitStack
) -> Receiving | None:
    """Ready before the handshake: the server may ask at once."""
    if receiver is None:
        return None

    def say(message: Message) -> None:
        if line.death is None:
            line.send(message)

    return await stack.enter_async_context(open_receiving(receiver, answering, say))


@attrs.frozen(eq=False)
class _Choice:
    modern: Generation
    legacy: Generation
    forced: str | None

    @property
    def only(self) -> Generation | None:
        """The generation to speak, if there is no choice."""
        both = (self.modern, self.legacy)
        return next((g for g in both if g.dialect.revision == self.forced), None)


async def _over_pipes(
    line: Line, stack: contextlib.AsyncExitStack, command: Sequence[str], choice: _Choice
) -> tuple[Generation, Server]:
    if not command:
        raise ConfigurationError("a command needs at least the program")
    line.transport = await stdio.start(command, line)
    stack.push_async_callback(line.transport.close)
    if choice.only is not None:
        return choice.only, await introduce(line, choice.only)
    server = await probe(line, choice.modern, choice.legacy)
    if server is not None:
        return choice.modern, server
    try:
        return choice.legacy, await introduce(line, choice.legacy)
    except CallFailed:  # perhaps it was only slow to start
        server = await probe(line, choice.modern, choice.legacy)
        if server is None:
            raise
        return choice.modern, server


async def _over_http(
    line: Line,
    stack: contextlib.AsyncExitStack,
    url: str,
    token: str | None,
    choice: _Choice,
) -> tuple[Generation, Server]:
    try:  # not everybody who starts servers by a command has it
        from taskmachine.adapters.client.http.mcp_2025_11_25 import LegacyHttp
        from taskmachine.adapters.client.http.mcp_2026_07_28 import ModernHttp
        from taskmachine.adapters.client.http.transport import Endpoint
    except ImportError as error:
        raise ConfigurationError(f"a URL needs taskmachine[server]: {error}") from None
    endpoint = Endpoint(url, token=token, timeout=line.timeout)
    stack.push_async_callback(endpoint.close)
    line.transport = transport = ModernHttp(endpoint, line)
    stack.push_async_callback(lambda: line.transport.close())
    if choice.only is choice.modern:
        return choice.modern, await introduce(line, choice.modern)
    if choice.only is None:
        server = await probe(line, choice.modern, choice.legacy)
        if server is None and transport.is_recognized:  # modern, but it does not say who it is
            server = Server(choice.modern.dialect.revision, {}, {})
        if server is not None:
            return choice.modern, server
        await transport.close()
    line.transport = LegacyHttp(endpoint, line)
    return choice.legacy, await introduce(line, choice.legacy)
