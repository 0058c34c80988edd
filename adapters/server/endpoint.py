"""The MCP endpoint: one address, both generations, or the erlmcp dialect instead.

What a request is follows from itself (2026-07-28 versioning): one that carries the metadata of
2026-07-28 stands alone; `initialize` begins a session of 2025-11-25.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from taskmachine.adapters.conversation import Conversation, Lookups
from taskmachine.adapters.observer import Carrier
from taskmachine.adapters.runtime import Runtime
from taskmachine.adapters.server.asgi import Headers, Refusal, read_body, respond
from taskmachine.adapters.server.authentication import Unauthorized
from taskmachine.adapters.server.offer import offer_of
from taskmachine.adapters.server.owners import ANONYMOUS, Owners
from taskmachine.adapters.server.sessions import Session, Sessions
from taskmachine.adapters.server.settings import Transport
from taskmachine.adapters.server.streams import Stream, write_events
from taskmachine.adapters.server.told_ends import LastEvent
from taskmachine.protocol import mcp_2025_11_25, mcp_2026_07_28
from taskmachine.protocol.errors import HeaderMismatch, MalformedMessage, UnsupportedVersion
from taskmachine.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ErrorResponse,
    Message,
    Notification,
    Request,
    ResultResponse,
    decode_message,
    encode_message,
)
from taskmachine.protocol.mcp_2026_07_28 import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from taskmachine.protocol.outputs import Send as Said
from taskmachine.protocol.receiver_2025_11_25 import RULES as RULES_2025
from taskmachine.protocol.receiver_2026_07_28 import RULES as RULES_2026
from taskmachine.protocol.receiver_erlmcp import RULES as RULES_ERLMCP
from taskmachine.protocol.routing_headers import check_sent, mirrored_parameters
from taskmachine.statemachine import LimitExceeded, TaskmachineError

__all__ = ["Endpoint"]

log: Final = logging.getLogger("taskmachine")

AT_ONCE_S: Final = 0.5
"""What is answered within this time is answered by JSON; from then on there is a stream."""

MAX_SHORT: Final = 1_000
"""Owners whose short requests share a conversation."""

MAX_ID: Final = 512
"""Characters of a request's id: it is part of every event's id."""

MAX_DIGITS: Final = 15
"""Of the number of an event: on general streams they are times."""

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"

SESSION: Final = b"mcp-session-id"

LEGACY: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", mcp_2025_11_25.REVISION})
BAD_REQUESTS: Final = frozenset(
    {
        INVALID_REQUEST,
        mcp_2026_07_28.HEADER_MISMATCH,
        mcp_2026_07_28.MISSING_CAPABILITY,
        mcp_2026_07_28.UNSUPPORTED_VERSION,
    }
)


class Endpoint:
    """Answers requests to one path.  `owner_of` says who is calling, or raises."""

    def __init__(
        self,
        runtime: Runtime,
        owners: Owners,
        transport: Transport,
        *,
        owner_of: Callable[[Mapping[str, str]], Awaitable[str | None]],
        lookups: Callable[[str], Lookups],
        dialect: str | None = None,
    ) -> None:
        self._runtime = runtime
        self._transport = transport
        self._owner_of = owner_of
        self._lookups = lookups
        self._offer = offer_of(runtime.tools, listing=True)
        self._mirrored = {
            name: mirrored_parameters(tool.definition["inputSchema"])
            for name, tool in self._offer.tools.items()
        }
        self._is_erlmcp = dialect == "erlmcp"
        self.sessions = Sessions(
            runtime,
            RULES_ERLMCP if self._is_erlmcp else RULES_2025,
            self._offer,
            owners,
            maximum=transport.sessions,
            idle_s=transport.session_idle_s,
            lookups=lookups,
            marks=not self._is_erlmcp,  # its callers see the metadata of tasks
        )
        self._alone: set[Conversation] = set()
        self._short: dict[str, Conversation] = {}

    async def __call__(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        try:
            owner = await self._owner_of(headers)
            match scope["method"]:
                case "POST":
                    await self._post(scope, headers, owner, receive, send)
                case "GET":
                    await self._get(headers, owner, receive, send)
                case "DELETE":
                    await self._delete(headers, owner, send)
                case _:
                    why = "Invalid request: use POST, or GET and DELETE with a session"
                    allow = [(b"allow", b"GET, POST, DELETE")]
                    raise Refusal(405, INVALID_REQUEST, why, allow)
        except (Refusal, Unauthorized):
            raise
        except LimitExceeded as error:
            wait = b"%d" % max(1, error.retry_after_ms // 1_000)
            await self._respond_error(send, 503, error, [(b"retry-after", wait)])
        except TaskmachineError as error:
            log.error("a request could not be answered: %s", error)
            await self._respond_error(send, 500, error)

    async def _respond_error(
        self, send: Send, status: int, error: TaskmachineError, headers: Headers = ()
    ) -> None:
        answer = RULES_2025.dialect.encode_error(None, error)
        await respond(send, status, encode_message(answer), headers)

    async def close(self) -> None:
        """Tell every reader that this is the end; nobody is cut off in the middle."""
        for conversation in list(self._alone):
            conversation.farewell()
        await self.sessions.close()

    # --- POST --------------------------------------------------------------------------------

    async def _post(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        owner: str | None,
        receive: Receive,
        send: Send,
    ) -> None:
        _check_media_types(headers)
        body = await read_body(receive, headers, self._transport.body_bytes, self._transport.body_s)
        try:
            message = decode_message(body)
        except MalformedMessage as error:
            answer = RULES_2025.dialect.encode_error(error.id, error)
            await respond(send, 400, encode_message(answer))
            return
        if isinstance(message, Request) and len(str(message.id)) > MAX_ID:
            raise Refusal(
                400, INVALID_REQUEST, f"Invalid request: an id has at most {MAX_ID} characters"
            )
        if not self._is_erlmcp and _is_modern(message, headers):
            await self._post_alone(scope, headers, owner or ANONYMOUS, message, receive, send)
        else:
            await self._post_in_session(headers, owner, message, receive, send)

    async def _post_alone(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        owner: str,
        message: Message,
        receive: Receive,
        send: Send,
    ) -> None:
        """A request of 2026-07-28.  A client that leaves has cancelled it."""
        if isinstance(message, Notification):
            version = headers["mcp-protocol-version"]  # nothing else says what it is of
            if version != mcp_2026_07_28.REVISION:  # 2025-11-25:protocol-version-bad-400
                unsupported = UnsupportedVersion(version, [mcp_2026_07_28.REVISION])
                answer = RULES_2026.dialect.encode_error(None, unsupported)
                await respond(send, 400, encode_message(answer))
                return
            await respond(send, 202)  # none is defined over HTTP
            return
        if not isinstance(message, Request):
            why = "Invalid request: clients of 2026-07-28 send no responses, see tasks/update"
            raise Refusal(400, INVALID_REQUEST, why)
        try:
            self._check_headers(scope, headers, message)
        except (HeaderMismatch, UnsupportedVersion) as error:
            answer = RULES_2026.dialect.encode_error(message.id, error)
            await respond(send, 400, encode_message(answer))
            return
        response = await self._alone_with(owner).at_once(message)
        if response is not None:
            await respond(send, _status_of(response, message), encode_message(response))
            return
        stream = Stream(on_drop=self._runtime.service.observer.dropped)
        conversation = self._conversation(owner, lambda said: stream.put(said.message))
        await conversation.answer(message)
        self._alone.add(conversation)
        try:
            if not await stream.wait_for_first(AT_ONCE_S, receive):
                return
            if stream.response is not None and stream.is_single:
                status = _status_of(stream.response, message)
                await respond(send, status, stream.last_body())
            else:
                await write_events(stream, send, receive, keep_alive_s=self._transport.keep_alive_s)
        finally:
            self._alone.discard(conversation)
            await conversation.close()

    def _conversation(self, owner: str, say: Callable[[Said], None]) -> Conversation:
        return Conversation(
            self._runtime,
            RULES_2026,
            self._offer,
            owner=owner,
            new_id=lambda: secrets.token_urlsafe(12),
            send=say,
            lookups=self._lookups(owner),
            carrier=Carrier("tcp"),
        )

    def _alone_with(self, owner: str) -> Conversation:
        """For what is answered at once: nothing is remembered, so one will do for many."""
        conversation = self._short.get(owner)
        if conversation is None:
            if len(self._short) >= MAX_SHORT:
                self._short.clear()
            conversation = self._short[owner] = self._conversation(owner, _nothing_to_say)
        return conversation

    def _check_headers(self, scope: Scope, headers: Mapping[str, str], request: Request) -> None:
        if not _has_meta(request):  # the dialect says what is missing
            version = headers.get("mcp-protocol-version")
            if version is not None and version != mcp_2026_07_28.REVISION:
                raise UnsupportedVersion(version, [mcp_2026_07_28.REVISION])
            return
        if len(scope["headers"]) != len(headers):
            _check_repeated(scope)
        name = request.params.get("name") if request.method == "tools/call" else None
        mirrored = self._mirrored.get(name) if isinstance(name, str) else None
        check_sent(headers, request, mirrored)

    async def _post_in_session(
        self,
        headers: Mapping[str, str],
        owner: str | None,
        message: Message,
        receive: Receive,
        send: Send,
    ) -> None:
        """A message of 2025-11-25, or of erlmcp.  A client that leaves may come back."""
        session, is_new = await self._session_of(headers, owner, message)
        if not isinstance(message, Request):
            await session.conversation.answer(message)
            if isinstance(message, Notification):
                await self.sessions.heard(session, message)
            await respond(send, 202)
            return
        if not session.is_answering(message.id):
            answer = await session.conversation.at_once(message)
            if answer is not None:
                shown = await self._introduction(session, answer) if is_new else ()
                await respond(send, 200, encode_message(answer), shown)
                return
        stream = session.open(message)
        await session.conversation.answer(message)
        if not await stream.wait_for_first(AT_ONCE_S, receive):
            session.drop(message.id)
            return
        if stream.response is not None and stream.is_single:
            session.answered(message.id)
            shown = await self._introduction(session, stream.response) if is_new else ()
            await respond(send, 200, stream.last_body(), shown)
        else:
            task_id = message.params.get("taskId") if message.method == "tasks/result" else None
            sealer = self._runtime.service.sealer
            stream.name = sealer.seal_stream(session.owner, message.id, task_id)
            await self._write(session, message.id, stream, receive, send)

    async def _introduction(
        self, session: Session, answer: ResultResponse | ErrorResponse
    ) -> Headers:
        """From now on the session can be found, by the name in this header."""
        if isinstance(answer, ErrorResponse):
            return ()
        await self.sessions.keep(session)
        return [(SESSION, session.id.encode())]

    async def _session_of(
        self, headers: Mapping[str, str], owner: str | None, message: Message
    ) -> tuple[Session, bool]:
        id = headers.get("mcp-session-id")
        if id is not None:
            _check_version(headers)
            return await self.sessions.find(id, owner), False
        is_first = isinstance(message, Request) and message.method == "initialize"
        if not is_first and not self._is_erlmcp:
            raise Refusal(
                400,
                INVALID_REQUEST,
                "Invalid request: send initialize first and then its MCP-Session-Id, "
                f"or the metadata of {mcp_2026_07_28.REVISION} with each request",
            )
        return self.sessions.begin(owner), True

    # --- GET and DELETE ----------------------------------------------------------------------

    async def _get(
        self, headers: Mapping[str, str], owner: str | None, receive: Receive, send: Send
    ) -> None:
        session = await self._found(headers, owner)
        if not _accepts(headers.get("accept", "*/*"), EVENTS):
            raise Refusal(406, INVALID_REQUEST, f"Invalid request: accept {EVENTS}")
        last = headers.get("last-event-id")
        if last is None:
            session.drop(None)
            await self._write(session, None, session.general, receive, send)
            return
        name, _, number = last.rpartition(".")
        seen = int(number) if number.isdecimal() and len(number) <= MAX_DIGITS else 0
        id, stream = await self.sessions.resumed(session, name)
        if stream.name == name:
            await self._write(session, id, stream, receive, send, seen)
        else:
            last_event = LastEvent(name, seen)
            await self._write(session, id, stream, receive, send, last_event=last_event)

    async def _write(
        self,
        session: Session,
        id: Any,
        stream: Stream,
        receive: Receive,
        send: Send,
        after: int = 0,
        last_event: LastEvent | None = None,
    ) -> None:
        session.came(id)
        if id is None:
            await self.sessions.listen(session, last_event)
        else:
            session.conversation.handle(session.conversation.receiver.opened(id))
        try:
            await write_events(
                stream, send, receive, keep_alive_s=self._transport.keep_alive_s, after=after
            )
        finally:
            if stream.reader is None:
                session.left(id, stream)

    async def _delete(self, headers: Mapping[str, str], owner: str | None, send: Send) -> None:
        await self.sessions.end(await self._found(headers, owner))
        await respond(send, 204)

    async def _found(self, headers: Mapping[str, str], owner: str | None) -> Session:
        id = headers.get("mcp-session-id")
        why = "Invalid request: only sessions have this, send MCP-Session-Id or use POST"
        if headers.get("mcp-protocol-version") == mcp_2026_07_28.REVISION:
            raise Refusal(405, INVALID_REQUEST, why, [(b"allow", b"POST")])
        if id is None:
            raise Refusal(400, INVALID_REQUEST, why)
        _check_version(headers)  # 2025-11-25:protocol-version-bad-400
        return await self.sessions.find(id, owner)


def _nothing_to_say(said: Said) -> None:
    raise AssertionError(f"only answers are short: {said}")


def _is_modern(message: Message, headers: Mapping[str, str]) -> bool:
    """Whether it is of 2026-07-28, or of a version that nobody speaks."""
    if isinstance(message, Request):
        meta = message.params.get("_meta")
        if isinstance(meta, dict) and PROTOCOL_VERSION in meta:
            return True
    version = headers.get("mcp-protocol-version")
    return version is not None and version not in LEGACY


def _check_repeated(scope: Scope) -> None:
    """Of what routes a request there is one, or nobody knows which one counts."""
    names = [name.decode("latin-1") for name, _ in scope["headers"]]
    for name in names:
        if name.startswith("mcp-") and names.count(name) > 1:
            raise HeaderMismatch(f"{name} is repeated")


def _has_meta(request: Request) -> bool:
    meta = request.params.get("_meta")
    return (
        isinstance(meta, dict)
        and isinstance(meta.get(PROTOCOL_VERSION), str)
        and isinstance(meta.get(CLIENT_CAPABILITIES), dict)
    )


def _status_of(response: ResultResponse | ErrorResponse, request: Request) -> int:
    if isinstance(response, ResultResponse):
        return 200
    code = response.error.code
    if code == METHOD_NOT_FOUND:
        return 404
    if code in BAD_REQUESTS or (code == INVALID_PARAMS and not _has_meta(request)):
        return 400
    return 200


def _check_version(headers: Mapping[str, str]) -> None:
    version = headers.get("mcp-protocol-version")
    if version is not None and version != mcp_2025_11_25.REVISION:
        why = f"Invalid request: this session speaks {mcp_2025_11_25.REVISION}"
        raise Refusal(400, INVALID_REQUEST, why)


def _check_media_types(headers: Mapping[str, str]) -> None:
    if _media_type(headers.get("content-type", "")) != JSON:
        raise Refusal(415, INVALID_REQUEST, f"Invalid request: send {JSON}")
    accepted = headers.get("accept", "*/*")
    if not _accepts(accepted, JSON) or not _accepts(accepted, EVENTS):
        raise Refusal(406, INVALID_REQUEST, f"Invalid request: accept {JSON} and {EVENTS}")


@lru_cache(100)  # clients differ less than requests
def _accepts(accepted: str, kind: str) -> bool:
    ranges = map(_media_type, accepted.split(","))
    return not {kind, "*/*", f"{kind.partition('/')[0]}/*"}.isdisjoint(ranges)


@lru_cache(100)
def _media_type(value: str) -> str:
    return value.partition(";")[0].strip().lower()
