"""Access to a target for probes: callers whose traffic is recorded."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from taskmachine.adapters.conformance.history import Exchange, History, Kind
from taskmachine.adapters.conformance.profile import Profile
from taskmachine.adapters.conformance.recorder import Recorder
from taskmachine.adapters.conformance.target import Revision, Target
from taskmachine.adapters.conformance.wire.caller import (
    EXTENSION,
    PATIENCE_MS,
    Caller,
    Pending,
    TargetLost,
)
from taskmachine.adapters.conformance.wire.transports import HttpTransport

__all__ = ["Harness"]

SHOWN: Final = 60
"""Maximum number of characters quoted from output that is not a message."""

START_MS: Final = 30_000.0
"""Start-up time allowed to the first process; later processes get twice what it needed."""

CAPABILITIES: Final[Mapping[str, Any]] = {"elicitation": {"form": {}}, "sampling": {}}


class Harness:
    """A target, its callers and the record of their traffic."""

    def __init__(
        self,
        target: Target,
        revision: Revision,
        recorder: Recorder,
        *,
        seed: int = 0,
        profile: Profile | None = None,
        patience_ms: float = PATIENCE_MS,
    ) -> None:
        self.target = target
        self.revision = revision
        self.transport = target.transport
        self.profile = Profile() if profile is None else profile
        self.random = random.Random(seed)
        self.recorder = recorder
        self.patience_ms = patience_ms
        self._web = None if target.url is None else HttpTransport(target.url, {})
        self._callers: dict[str, Caller] = {}
        self._all: list[Caller] = []
        self._start_ms = 0.0

    @property
    def has_two_principals(self) -> bool:
        """Whether callers A and B have different credentials."""
        return self.target.principal("A") != self.target.principal("B")

    async def caller(
        self,
        name: str = "A",
        *,
        fresh: bool = False,
        capabilities: Mapping[str, Any] | None = None,
    ) -> Caller:
        """Return a caller with these client capabilities; the same one each time unless `fresh`.

        A fresh caller has its own session (HTTP) or process (stdio), and so has the replacement of
        a caller whose connection ended. Raise TargetLost if the handshake fails.
        """
        known = self._callers.get(name)
        if known is not None and known.closed_reason is None and not fresh and capabilities is None:
            return known
        caller = await self.new_caller(name, capabilities=capabilities)
        hello = await caller.handshake(wait_ms=START_MS)
        if self._web is None:
            self._start_ms = max(self._start_ms, hello.waited_ms or 0.0)
        if "result" not in (hello.response.body if hello.response else {}):
            failure = _handshake_failure(hello, caller.closed_reason)
            raise TargetLost(failure + self._unexpected_output(caller))
        spoken = _spoken(hello.fields)
        if self.revision not in spoken:
            raise TargetLost(f"it supports only {' and '.join(spoken) or 'unnamed revisions'}")
        tools = [] if known is None else list(known.mirrored.items())
        caller.mirrored.update(tools)
        if not fresh and capabilities is None:
            self._callers[name] = caller
        return caller

    def _unexpected_output(self, caller: Caller) -> str:
        """Quote output that is not a message: most likely a log line on standard output."""
        for entry in self.recorder.entries:
            if entry.line == caller.line and entry.kind is Kind.HEARD and entry.text:
                return f"; it wrote {entry.text.strip()[:SHOWN]!r}"
        return ""

    async def new_caller(
        self, name: str = "A", *, capabilities: Mapping[str, Any] | None = None
    ) -> Caller:
        """Return a new connection without a handshake: no `initialize`, no session."""
        self.recorder.check_limits()
        declared = dict(CAPABILITIES if capabilities is None else capabilities)
        if self.revision == "2026-07-28":
            declared.setdefault("extensions", {EXTENSION: {}})
        caller = Caller(
            name,
            self.revision,
            self.recorder,
            capabilities=declared,
            headers=self.target.headers_of(name),
            web=self._web,
            patience_ms=self.patience_ms,
        )
        if self._web is None:
            caller.start_ms = min(2 * self._start_ms, START_MS)
            await caller.connect(self.target.command)
        self._all.append(caller)
        return caller

    @contextlib.asynccontextmanager
    async def listen(self, caller: Caller, task_ids: Sequence[str] = ()) -> AsyncIterator[Pending]:
        """Open the GET stream of 2025-11-25, or `subscriptions/listen` for these tasks."""
        if self.revision == "2026-07-28":
            wanted = {"notifications": {"taskIds": list(task_ids)}}
            stream = caller.start("subscriptions/listen", wanted)
        else:
            headers = {"accept": "text/event-stream", "content-type": None}
            stream = caller.begin(b"", method="GET", headers=headers)
        try:
            yield stream
        finally:
            await stream.abandon()

    async def is_alive(self) -> bool:
        """Return whether the target still answers; the exchange is recorded."""
        method = "ping" if self.revision == "2025-11-25" else "server/discover"
        try:
            caller = await self.caller()
            return (await caller.request(method)).is_answered
        except TargetLost:
            return False

    def history(self, since: int = 0) -> History:
        """Return the history, or from an entry on with the handshakes of open connections."""
        principals = {name: self.target.principal(name) for name in "AB"}
        lines = frozenset(caller.line for caller in self._callers.values())
        return self.recorder.history(self.revision, self.transport, principals, since, lines)

    async def release(self, caller: Caller) -> None:
        """Close a caller that is no longer needed."""
        if caller in self._all:
            self._all.remove(caller)
            await caller.close()

    async def close(self) -> None:
        """Close all callers."""
        leaving = list(self._all)
        self._all.clear()
        await asyncio.gather(*(caller.close() for caller in leaving))
        if self._web is not None:
            await self._web.close()


def _spoken(hello: Mapping[str, Any]) -> list[str]:
    """Return the revisions that the target names in its first response."""
    named = hello.get("supportedVersions", [hello.get("protocolVersion")])
    return [v for v in named if isinstance(v, str)] if isinstance(named, list) else []


def _handshake_failure(hello: Exchange, closed_reason: str | None) -> str:
    error, status, ending = hello.error, hello.status, hello.end
    if error is not None:
        return f"it answered with error {error.get('code')}: {error.get('message')}"
    if closed_reason is not None:
        return closed_reason
    if ending is not None and ending.text and ending.kind is Kind.ENDED and not status:
        return ending.text
    if not status:
        return "it did not answer in time"
    said = [f"it answered with HTTP status {status}"]
    if status < 300:
        kind = hello.headers.get("content-type", "no content type")
        said += [kind, (ending.text if ending else None) or "no message in it"]
    elif status < 400:
        said += [f"to {hello.headers.get('location')!r}"]
    return ", ".join(" ".join(words.split())[:SHOWN] for words in said)
