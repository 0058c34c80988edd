"""Sessions of 2025-11-25 over HTTP: many connections, one conversation.

A session is kept in the store, so it outlives the process, and a replica knows it, too.  What it
has under way is here: streams, each for the answer to one request, and the general one (GET).
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from taskmachine.adapters.conversation import REMEMBERED, Conversation, Lookups
from taskmachine.adapters.runtime import Runtime
from taskmachine.adapters.server.asgi import Refusal
from taskmachine.adapters.server.owners import Owners
from taskmachine.adapters.server.streams import Stream
from taskmachine.adapters.stores import KeptSession
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Error,
    ErrorResponse,
    Id,
    Request,
)
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.protocol.outputs import Send
from taskmachine.protocol.rules import Offer, Rules
from taskmachine.statemachine import LimitExceeded

__all__ = ["Session", "Sessions"]

RESUME_S: Final = 5.0
"""How long a reader may be away before what it was asked is asked elsewhere."""

ABANDON_S: Final = 60.0
"""How long a reader may be away before nobody waits for the answer any more."""

UNUSED_S: Final = 600.0
"""After which a session without anything under way is only in the store."""

FINISHED: Final = 100
"""Streams of one session that are over, and could still be read again."""


class Session:
    """One session, while something happens in it."""

    def __init__(self, id: str, owner: str, until: int) -> None:
        self.id = id
        self.owner = owner
        self.until = until
        self.used_at = asyncio.get_running_loop().time()
        self.conversation: Conversation
        self.general = _general_stream()
        self._streams: dict[Id, Stream] = {}
        self._task_of: dict[Id, str] = {}
        self._timers: dict[Id | None, list[asyncio.TimerHandle]] = {}

    def begin(self, conversation: Conversation) -> None:
        self.conversation = conversation
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

    # --- streams that answer a request -------------------------------------------------------

    def open(self, request: Request, name: str = "", begun: int = 0) -> Stream:
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
        stream = self._streams[request.id] = Stream(name, begun)
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
            self.general = _general_stream()
            self.conversation.handle(self.conversation.receiver.lost(None))
            return
        del self._streams[id]
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


def _general_stream() -> Stream:
    return Stream(f"g{secrets.token_urlsafe(6)}")


class Sessions:
    """All sessions that this process knows of."""

    def __init__(
        self,
        runtime: Runtime,
        rules: Rules,
        offer: Offer,
        owners: Owners,
        *,
        maximum: int,
        idle_s: float,
        lookups: Callable[[str], Lookups],
    ) -> None:
        self._runtime = runtime
        self._rules = rules
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
        try:
            await self._store(session)
        except LimitExceeded:
            if not await service.store.forget_sessions(service.clock(), 100):
                raise
            await self._store(session)  # there was room that the next sweep would have made
        self._open[session.id] = session

    async def find(self, id: str, owner: str | None) -> Session:
        """The session; `Refusal` if there is none of this caller (2025-11-25: 404)."""
        session = self._open.get(id) or await self._restored(id)
        if session is None or (owner is not None and session.owner != owner):
            raise Refusal(
                404, INVALID_REQUEST, "Invalid request: no such session, send initialize again"
            )
        session.used_at = asyncio.get_running_loop().time()
        if session.until - self._runtime.service.clock() < self._idle_ms // 2:
            await self._store(session)
        return session

    async def end(self, session: Session) -> None:
        """Forget it, here and in the store."""
        self._open.pop(session.id, None)
        await self._runtime.service.store.end_session(self._owners.session_key(session.id))
        await session.close()

    async def close_unused(self, unused_s: float = UNUSED_S) -> None:
        """Let go of what can be restored from the store."""
        now = asyncio.get_running_loop().time()
        for session in list(self._open.values()):
            if session.is_idle and now - session.used_at >= unused_s:
                del self._open[session.id]
                await session.close()

    async def close(self) -> None:
        """The process ends; the sessions stay in the store."""
        for session in self._open.values():
            await session.close()
        self._open.clear()

    async def resumed(self, session: Session, name: str, seen: int) -> tuple[Id | None, Stream]:
        """The stream that a client wants to go on with, even if another process began it.

        A call that waits for the end of a task can wait here as well; what became of any other
        call nobody knows any more, and the client is told so.
        """
        known = session.named(name)
        if known is not None:
            return known
        sealed = self._runtime.service.sealer.open_stream(session.owner, name)
        if sealed is None:
            return None, session.general
        id, task_id = sealed
        request = Request(id, "tasks/result", {"taskId": task_id or ""})
        stream = session.open(request, name, seen)
        if task_id is not None:
            await session.conversation.answer(request)
        else:
            lost = Error(INTERNAL_ERROR, "The server was restarted while it ran this call")
            stream.put(ErrorResponse(id, lost))
        return id, stream

    def _make(self, id: str, owner: str, capabilities: JSONObject | None) -> Session:
        session = Session(id, owner, self._until())
        session.begin(
            Conversation(
                self._runtime,
                self._rules,
                self._offer,
                owner=owner,
                new_id=lambda: secrets.token_urlsafe(12),
                send=session.send,
                capabilities=capabilities,
                lookups=self._lookups(owner),
            )
        )
        return session

    async def _restored(self, id: str) -> Session | None:
        service = self._runtime.service
        kept = await service.store.session(self._owners.session_key(id))
        if kept is None or kept.until <= service.clock():
            return None
        body = decode_json(kept.body)
        session = self._make(id, body["owner"], body["capabilities"])
        session.until = kept.until
        if session.owner == self._owners.of_session(id):  # then it made all that it can see
            for task in (await service.page(session.owner, None, REMEMBERED)).tasks:
                if not task.is_terminal:
                    session.conversation.remember(task.id)
        return self._open.setdefault(id, session)  # somebody else may have been faster

    async def _store(self, session: Session) -> None:
        session.until = self._until()
        capabilities = session.conversation.receiver.capabilities or {}
        body = encode_json({"owner": session.owner, "capabilities": capabilities})
        kept = KeptSession(self._owners.session_key(session.id), body, session.until)
        await self._runtime.service.store.keep_session(kept, self._maximum)

    def _until(self) -> int:
        return self._runtime.service.clock() + self._idle_ms
