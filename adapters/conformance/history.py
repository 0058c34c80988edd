"""What was said to a target and heard from it: plain JSON, with times.

Checks read nothing else.  No decoder of ours stands in between: what we would misread in the same
way as the target must not hide.
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
"""Stands for the message of an entry that has none, since `null` is one."""

TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
RELATED: Final = "io.modelcontextprotocol/related-task"

_CARRIERS: Final = {  # which answers have a task, and where
    "tasks/get": "get",
    "tasks/cancel": "cancel",
    "tasks/update": "update",
}
_NOTICES: Final = {"notifications/tasks/status", "notifications/tasks"}


class Kind(StrEnum):
    """What an entry tells."""

    SENT = "sent"
    """We sent a message, or bytes that are none."""
    HEARD = "heard"
    """The target sent a message, or bytes that are none."""
    HEAD = "head"
    """The target answered an HTTP request: status and headers; its messages follow."""
    EVENT = "event"
    """The target sent an event without a message, as streams that can be resumed begin."""
    ENDED = "ended"
    """The target ended an HTTP answer, or its output."""
    LEFT = "left"
    """We broke off: closed a connection, or a pipe."""
    GAVE_UP = "gave up"
    """We waited for an answer as long as we could; `text` says how long."""
    EXITED = "exited"
    """The process of the target is gone; `text` says how."""


@attrs.frozen
class Http:
    """The HTTP side of an entry; names of headers are in lower case."""

    method: str = ""
    status: int = 0
    headers: Mapping[str, str] = attrs.field(factory=dict)
    event_id: str | None = None
    """Of the event that a message was heard in, if it had one of its own."""
    retry_ms: int | None = None


@attrs.frozen(eq=False)
class Entry:
    """One thing that happened."""

    number: int
    """Its place in the history."""
    at: float
    """Milliseconds since the history began."""
    kind: Kind
    caller: str
    """Whose credentials: "A", "B"."""
    line: int
    """Which connection: a session of 2025-11-25, or a process; else a number of its own."""
    post: int | None = None
    """Which HTTP request of the run it belongs to; None over pipes."""
    message: Any = MISSING
    text: str | None = None
    """What was sent or heard that is no JSON; or words."""
    http: Http | None = None

    @property
    def body(self) -> Mapping[str, Any]:
        """The message if it is an object; else an empty one."""
        return self.message if isinstance(self.message, dict) else {}

    @property
    def method(self) -> str | None:
        """Of a request or notification."""
        method = self.body.get("method")
        return method if isinstance(method, str) else None

    @property
    def params(self) -> Mapping[str, Any]:
        """Of a request or notification; empty if there are none, or no object."""
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
        """The id in the related-task metadata; None if there is none."""
        related = self.meta.get(RELATED)
        return related.get("taskId") if isinstance(related, dict) else None

    @property
    def is_request(self) -> bool:
        """Whether it wants an answer."""
        return "method" in self.body and "id" in self.body

    @property
    def is_response(self) -> bool:
        """Whether it is an answer."""
        return "method" not in self.body and ("result" in self.body or "error" in self.body)

    @property
    def is_notification(self) -> bool:
        """Whether it wants no answer."""
        return "method" in self.body and "id" not in self.body


@attrs.frozen(eq=False)
class Exchange:
    """A request of ours and what became of it.

    On the pipe `others` is empty: what comes meanwhile belongs to nobody in particular.
    """

    request: Entry
    response: Entry | None = None
    head: Entry | None = None
    end: Entry | None = None
    """How it ended, if without a response, or after it: ended, left, gave up, exited."""
    others: Sequence[Entry] = ()
    """Other messages on the same HTTP answer, in order."""

    @property
    def method(self) -> str:
        """Of the request."""
        return self.request.method or ""

    @property
    def params(self) -> Mapping[str, Any]:
        """Of the request."""
        return self.request.params

    @property
    def task_id(self) -> Any:
        """The `taskId` among the parameters."""
        return self.params.get("taskId")

    @property
    def result(self) -> Any:
        """Of the response: usually an object; None without one."""
        return None if self.response is None else self.response.body.get("result")

    @property
    def fields(self) -> Mapping[str, Any]:
        """The result if it is an object; else an empty one."""
        return self.result if isinstance(self.result, dict) else {}

    @property
    def error(self) -> Mapping[str, Any] | None:
        """Of the response, if it is one and an object."""
        error = None if self.response is None else self.response.body.get("error")
        return error if isinstance(error, dict) else None

    @property
    def code(self) -> Any:
        """Of the error."""
        return None if self.error is None else self.error.get("code")

    @property
    def status(self) -> int:
        """Of HTTP; 0 over pipes, or if there was no answer."""
        return 0 if self.head is None or self.head.http is None else self.head.http.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Of the HTTP answer."""
        return {} if self.head is None or self.head.http is None else self.head.http.headers

    @property
    def sent_headers(self) -> Mapping[str, str]:
        """Of the HTTP request."""
        return {} if self.request.http is None else self.request.http.headers

    @property
    def sent_at(self) -> float:
        """When it was sent."""
        return self.request.at

    @property
    def heard_at(self) -> float | None:
        """When it was answered."""
        return None if self.response is None else self.response.at

    @property
    def waited_ms(self) -> float | None:
        """How long the answer took, or how long we waited in vain; None if we did not wait."""
        last = self.response or (self.end if self.end and self.end.kind is Kind.GAVE_UP else None)
        return None if last is None else last.at - self.request.at

    @property
    def is_answered(self) -> bool:
        """Whether there was a response."""
        return self.response is not None

    @property
    def entries(self) -> list[Entry]:
        """Request, head and response, for a transcript."""
        return [e for e in (self.request, self.head, self.response or self.end) if e is not None]


@attrs.frozen(eq=False)
class Sighting:
    """A task as the target showed it, somewhere between `since` and `until`.

    One sighting is before another only if it was heard before the other was asked for.  A
    notification may have been on its way for long: it is before what was asked for after it was
    heard, and before later notifications on the same stream; nothing is before it but those.
    """

    task: Mapping[str, Any]
    where: Literal["create", "get", "list", "cancel", "update", "notification"]
    entry: Entry
    exchange: Exchange | None
    since: float
    until: float

    @property
    def id(self) -> Any:
        """Of the task."""
        return self.task.get("taskId")

    @property
    def status(self) -> Any:
        """Of the task."""
        return self.task.get("status")

    @property
    def is_terminal(self) -> bool:
        """Whether it was over."""
        return isinstance(self.status, str) and self.status in TERMINAL

    @property
    def entries(self) -> list[Entry]:
        """For a transcript."""
        return [self.entry] if self.exchange is None else self.exchange.entries

    def precedes(self, other: "Sighting") -> bool:
        """Whether it was certainly earlier."""
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
    """All of a run, of one revision over one transport."""

    revision: Literal["2025-11-25", "2026-07-28"]
    transport: Literal["stdio", "http"]
    entries: Sequence[Entry]
    principals: Mapping[str, str | None] = attrs.field(factory=dict)
    """For each caller who that is; None without credentials.  Sessions are no principals."""

    # --- requests and answers --------------------------------------------------------------------

    @cached_property
    def exchanges(self) -> list[Exchange]:
        """All requests of ours that have a method and an id, in the order they were sent."""
        return list(_exchanges(self.entries))

    def calls(self, *methods: str) -> Iterator[Exchange]:
        """The exchanges of these methods."""
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
        """All messages of the target, also those that are no JSON."""
        return [entry for entry in self.entries if entry.kind is Kind.HEARD]

    @cached_property
    def questions(self) -> list[tuple[Entry, Entry | None]]:
        """Requests of the target, each with our answer: elicitation, sampling, roots, ping."""
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
        """What the target told without being asked; all of it if no method is named."""
        return [e for e in self.heard if e.is_notification and (not methods or e.method in methods)]

    @cached_property
    def capabilities(self) -> dict[int, Mapping[str, Any]]:
        """What the target declared, for each line; of 2026-07-28 by `server/discover`."""
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
        """Every place where a task was shown, in the order it was heard."""
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
        """The creating exchange of each task that was created here."""
        return {
            s.id: s.exchange
            for s in self.sightings
            if s.where == "create" and s.exchange is not None and isinstance(s.id, str)
        }

    @cached_property
    def results(self) -> dict[str, list[Exchange]]:
        """Of 2025-11-25: the `tasks/result` exchanges of each task."""
        results: dict[str, list[Exchange]] = {}
        for exchange in self.calls("tasks/result"):
            if isinstance(exchange.task_id, str):
                results.setdefault(exchange.task_id, []).append(exchange)
        return results

    def tool_of(self, task_id: str) -> str | None:
        """The tool whose call made a task."""
        created = self.created.get(task_id)
        name = None if created is None else created.params.get("name")
        return name if isinstance(name, str) else None

    def ended_before(self, task_id: str, entry: Entry) -> Sighting | None:
        """A terminal sighting of the task that was heard before that entry."""
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
    """1, 1.0, True and "1" are different ids."""
    return type(id).__name__, id if isinstance(id, str | int | float) else repr(id)


def _is_without_session(head: Entry | None, response: Entry, request: Entry) -> bool:
    """Whether HTTP says that there is no such session: then nobody has looked at the request."""
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
            ends["post", entry.post] = entry  # left before it was resumed: not the target's fault
        elif entry.kind in (Kind.EXITED, Kind.ENDED, Kind.LEFT):
            ends.setdefault((entry.line, None), entry)
    for entry in entries:
        if entry.kind is not Kind.SENT or not entry.is_request or entry.method is None:
            continue
        own: tuple[Any, ...] = (entry.line, id_key(entry.body.get("id")))
        whole: tuple[Any, ...] = (entry.line, None) if entry.post is None else ("post", entry.post)
        # An answer with another id counts if it is on the stream where this was asked.
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
