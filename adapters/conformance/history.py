"""The messages exchanged with a target: plain JSON with times.

Checks read nothing else. No decoder is involved, so that a decoder's misreading cannot hide a fault
of the target.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal

import attrs

__all__ = [
    "MISSING",
    "RELATED",
    "TERMINAL",
    "Entry",
    "Exchange",
    "History",
    "Http",
    "Kind",
    "Sighting",
    "id_key",
]

MISSING: Final = object()
"""The message of an entry without one; `null` is a valid message."""

TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
RELATED: Final = "io.modelcontextprotocol/related-task"

_CARRIERS: Final = {  # responses that contain a task, and where
    "tasks/get": "get",
    "tasks/cancel": "cancel",
    "tasks/update": "update",
}
_NOTICES: Final = {"notifications/tasks/status", "notifications/tasks"}


class Kind(StrEnum):
    """The kind of an entry."""

    SENT = "sent"
    """The tester sent a message, or bytes that are not a message."""
    HEARD = "heard"
    """The target sent a message, or bytes that are not a message."""
    HEAD = "head"
    """The target sent status and headers of an HTTP response; its messages follow."""
    EVENT = "event"
    """The target sent an event without a message, such as the first one of a resumable stream."""
    ENDED = "ended"
    """The target ended an HTTP response, or its output."""
    LEFT = "left"
    """The tester closed a connection or a pipe."""
    GAVE_UP = "gave up"
    """The tester stopped waiting for a response; `text` is the time limit."""
    EXITED = "exited"
    """The target's process exited; `text` says how."""


@attrs.frozen
class Http:
    """The HTTP part of an entry; header names are in lower case."""

    method: str = ""
    status: int = 0
    headers: Mapping[str, str] = attrs.field(factory=dict)
    event_id: str | None = None
    """Id of the event that contained the message, if it had its own."""
    retry_ms: int | None = None


@attrs.frozen(eq=False)
class Entry:
    """A message or another occurrence on a connection."""

    number: int
    """Position in the history."""
    at: float
    """Milliseconds since the start of the history."""
    kind: Kind
    caller: str
    """The caller whose credentials were used: "A" or "B"."""
    line: int
    """The connection: one per 2025-11-25 session or process, else one of its own."""
    post: int | None = None
    """Number of the HTTP request it belongs to; None on stdio."""
    message: Any = MISSING
    text: str | None = None
    """Text that was sent or received and is not JSON, or a description."""
    http: Http | None = None

    @property
    def body(self) -> Mapping[str, Any]:
        """The message if it is an object, else an empty one."""
        return self.message if isinstance(self.message, dict) else {}

    @property
    def method(self) -> str | None:
        """The method of a request or notification."""
        method = self.body.get("method")
        return method if isinstance(method, str) else None

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of a request or notification; empty if absent or not an object."""
        params = self.body.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def meta(self) -> Mapping[str, Any]:
        """`_meta` of the parameters or of the result."""
        holder = self.body.get("result", self.body.get("params"))
        meta = holder.get("_meta") if isinstance(holder, dict) else None
        return meta if isinstance(meta, dict) else {}

    @property
    def related_task(self) -> Any:
        """The task id in the related-task metadata, or None."""
        related = self.meta.get(RELATED)
        return related.get("taskId") if isinstance(related, dict) else None

    @property
    def is_request(self) -> bool:
        """Whether the message requires a response."""
        return "method" in self.body and "id" in self.body

    @property
    def is_response(self) -> bool:
        """Whether the message is a response."""
        return "method" not in self.body and ("result" in self.body or "error" in self.body)

    @property
    def is_notification(self) -> bool:
        """Whether the message requires no response."""
        return "method" in self.body and "id" not in self.body


@attrs.frozen(eq=False)
class Exchange:
    """A request of the tester with its response.

    On stdio `others` is empty, since messages there do not belong to a request.
    """

    request: Entry
    response: Entry | None = None
    head: Entry | None = None
    end: Entry | None = None
    """How it ended without a response, or after it: ENDED, LEFT, GAVE_UP or EXITED."""
    others: Sequence[Entry] = ()
    """Other messages in the same HTTP response, in order."""

    @property
    def method(self) -> str:
        """The method of the request."""
        return self.request.method or ""

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of the request."""
        return self.request.params

    @property
    def task_id(self) -> Any:
        """The `taskId` among the parameters."""
        return self.params.get("taskId")

    @property
    def result(self) -> Any:
        """The result: usually an object; None without one."""
        return None if self.response is None else self.response.body.get("result")

    @property
    def fields(self) -> Mapping[str, Any]:
        """The result if it is an object, else an empty one."""
        return self.result if isinstance(self.result, dict) else {}

    @property
    def error(self) -> Mapping[str, Any] | None:
        """The error if there is one and it is an object."""
        error = None if self.response is None else self.response.body.get("error")
        return error if isinstance(error, dict) else None

    @property
    def code(self) -> Any:
        """The code of the error."""
        return None if self.error is None else self.error.get("code")

    @property
    def status(self) -> int:
        """The HTTP status; 0 on stdio or without a response."""
        return 0 if self.head is None or self.head.http is None else self.head.http.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP response."""
        return {} if self.head is None or self.head.http is None else self.head.http.headers

    @property
    def sent_headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request."""
        return {} if self.request.http is None else self.request.http.headers

    @property
    def sent_at(self) -> float:
        """When the request was sent."""
        return self.request.at

    @property
    def heard_at(self) -> float | None:
        """When the response was received."""
        return None if self.response is None else self.response.at

    @property
    def waited_ms(self) -> float | None:
        """Time until the response or until the tester stopped waiting; None if it did not wait."""
        last = self.response or (self.end if self.end and self.end.kind is Kind.GAVE_UP else None)
        return None if last is None else last.at - self.request.at

    @property
    def is_answered(self) -> bool:
        """Whether there was a response."""
        return self.response is not None

    @property
    def entries(self) -> list[Entry]:
        """Request, response head and response, for a transcript."""
        return [e for e in (self.request, self.head, self.response or self.end) if e is not None]


@attrs.frozen(eq=False)
class Sighting:
    """A task as the target showed it, at a time between `since` and `until`.

    A sighting precedes another only if it was received before the other was requested. A
    notification may have been delayed: it precedes sightings that were requested after it was
    received, and later notifications on the same stream; only those notifications precede it.
    """

    task: Mapping[str, Any]
    where: Literal["create", "get", "list", "cancel", "update", "notification"]
    entry: Entry
    exchange: Exchange | None
    since: float
    until: float

    @property
    def id(self) -> Any:
        """The task's id."""
        return self.task.get("taskId")

    @property
    def status(self) -> Any:
        """The task's status."""
        return self.task.get("status")

    @property
    def is_terminal(self) -> bool:
        """Whether the status is terminal."""
        return isinstance(self.status, str) and self.status in TERMINAL

    @property
    def entries(self) -> list[Entry]:
        """The entries for a transcript."""
        return [self.entry] if self.exchange is None else self.exchange.entries

    def precedes(self, other: "Sighting") -> bool:
        """Whether this sighting is certainly earlier."""
        if other.exchange is None:
            is_same_stream = (self.entry.line, self.entry.post) == (
                other.entry.line,
                other.entry.post,
            )
            is_notice = self.exchange is None
            return is_notice and is_same_stream and self.entry.number < other.entry.number
        return self.entry.number < other.exchange.request.number


@attrs.frozen(eq=False)
class History:
    """Everything recorded of one revision over one transport."""

    revision: Literal["2025-11-25", "2026-07-28"]
    transport: Literal["stdio", "http"]
    entries: Sequence[Entry]
    principals: Mapping[str, str | None] = attrs.field(factory=dict)
    """The principal of each caller; None without credentials. Sessions are not principals."""

    # --- requests and answers --------------------------------------------------------------------

    @cached_property
    def exchanges(self) -> list[Exchange]:
        """All requests of the tester with a method and an id, in the order sent."""
        return list(_exchanges(self.entries))

    def calls(self, *methods: str) -> Iterator[Exchange]:
        """Return the exchanges of these methods."""
        found = chain.from_iterable(self._by_method.get(method, ()) for method in {*methods})
        return iter(sorted(found, key=lambda exchange: exchange.request.number))

    @cached_property
    def _by_method(self) -> dict[str, list[Exchange]]:
        found: dict[str, list[Exchange]] = {}
        for exchange in self.exchanges:
            found.setdefault(exchange.method, []).append(exchange)
        return found

    @cached_property
    def heard(self) -> list[Entry]:
        """All messages of the target, including those that are not JSON."""
        return [entry for entry in self.entries if entry.kind is Kind.HEARD]

    @cached_property
    def questions(self) -> list[tuple[Entry, Entry | None]]:
        """Requests of the target, each with the tester's response."""
        answers = {
            (entry.line, id_key(entry.body.get("id"))): entry
            for entry in self.entries
            if entry.kind is Kind.SENT and entry.is_response
        }
        return [
            (entry, answers.get((entry.line, id_key(entry.body["id"]))))
            for entry in self.heard
            if entry.is_request
        ]

    def notifications(self, *methods: str) -> list[Entry]:
        """Return the target's notifications, of one method or of all."""
        return [e for e in self.heard if e.is_notification and (not methods or e.method in methods)]

    @cached_property
    def capabilities(self) -> dict[int, Mapping[str, Any]]:
        """The target's capabilities by connection; in 2026-07-28 from `server/discover`."""
        return {
            exchange.request.line: exchange.fields["capabilities"]
            for exchange in self.calls("initialize", "server/discover")
            if isinstance(exchange.fields.get("capabilities"), dict)
        }

    @cached_property
    def tools(self) -> dict[str, Mapping[str, Any]]:
        """All tools that were ever listed, by name."""
        listed: dict[str, Mapping[str, Any]] = {}
        for exchange in self.calls("tools/list"):
            tools = exchange.fields.get("tools")
            for tool in tools if isinstance(tools, list) else ():
                if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                    listed[tool["name"]] = tool
        return listed

    # --- tasks -----------------------------------------------------------------------------------

    @cached_property
    def sightings(self) -> list[Sighting]:
        """Every occurrence of a task in a message, in the order received."""
        return sorted(self._sightings(), key=lambda sighting: sighting.entry.number)

    @cached_property
    def by_task(self) -> dict[str, list[Sighting]]:
        """The sightings of each task."""
        tasks: dict[str, list[Sighting]] = {}
        for sighting in self.sightings:
            if isinstance(sighting.id, str):
                tasks.setdefault(sighting.id, []).append(sighting)
        return tasks

    @cached_property
    def created(self) -> dict[str, Exchange]:
        """The exchange that created each task."""
        return {
            s.id: s.exchange
            for s in self.sightings
            if s.where == "create" and s.exchange is not None and isinstance(s.id, str)
        }

    @cached_property
    def results(self) -> dict[str, list[Exchange]]:
        """The `tasks/result` exchanges of each task (2025-11-25)."""
        results: dict[str, list[Exchange]] = {}
        for exchange in self.calls("tasks/result"):
            if isinstance(exchange.task_id, str):
                results.setdefault(exchange.task_id, []).append(exchange)
        return results

    def tool_of(self, task_id: str) -> str | None:
        """Return the tool whose call created a task."""
        created = self.created.get(task_id)
        name = None if created is None else created.params.get("name")
        return name if isinstance(name, str) else None

    def ended_before(self, task_id: str, entry: Entry) -> Sighting | None:
        """Return a terminal sighting of the task that was received before that entry."""
        return next(
            (
                s
                for s in self.by_task.get(task_id, ())
                if s.is_terminal and s.entry.number < entry.number
            ),
            None,
        )

    def _sightings(self) -> Iterator[Sighting]:
        for exchange in self.exchanges:
            response, fields = exchange.response, exchange.fields
            if response is None:
                continue
            found: list[tuple[Any, Any]] = []
            if exchange.method in _CARRIERS and "taskId" in fields:
                found = [(fields, _CARRIERS[exchange.method])]
            elif exchange.method == "tasks/list" and isinstance(fields.get("tasks"), list):
                found = [(task, "list") for task in fields["tasks"]]
            elif isinstance(fields.get("task"), dict) and not exchange.method.startswith("tasks/"):
                found = [(fields["task"], "create")]
            elif fields.get("resultType") == "task":  # 2026-07-28
                found = [(fields, "create")]
            for task, where in found:
                if isinstance(task, dict):
                    span = exchange.request.at, response.at
                    yield Sighting(task, where, response, exchange, *span)
        for entry in self.heard:
            if entry.method in _NOTICES and entry.is_notification:
                yield Sighting(entry.params, "notification", entry, None, 0.0, entry.at)


def id_key(id: Any) -> tuple[str, Any]:
    """Return a hashable key that distinguishes 1, 1.0, True and "1"."""
    return type(id).__name__, id if isinstance(id, str | int | float) else repr(id)


def _is_without_session(head: Entry | None, response: Entry, request: Entry) -> bool:
    """Return whether HTTP rejected the session; the server then did not process the request."""
    is_404 = head is not None and head.http is not None and head.http.status == 404
    return is_404 and id_key(response.body.get("id")) != id_key(request.body.get("id"))


def _exchanges(entries: Sequence[Entry]) -> Iterator[Exchange]:
    answers: dict[tuple[Any, ...], Entry] = {}
    heads: dict[int, Entry] = {}
    ends: dict[tuple[Any, ...], Entry] = {}
    others: dict[int, list[Entry]] = {}
    for entry in entries:
        is_answer = entry.kind is Kind.HEARD and entry.is_response
        if is_answer:
            answers.setdefault((entry.line, id_key(entry.body.get("id"))), entry)
        if entry.kind is Kind.HEAD and entry.post is not None:
            heads.setdefault(entry.post, entry)
        elif entry.kind is Kind.HEARD and entry.post is not None:
            if is_answer:
                answers.setdefault(("post", entry.post), entry)
            else:
                others.setdefault(entry.post, []).append(entry)
        elif entry.kind is Kind.GAVE_UP:
            ends.setdefault((entry.line, id_key(entry.body.get("id"))), entry)
        elif entry.kind in (Kind.ENDED, Kind.LEFT) and entry.post is not None:
            # Also if the tester disconnected before it resumed: that is not the target's fault.
            ends["post", entry.post] = entry
        elif entry.kind in (Kind.EXITED, Kind.ENDED, Kind.LEFT):
            ends.setdefault((entry.line, None), entry)
    for entry in entries:
        if entry.kind is not Kind.SENT or not entry.is_request or entry.method is None:
            continue
        own: tuple[Any, ...] = (entry.line, id_key(entry.body.get("id")))
        whole: tuple[Any, ...] = (entry.line, None) if entry.post is None else ("post", entry.post)
        # A response with another id counts if it arrives on the stream of this request.
        response = answers.get(own) or answers.get(whole)
        if response is not None and response.number < entry.number:
            response = None
        head = heads.get(entry.post or 0)
        if response is not None and _is_without_session(head, response, entry):
            response = None
        yield Exchange(
            entry,
            response,
            head,
            ends.get(own) or ends.get(whole),
            others.get(entry.post or 0, ()),
        )
