"""Sessions of 2025-11-25 over HTTP: many connections, one conversation.

A session is kept in the store, so it outlives the process, and every replica serves it.  Its
streams exist in one process: one for each pending request, and the general stream (GET).  Any
replica may end a session, so every request reads it from the store.
"""

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs

from taskmachine.adapters.runtime.observer import Carrier
from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.stores import KeptSession
from taskmachine.adapters.transports.auth.owners import Owners
from taskmachine.adapters.transports.connection.conversation import Conversation
from taskmachine.adapters.transports.connection.lookups import Lookups
from taskmachine.adapters.transports.http.asgi import Refusal
from taskmachine.adapters.transports.http.delivered_ends import DeliveredEnds, LastEvent
from taskmachine.adapters.transports.http.replica_tasks import ReplicaTasks
from taskmachine.adapters.transports.http.streams import Stream
from taskmachine.protocol.dialects.receiver import ReceiverDialect
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Error,
    ErrorResponse,
    Id,
    Notification,
    Request,
)
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.outputs import Send
from taskmachine.statemachine import LimitExceeded

__all__ = ["Session", "Sessions"]

RESUME_S: Final = 5.0
"""How long a reader may be away before requests to the client are sent on another stream."""

ABANDON_S: Final = 60.0
"""How long a reader may be away before its stream is dropped."""

UNUSED_S: Final = 600.0
"""Idle time after which a session is kept in the store only."""

LOOK_S: Final = 0.5
"""How often to poll for changes by other processes to a session with a general stream."""

READY: Final = "notifications/initialized"

_AGAIN: Final = "~"
"""Separates a stream's name from a suffix for each process that resumed it."""

FINISHED: Final = 100
"""Maximum number of ended streams of one session that can still be resumed."""


class Session:
    """One session that is active in this process."""

    def __init__(
        self,
        id: str,
        key: str,
        owner: str,
        until: int,
        clock: Callable[[], int],
        on_drop: Callable[[], None],
    ) -> None:
        self.id = id
        self.key = key
        """Its key in the store."""
        self.owner = owner
        self.until = until
        self.used_at = asyncio.get_running_loop().time()
        self.is_ready = False
        """Whether this process has learned that the client is initialized."""
        self.is_restored = False
        self.conversation: Conversation
        self.replica_tasks: ReplicaTasks
        self._clock = clock
        self._on_drop = on_drop
        self.general = self._general_stream()
        self._streams: dict[Id, Stream] = {}
        self._task_of: dict[Id, str] = {}
        self._ends = DeliveredEnds()
        self._timers: dict[Id | None, list[asyncio.TimerHandle]] = {}

    def begin(self, conversation: Conversation, replica_tasks: ReplicaTasks) -> None:
        self.conversation = conversation
        self.replica_tasks = replica_tasks
        conversation.handle(conversation.receiver.lost(None))  # no reader yet

    @property
    def is_idle(self) -> bool:
        """Whether closing it would lose nothing that is not in the store."""
        is_unread = self.general.reader is None and None not in self._timers
        return is_unread and not self._streams

    def send(self, said: Send) -> None:
        """Put a message of the conversation on its stream."""
        stream = self.general if said.stream is None else self._streams.get(said.stream)
        if stream is not None:
            stream.put(said.message)
            if said.ends is not None and stream is self.general:
                self._ends.add(said.ends, LastEvent(stream.name, stream.newest))

    def has_delivered(self, last: LastEvent | None, task_id: str) -> bool:
        """Return whether a client that has received `last` has the end of that task."""
        return self._ends.has_delivered(task_id, self.general.name, last)

    # --- streams that answer a request -------------------------------------------------------

    def open(self, request: Request, name: str = "") -> Stream:
        """Open the stream for a response; `Refusal` if a request with this id is pending."""
        if self.is_answering(request.id):
            raise Refusal(400, INVALID_REQUEST, "Invalid request: the id is in use")
        self.reader_attached(request.id)  # stops the timers of an earlier stream with this id
        self._task_of.pop(request.id, None)
        task_id = request.params.get("taskId")
        if request.method == "tasks/result" and isinstance(task_id, str):
            # A client that repeats the request will not resume the broken stream.
            for id in [id for id, of in self._task_of.items() if of == task_id]:
                if self._streams[id].reader is None and id in self._timers:
                    self.drop(id)
            self._task_of[request.id] = task_id
        stream = self._streams[request.id] = Stream(name, on_drop=self._on_drop)
        return stream

    def is_answering(self, id: Id) -> bool:
        """Return whether a request with that id is pending."""
        stream = self._streams.get(id)
        return stream is not None and not stream.is_over

    def answered(self, id: Id) -> None:
        """Forget the stream of a request that was answered without it."""
        del self._streams[id]
        self._task_of.pop(id, None)

    def named(self, name: str) -> tuple[Id | None, Stream] | None:
        """Return the stream of that name, if this process has it."""
        if name == self.general.name:
            return None, self.general
        found = (item for item in self._streams.items() if item[1].name == name)
        return next(found, None)

    def reader_attached(self, id: Id | None) -> None:
        """Stop the timers of a stream that is read again."""
        for timer in self._timers.pop(id, ()):
            timer.cancel()

    def reader_detached(self, id: Id | None, stream: Stream) -> None:
        """Start the timers of a stream without reader; until then a client can resume it."""
        later = asyncio.get_running_loop().call_later
        if stream is not (self.general if id is None else self._streams.get(id)):
            return  # it has been replaced
        self.reader_attached(id)
        self._timers[id] = [later(RESUME_S, self.lose, id), later(ABANDON_S, self.drop, id)]
        if stream.is_over and len(self._streams) > FINISHED:
            self._drop_oldest_finished()

    def lose(self, id: Id | None) -> None:
        """Send pending requests to the client on another stream."""
        stream = self.general if id is None else self._streams[id]
        stream.forget_questions()
        receiver = self.conversation.receiver
        if id is None or receiver.is_pending(id):
            self.conversation.handle(receiver.lost(id))

    def drop(self, id: Id | None) -> None:
        """Close a stream for good.  Its call keeps running, but `tasks/result` stops waiting."""
        self.reader_attached(id)
        if id is None:
            self.general.close()
            self.general = self._general_stream()
            self.conversation.handle(self.conversation.receiver.lost(None))
            return
        self._streams.pop(id).close()
        if self._task_of.pop(id, None) is not None:
            self.conversation.handle(self.conversation.receiver.closed(id))

    def _drop_oldest_finished(self) -> None:
        finished = (id for id, s in self._streams.items() if s.is_over and s.reader is None)
        oldest = next(finished, None)
        if oldest is not None:
            self.drop(oldest)

    async def close(self) -> None:
        """End every stream and stop every plain call."""
        for timers in self._timers.values():
            for timer in timers:
                timer.cancel()
        for stream in [self.general, *self._streams.values()]:
            stream.close()
        await self.conversation.close()

    def _general_stream(self) -> Stream:
        begun = self._clock()
        name = f"g{begun}-{secrets.token_urlsafe(6)}"
        return Stream(name, clock=lambda: self._clock() - begun, on_drop=self._on_drop)


@attrs.frozen
class _Record:
    """A session in the store, for every process."""

    owner: str
    capabilities: JSONObject
    is_ready: bool = False
    """Whether a process other than the first received `notifications/initialized`."""
    reader: str | None = None
    """The name of the general stream, which only one process serves."""

    @classmethod
    def of(cls, kept: KeptSession) -> "_Record":
        return cls(**decode_json(kept.body))

    def encode(self) -> bytes:
        return encode_json(attrs.asdict(self))


class Sessions:
    """All sessions that are active in this process."""

    def __init__(
        self,
        runtime: Runtime,
        dialect: ReceiverDialect,
        offer: Offer,
        owners: Owners,
        *,
        maximum: int,
        idle_s: float,
        lookups: Callable[[str], Lookups],
    ) -> None:
        self._runtime = runtime
        self._dialect = dialect
        self._offer = offer
        self._owners = owners
        self._maximum = maximum
        self._idle_ms = round(idle_s * 1_000)
        self._lookups = lookups
        self._open: dict[str, Session] = {}

    def begin(self, owner: str | None) -> Session:
        """Create a session that is not stored yet; without `owner` it is its own owner."""
        id = secrets.token_urlsafe(32)
        return self._make(id, owner or self._owners.of_session(id), None)

    async def keep(self, session: Session) -> None:
        """Store a session, so that requests find it; `LimitExceeded` if there are too many."""
        if len(self._open) >= self._maximum:
            await self.close_unused(0)
            if len(self._open) >= self._maximum:
                raise LimitExceeded(f"{self._maximum} sessions", 60_000)
        service = self._runtime.service
        record = _Record(session.owner, session.conversation.receiver.capabilities or {})
        try:
            await self._store(session, record, self._maximum)
        except LimitExceeded:
            if not await service.store.forget_sessions(service.clock(), 100):
                raise
            # Expired sessions made room that the next sweep would have made.
            await self._store(session, record, self._maximum)
        self._open[session.id] = session

    async def find(self, id: str, owner: str | None) -> Session:
        """Return the session; `Refusal` if this caller has none of that id (2025-11-25: 404)."""
        kept = await self._kept(id)
        session = self._open.get(id)
        if kept is None:
            if session is not None:  # another process has ended it
                await self._close_local(session)
            raise _no_session()
        session = session or self._restored(id, kept)
        if owner is not None and session.owner != owner:
            raise _no_session()
        session.used_at = asyncio.get_running_loop().time()
        if not session.is_ready and _Record.of(kept).is_ready:
            # Another process received it, and this one may have questions for the client.
            session.is_ready = True
            session.conversation.receive(Notification(READY))
        await self._extend(session, kept)
        return session

    async def on_notification(self, session: Session, notification: Notification) -> None:
        """Record a notification of the client that every process needs."""
        if notification.method == READY:
            session.is_ready = True
            if session.is_restored:  # the process that began it has not received this
                await self._change(session, is_ready=True)

    async def end(self, session: Session) -> None:
        """Delete a session, here and in the store."""
        self._open.pop(session.id, None)
        await self._runtime.service.store.end_session(session.key)
        await session.close()

    async def close_unused(self, unused_s: float = UNUSED_S) -> None:
        """Close sessions here that can be restored from the store."""
        now = asyncio.get_running_loop().time()
        for session in list(self._open.values()):
            if session.is_idle and now - session.used_at >= unused_s:
                await self._close_local(session)

    async def refresh_used(self) -> None:
        """Extend the used sessions in the store, and close those that were deleted there."""
        for session in list(self._open.values()):
            if not session.is_idle:
                await self._refresh(session)

    async def close(self) -> None:
        """Close all sessions here; they stay in the store."""
        for session in self._open.values():
            await session.close()
        self._open.clear()

    # --- streams -----------------------------------------------------------------------------

    async def listen(self, session: Session, last: LastEvent | None) -> None:
        """Serve the general stream from this process only.

        A client that resumes a stream of another process gets what it missed since `last`.
        """
        await self._change(session, reader=session.general.name)
        await session.conversation.listen()
        since = None if last is None else last.sent_at
        await session.replica_tasks.catch_up(since, partial(session.has_delivered, last))

    async def poll_replicas(self) -> float:
        """Apply changes by other processes to sessions with a general stream; return the pause."""
        for session in list(self._open.values()):
            if session.general.reader is None:
                continue
            name = session.general.name
            kept = await self._refresh(session)
            if kept is None or session.general.name != name:
                continue
            if _Record.of(kept).reader != name:
                session.drop(None)  # 2025-11-25: a message is sent on one stream only
            else:
                await session.replica_tasks.poll()
        return LOOK_S

    async def resumed(self, session: Session, name: str) -> tuple[Id | None, Stream]:
        """Return the stream that a client resumes, even if another process began it.

        `tasks/result` can wait in this process as well.  Any other call is known only to the
        process that runs it, so the client gets an error.
        """
        known = session.named(name)
        if known is not None:
            return known
        # Each process names its own continuation: its events differ from another process's.
        origin, *_ = name.split(_AGAIN)
        sealed = self._runtime.service.sealer.open_stream(session.owner, origin)
        if sealed is None:
            session.drop(None)  # another process may have sent its messages
            return None, session.general
        id, task_id = sealed
        request = Request(id, "tasks/result", {"taskId": task_id or ""})
        if task_id is not None and session.is_answering(id):
            session.drop(id)  # another process has served it since
        stream = session.open(request, f"{origin}{_AGAIN}{secrets.token_urlsafe(6)}")
        if task_id is not None:
            response = await session.conversation.answer(request)
            if response is not None:
                stream.put(response)
        else:
            why = "The server was restarted during this call, or another process is running it"
            stream.put(ErrorResponse(id, Error(INTERNAL_ERROR, why)))
        return id, stream

    # --- in the store ------------------------------------------------------------------------

    def _make(self, id: str, owner: str, capabilities: JSONObject | None) -> Session:
        service = self._runtime.service
        key = self._owners.session_key(id)
        session = Session(id, key, owner, self._until(), service.clock, service.dropped)
        # A session that is its own owner has created all tasks that it can see.
        is_own = owner == self._owners.of_session(id)
        mark = b"{}"
        # The server must not add marks to metadata that the dialect shows to callers.
        if not self._dialect.shows_metadata and not is_own:
            mark = encode_json({"session": key})
        conversation = Conversation(
            self._runtime,
            self._dialect,
            self._offer,
            owner=owner,
            new_id=lambda: secrets.token_urlsafe(12),
            send=session.send,
            capabilities=capabilities,
            lookups=self._lookups(owner),
            mark=mark,
            carrier=Carrier("tcp", key),
        )
        session.begin(
            conversation,
            ReplicaTasks(service, conversation, owner, None if is_own else mark),
        )
        return session

    def _restored(self, id: str, kept: KeptSession) -> Session:
        record = _Record.of(kept)
        session = self._open[id] = self._make(id, record.owner, record.capabilities)
        session.until = kept.until
        session.is_restored = session.is_ready = True
        return session

    async def _kept(self, id: str) -> KeptSession | None:
        service = self._runtime.service
        session = self._open.get(id)  # saves computing the key
        key = self._owners.session_key(id) if session is None else session.key
        kept = await service.store.session(key)
        return None if kept is None or kept.until <= service.clock() else kept

    async def _refresh(self, session: Session) -> KeptSession | None:
        """Return the stored session after extending it, or None if another process ended it."""
        kept = await self._kept(session.id)
        if kept is None:
            await self._close_local(session)
            return None
        try:
            await self._extend(session, kept)
        except Refusal:
            return None
        return kept

    async def _close_local(self, session: Session) -> None:
        self._open.pop(session.id, None)
        await session.close()

    async def _extend(self, session: Session, kept: KeptSession) -> None:
        session.until = kept.until
        if kept.until - self._runtime.service.clock() < self._idle_ms // 2:
            await self._store(session, _Record.of(kept))

    async def _change(self, session: Session, **changes: Any) -> None:
        kept = await self._kept(session.id)
        if kept is None:
            await self._close_local(session)
            raise _no_session()
        await self._store(session, attrs.evolve(_Record.of(kept), **changes))

    async def _store(self, session: Session, record: _Record, room: int = 0) -> None:
        """Write a session; without `room` it must exist, or another process has ended it."""
        until = self._until()
        kept = KeptSession(session.key, record.encode(), until)
        try:
            await self._runtime.service.store.keep_session(kept, room)
        except LimitExceeded:
            if room:
                raise
            await self._close_local(session)
            raise _no_session() from None
        session.until = until

    def _until(self) -> int:
        return self._runtime.service.clock() + self._idle_ms


def _no_session() -> Refusal:
    return Refusal(404, INVALID_REQUEST, "Invalid request: no such session, send initialize again")
