"""The MCP endpoint: one address for every dialect of the server.

A message and its headers determine its dialect (`ReceiverDialect.claims`).  Requests of a
stateless dialect are independent; all others belong to a session.
"""

import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from taskmachine.adapters.runtime.observer import Carrier
from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.transports.auth.authentication import Unauthorized
from taskmachine.adapters.transports.auth.owners import ANONYMOUS, Owners
from taskmachine.adapters.transports.connection.conversation import Conversation
from taskmachine.adapters.transports.connection.lookups import Lookups
from taskmachine.adapters.transports.connection.server_info import describe_server
from taskmachine.adapters.transports.http.asgi import Headers, Refusal, read_body, respond
from taskmachine.adapters.transports.http.delivered_ends import LastEvent
from taskmachine.adapters.transports.http.sessions import Session, Sessions
from taskmachine.adapters.transports.http.streams import Stream, write_events
from taskmachine.adapters.transports.settings import Transport
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.dialects.receiver import ReceiverDialect, choose
from taskmachine.protocol.errors import MalformedMessage
from taskmachine.protocol.jsonrpc import (
    INVALID_REQUEST,
    ErrorResponse,
    Message,
    Notification,
    Request,
    ResultResponse,
    decode_message,
    encode_message,
)
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.outputs import Send as Said
from taskmachine.statemachine import LimitExceeded, TaskmachineError

__all__ = ["Endpoint"]

log: Final = logging.getLogger("taskmachine")

JSON_WITHIN_S: Final = 0.5
"""A response within this time is sent as JSON; after it the server opens a stream."""

MAX_ID: Final = 512
"""Maximum length of a request's id, which is part of every event's id."""

MAX_IDLE: Final = 1_000
"""Maximum number of stateless conversations that are reused for the next request."""

MAX_DIGITS: Final = 15
"""Maximum number of digits in an event's number; on general streams these are times."""

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"

SESSION: Final = b"mcp-session-id"


class Endpoint:
    """Answers requests to one path; `caller_of` authenticates them, if given.

    `spoken` are the dialects of the server, at most one of them with sessions.
    """

    def __init__(
        self,
        runtime: Runtime,
        owners: Owners,
        transport: Transport,
        spoken: Sequence[ReceiverDialect],
        *,
        caller_of: Callable[[Mapping[str, str]], Awaitable[Caller | None]] | None,
        lookups: Callable[[str], Lookups],
    ) -> None:
        self._runtime = runtime
        self._transport = transport
        self._spoken = spoken
        self._caller_of = caller_of
        self._lookups = lookups
        self._offer = describe_server(runtime.tools, listing=True)
        self._mirrored = {dialect: dialect.mirrored(self._offer) for dialect in spoken}
        self.sessions = Sessions(
            runtime,
            next(dialect for dialect in spoken if not dialect.is_stateless),
            self._offer,
            owners,
            maximum=transport.sessions,
            idle_s=transport.session_idle_s,
            lookups=lookups,
        )
        self._answering: set[Conversation] = set()
        self._idle: dict[tuple[ReceiverDialect, str], _StatelessConversation] = {}

    async def __call__(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        try:
            caller = None if self._caller_of is None else await self._caller_of(headers)
            owner = None if caller is None else caller.owner
            match scope["method"]:
                case "POST":
                    await self._post(scope, headers, caller, receive, send)
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
            log.error("a request failed: %s", error)
            await self._respond_error(send, 500, error)

    async def _respond_error(
        self, send: Send, status: int, error: TaskmachineError, headers: Headers = ()
    ) -> None:
        answer = self._spoken[0].messages.encode_error(None, error)
        await respond(send, status, encode_message(answer), headers)

    async def close(self) -> None:
        """End every watch and every session in order, so that no client is cut off."""
        for conversation in list(self._answering):
            conversation.end_watches()
        await self.sessions.close()

    # --- POST --------------------------------------------------------------------------------

    async def _post(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        caller: Caller | None,
        receive: Receive,
        send: Send,
    ) -> None:
        _check_media_types(headers.get("content-type", ""), headers.get("accept", "*/*"))
        body = await read_body(receive, headers, self._transport.body_bytes, self._transport.body_s)
        id = None
        dialect = self._spoken[0]
        try:
            message = decode_message(body)
            id = message.id if isinstance(message, Request) else None
            if id is not None and len(str(id)) > MAX_ID:
                why = f"Invalid request: an id has at most {MAX_ID} characters"
                raise Refusal(400, INVALID_REQUEST, why)
            dialect = choose(self._spoken, message, headers.get("mcp-protocol-version"))
            repeated = _repeated(scope) if len(scope["headers"]) != len(headers) else ()
            dialect.check_headers(headers, message, self._mirrored[dialect], repeated)
        except Refusal:
            raise
        except TaskmachineError as error:
            id = error.id if isinstance(error, MalformedMessage) and id is None else id
            await respond(send, 400, encode_message(dialect.messages.encode_error(id, error)))
            return
        if dialect.is_stateless:
            await self._post_stateless(dialect, caller, message, receive, send)
        else:
            await self._post_in_session(dialect, headers, caller, message, receive, send)

    async def _post_stateless(
        self,
        dialect: ReceiverDialect,
        caller: Caller | None,
        message: Message,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a stateless request.  A disconnect of the client cancels it."""
        if not isinstance(message, Request):
            await respond(send, 202)  # no notification is defined over HTTP
            return
        owner = ANONYMOUS if caller is None else caller.owner
        stateless = self._idle.pop((dialect, owner), None)
        if stateless is None:
            lookups = self._lookups(owner)
            stateless = _StatelessConversation(self._runtime, dialect, self._offer, owner, lookups)
        conversation = stateless.conversation
        response = await conversation.answer(message, stateless.wait, caller=caller)
        stream = stateless.stream
        if stream is None:
            if len(self._idle) < MAX_IDLE:
                self._idle[dialect, owner] = stateless
            assert response is not None, "a pending request has a stream"
            status = 200
            if isinstance(response, ErrorResponse):
                status = dialect.http_status(response, message)
            await respond(send, status, encode_message(response))
            return
        if response is not None:
            stream.put(response)
        self._answering.add(conversation)
        try:
            if not await stream.wait_for_first(JSON_WITHIN_S, receive):
                return
            if stream.response is not None and stream.is_single:
                status = dialect.http_status(stream.response, message)
                await respond(send, status, stream.last_body())
            else:
                await write_events(stream, send, receive, keep_alive_s=self._transport.keep_alive_s)
        finally:
            self._answering.discard(conversation)
            await conversation.close()

    async def _post_in_session(
        self,
        dialect: ReceiverDialect,
        headers: Mapping[str, str],
        caller: Caller | None,
        message: Message,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a message of a session.  A client that disconnects may resume the stream."""
        session_id = headers.get("mcp-session-id")
        owner = None if caller is None else caller.owner
        if session_id is not None:
            session = await self.sessions.find(session_id, owner)
        elif dialect.begins_session(message):
            session = self.sessions.begin(owner)
        else:
            ways = " or ".join(spoken.how_to_begin for spoken in self._spoken)
            raise Refusal(400, INVALID_REQUEST, f"Invalid request: {ways}")
        if not isinstance(message, Request):
            await session.conversation.accept(message)
            if isinstance(message, Notification):
                await self.sessions.on_notification(session, message)
            await respond(send, 202)
            return
        if session.is_answering(message.id):
            raise Refusal(400, INVALID_REQUEST, "Invalid request: the id is in use")
        stream: Stream | None = None

        def wait() -> None:
            nonlocal stream
            stream = session.open(message)

        response = await session.conversation.answer(message, wait, caller=caller)
        if stream is None:
            assert response is not None, "a pending request has a stream"
            added = () if session_id is not None else await self._session_header(session, response)
            await respond(send, 200, encode_message(response), added)
            return
        if response is not None:
            stream.put(response)
        if not await stream.wait_for_first(JSON_WITHIN_S, receive):
            session.drop(message.id)
            return
        if stream.response is not None and stream.is_single:
            session.answered(message.id)
            response = stream.response
            added = () if session_id is not None else await self._session_header(session, response)
            await respond(send, 200, stream.last_body(), added)
        else:
            task_id = message.params.get("taskId") if message.method == "tasks/result" else None
            sealer = self._runtime.service.sealer
            stream.name = sealer.seal_stream(session.owner, message.id, task_id)
            await self._write(session, message.id, stream, receive, send)

    async def _session_header(
        self, session: Session, answer: ResultResponse | ErrorResponse
    ) -> Headers:
        """Store the session and return the header that names it, unless `initialize` failed."""
        if isinstance(answer, ErrorResponse):
            return ()
        await self.sessions.keep(session)
        return [(SESSION, session.id.encode())]

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
        session.reader_attached(id)
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
                session.reader_detached(id, stream)

    async def _delete(self, headers: Mapping[str, str], owner: str | None, send: Send) -> None:
        await self.sessions.end(await self._found(headers, owner))
        await respond(send, 204)

    async def _found(self, headers: Mapping[str, str], owner: str | None) -> Session:
        id = headers.get("mcp-session-id")
        why = "Invalid request: GET and DELETE need a session, send MCP-Session-Id or use POST"
        dialect = choose(self._spoken, None, headers.get("mcp-protocol-version"))
        try:
            dialect.check_headers(headers, None, self._mirrored[dialect])
        except TaskmachineError as error:
            refused = dialect.messages.encode_error(None, error).error
            raise Refusal(400, refused.code, refused.message) from None
        if dialect.is_stateless:
            raise Refusal(405, INVALID_REQUEST, why, [(b"allow", b"POST")])
        if id is None:
            raise Refusal(400, INVALID_REQUEST, why)
        return await self.sessions.find(id, owner)


class _StatelessConversation:
    """A conversation for stateless requests, one at a time, until one needs a stream."""

    def __init__(
        self,
        runtime: Runtime,
        dialect: ReceiverDialect,
        offer: Offer,
        owner: str,
        lookups: Lookups,
    ) -> None:
        self.stream: Stream | None = None
        self._on_drop = runtime.service.dropped
        self.conversation = Conversation(
            runtime,
            dialect,
            offer,
            owner=owner,
            new_id=_new_id,
            send=self._send,
            lookups=lookups,
            carrier=Carrier("tcp"),
        )

    def wait(self) -> None:
        """Open the stream of the request."""
        self.stream = Stream(on_drop=self._on_drop)

    def _send(self, said: Said) -> None:
        assert self.stream is not None, "`wait` is called before anything is sent"
        self.stream.put(said.message)


def _new_id() -> str:
    return secrets.token_urlsafe(12)


def _repeated(scope: Scope) -> set[str]:
    names = Counter(name.decode("latin-1") for name, _ in scope["headers"])
    return {name for name, count in names.items() if count > 1}


@lru_cache(100)  # most requests repeat these headers
def _check_media_types(sent: str, accepted: str) -> None:
    if _media_type(sent) != JSON:
        raise Refusal(415, INVALID_REQUEST, f"Invalid request: send {JSON}")
    if not _accepts(accepted, JSON) or not _accepts(accepted, EVENTS):
        raise Refusal(406, INVALID_REQUEST, f"Invalid request: accept {JSON} and {EVENTS}")


def _accepts(accepted: str, kind: str) -> bool:
    ranges = map(_media_type, accepted.split(","))
    return not {kind, "*/*", f"{kind.partition('/')[0]}/*"}.isdisjoint(ranges)


def _media_type(value: str) -> str:
    return value.partition(";")[0].strip().lower()
