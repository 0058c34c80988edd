"""Sessions of 2025-11-25 over HTTP: many connections, one conversation.

A session is kept in the store, so it outlives the process, and every replica serves it.  What it
has under way is here: streams, each for the answer to one request, and the general one (GET).
Each request may come to another process, so whether the session still is, is read each time.
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
from taskmachine.adapters.transports.http.delivered_ends import LastEvent, ToldEnds
from taskmachine.adapters.transports.http.replica_tasks import MadeElsewhere
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
"""How long a reader may be away before what it was asked is asked elsewhere."""

ABANDON_S: Final = 60.0
"""How long a reader may be away before nobody waits for the answer any more."""

UNUSED_S: Final = 600.0
"""After which a session without anything under way is only in the store."""

LOOK_S: Final = 0.5
"""How often to look for what other processes did to a session that listens."""

READY: Final = "notifications/initialized"

_AGAIN: Final = "~"
"""Before what tells apart the streams on which several processes answered one request."""

FINISHED: Final = 100
"""Streams of one session that are over, and could still be read again."""


class Session:
    """One session, while something happens in it."""

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
        """What it is kept under."""
        self.owner = owner
        self.until = until
        self.used_at = asyncio.get_running_loop().time()
        self.is_ready = False
        """Whether this process knows that the client can be asked something."""
        self.is_restored = False
        self.conversation: Conversation
        self.elsewhere: MadeElsewhere
        self._clock = clock
        self._on_drop = on_drop
        self.general = self._general_stream()
        self._streams: dict[Id, Stream] = {}
        self._task_of: dict[Id, str] = {}
        self._ends = ToldEnds()
        self._timers: dict[Id | None, list[asyncio.TimerHandle]] = {}

    def begin(self, conversation: Conversation, elsewhere: MadeElsewhere) -> None:
        self.conversation = conversation
        self.elsewhere = elsewhere
        conversation.handle(conversation.receiver.lost(None))  # nobody reads it yet

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost with it that is not in the store."""
        nobody_reads = self.general.reader is None and None not in self._timers
        return nobody_reads and not self._streams

    def send(self, said: Send) -> None:
        """What the conversation wants to say: on the stream where it belongs."""
        stream = self.general if said.stream is None else self._streams.get(said.stream)
        if stream is not None:
            stream.put(said.message)
            if said.ends is not None and stream is self.general:
                self._ends.add(said.ends, LastEvent(stream.name, stream.newest))

    def has_told(self, last: LastEvent | None, task_id: str) -> bool:
        """Whether a client that knows `last` need not be told how that task has ended."""
        return self._ends.is_known(task_id, self.general.name, last)

    # --- streams that answer a request -------------------------------------------------------

    def open(self, request: Request, name: str = "") -> Stream:
        """The stream for the answer; `Refusal` if one with this id is under way."""
        if self.is_answering(request.id):
            raise Refusal(400, INVALID_REQUEST, "Invalid request: the id is in use")
        self.came(request.id)  # else what is due for the stream before would happen to this one
        self._task_of.pop(request.id, None)
        task_id = request.params.get("taskId")
        if request.method == "tasks/result" and isinstance(task_id, str):
            # Whoever asks again does not come back for the stream that broke.
            for id in [id for id, of in self._task_of.items() if of == task_id]:
                if self._streams[id].reader is None and id in self._timers:
                    self.drop(id)
            self._task_of[request.id] = task_id
        stream = self._streams[request.id] = Stream(name, on_drop=self._on_drop)
        return stream

    def is_answering(self, id: Id) -> bool:
        """Whether a request of that id is under way."""
        stream = self._streams.get(id)
        return stream is not None and not stream.is_over

    def answered(self, id: Id) -> None:
        """The answer went out at once: nothing to come back for."""
        del self._streams[id]
        self._task_of.pop(id, None)

    def named(self, name: str) -> tuple[Id | None, Stream] | None:
        """The stream of that name, if it is still here."""
        if name == self.general.name:
            return None, self.general
        found = (item for item in self._streams.items() if item[1].name == name)
        return next(found, None)

    def came(self, id: Id | None) -> None:
        """Somebody reads that stream (again)."""
        for timer in self._timers.pop(id, ()):
            timer.cancel()

    def left(self, id: Id | None, stream: Stream) -> None:
        """Nobody reads that stream any more; whoever comes back in time misses nothing."""
        later = asyncio.get_running_loop().call_later
        if stream is not (self.general if id is None else self._streams.get(id)):
            return  # another one has its place
        self.came(id)
        self._timers[id] = [later(RESUME_S, self.lose, id), later(ABANDON_S, self.drop, id)]
        if stream.is_over and len(self._streams) > FINISHED:
            self._drop_oldest_finished()

    def lose(self, id: Id | None) -> None:
        """What was asked there is asked elsewhere."""
        stream = self.general if id is None else self._streams[id]
        stream.forget_questions()
        receiver = self.conversation.receiver
        if id is None or receiver.is_pending(id):
            self.conversation.handle(receiver.lost(id))

    def drop(self, id: Id | None) -> None:
        """Nobody will read that stream again.  What runs for it goes on, unless it only waited."""
        self.came(id)
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
        """The end: every reader is done, and every plain call is stopped."""
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
    """What is kept of a session, for every process."""

    owner: str
    capabilities: JSONObject
    is_ready: bool = False
    """Whether a process that did not begin it was told that the client can be asked."""
    reader: str | None = None
    """The name of the general stream, which is read at one place only."""

    @classmethod
    def of(cls, kept: KeptSession) -> "_Record":
        return cls(**decode_json(kept.body))

    def encode(self) -> bytes:
        return encode_json(attrs.asdict(self))


class Sessions:
    """All sessions that this process knows of."""

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
        """A session that nobody knows of until it is kept; without an owner it is its own."""
        id = secrets.token_urlsafe(32)
        return self._make(id, owner or self._owners.of_session(id), None)

    async def keep(self, session: Session) -> None:
        """From now on it can be found.  `LimitExceeded` if there are too many."""
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
            # There was room that the next sweep would have made.
            await self._store(session, record, self._maximum)
        self._open[session.id] = session

    async def find(self, id: str, owner: str | None) -> Session:
        """The session; `Refusal` if there is none of this caller (2025-11-25: 404)."""
        kept = await self._kept(id)
        session = self._open.get(id)
        if kept is None:
            if session is not None:  # another process has ended it
                await self._let_go(session)
            raise _no_session()
        session = session or self._restored(id, kept)
        if owner is not None and session.owner != owner:
            raise _no_session()
        session.used_at = asyncio.get_running_loop().time()
        if not session.is_ready and _Record.of(kept).is_ready:
            # Another process was told, and this one may have questions, too.
            session.is_ready = True
            session.conversation.receive(Notification(READY))
        await self._extend(session, kept)
        return session

    async def heard(self, session: Session, notification: Notification) -> None:
        """The client has said that; what every process has to know of it is kept."""
        if notification.method == READY:
            session.is_ready = True
            if session.is_restored:  # whoever began it waits for this, and was not told
                await self._change(session, is_ready=True)

    async def end(self, session: Session) -> None:
        """Forget it, here and in the store."""
        self._open.pop(session.id, None)
        await self._runtime.service.store.end_session(session.key)
        await session.close()

    async def close_unused(self, unused_s: float = UNUSED_S) -> None:
        """Let go of what can be restored from the store."""
        now = asyncio.get_running_loop().time()
        for session in list(self._open.values()):
            if session.is_idle and now - session.used_at >= unused_s:
                await self._let_go(session)

    async def look_after_used(self) -> None:
        """Keep what is used here in the store, and end what was ended there."""
        for session in list(self._open.values()):
            if not session.is_idle:
                await self._look_after(session)

    async def close(self) -> None:
        """The process ends; the sessions stay in the store."""
        for session in self._open.values():
            await session.close()
        self._open.clear()

    # --- streams -----------------------------------------------------------------------------

    async def listen(self, session: Session, last: LastEvent | None) -> None:
        """The general stream is read here from now on, and nowhere else.

        Whoever goes on with one that another process began is told what it missed since `last`.
        """
        await self._change(session, reader=session.general.name)
        await session.conversation.listen()
        since = None if last is None else last.told_at
        await session.elsewhere.catch_up(since, partial(session.has_told, last))

    async def look_around(self) -> float:
        """Notice what other processes did to the sessions that listen; when to look again."""
        for session in list(self._open.values()):
            if session.general.reader is None:
                continue
            name = session.general.name
            kept = await self._look_after(session)
            if kept is None or session.general.name != name:
                continue
            if _Record.of(kept).reader != name:
                session.drop(None)  # 2025-11-25: nothing is said on two streams
            else:
                await session.elsewhere.look()
        return LOOK_S

    async def resumed(self, session: Session, name: str) -> tuple[Id | None, Stream]:
        """The stream that a client wants to go on with, even if another process began it.

        A call that waits for the end of a task can wait here as well; what became of any other
        call only the process knows that runs it, and the client is told so.
        """
        known = session.named(name)
        if known is not None:
            return known
        # What each process says has a name of its own: it is not what another one said.
        origin, *_ = name.split(_AGAIN)
        sealed = self._runtime.service.sealer.open_stream(session.owner, origin)
        if sealed is None:
            session.drop(None)  # what it kept may have been told elsewhere
            return None, session.general
        id, task_id = sealed
        request = Request(id, "tasks/result", {"taskId": task_id or ""})
        if task_id is not None and session.is_answering(id):
            session.drop(id)  # it was read elsewhere since then
        stream = session.open(request, f"{origin}{_AGAIN}{secrets.token_urlsafe(6)}")
        if task_id is not None:
            response = await session.conversation.answer(request)
            if response is not None:
                stream.put(response)
        else:
            why = "The server was restarted while it ran this call, or runs it in another process"
            stream.put(ErrorResponse(id, Error(INTERNAL_ERROR, why)))
        return id, stream

    # --- in the store ------------------------------------------------------------------------

    def _make(self, id: str, owner: str, capabilities: JSONObject | None) -> Session:
        service = self._runtime.service
        key = self._owners.session_key(id)
        session = Session(id, key, owner, self._until(), service.clock, service.dropped)
        # A session that is its own owner has made all that it can see.
        is_own = owner == self._owners.of_session(id)
        mark = b"{}"
        # Where callers see the metadata of tasks, the server keeps no marks there.
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
            MadeElsewhere(service, conversation, owner, None if is_own else mark),
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
        session = self._open.get(id)  # whose key need not be computed: 6 us
        key = self._owners.session_key(id) if session is None else session.key
        kept = await service.store.session(key)
        return None if kept is None or kept.until <= service.clock() else kept

    async def _look_after(self, session: Session) -> KeptSession | None:
        """As it is kept, for as long as it is used here; None if somebody has ended it."""
        kept = await self._kept(session.id)
        if kept is None:
            await self._let_go(session)
            return None
        try:
            await self._extend(session, kept)
        except Refusal:
            return None
        return kept

    async def _let_go(self, session: Session) -> None:
        self._open.pop(session.id, None)
        await session.close()

    async def _extend(self, session: Session, kept: KeptSession) -> None:
        session.until = kept.until
        if kept.until - self._runtime.service.clock() < self._idle_ms // 2:
            await self._store(session, _Record.of(kept))

    async def _change(self, session: Session, **changes: Any) -> None:
        kept = await self._kept(session.id)
        if kept is None:
            await self._let_go(session)
            raise _no_session()
        await self._store(session, attrs.evolve(_Record.of(kept), **changes))

    async def _store(self, session: Session, record: _Record, room: int = 0) -> None:
        """Without room it is only replaced: what another process has ended stays so."""
        until = self._until()
        kept = KeptSession(session.key, record.encode(), until)
        try:
            await self._runtime.service.store.keep_session(kept, room)
        except LimitExceeded:
            if room:
                raise
            await self._let_go(session)
            raise _no_session() from None
        session.until = until

    def _until(self) -> int:
        return self._runtime.service.clock() + self._idle_ms


def _no_session() -> Refusal:
    return Refusal(404, INVALID_REQUEST, "Invalid request: no such session, send initialize again")
