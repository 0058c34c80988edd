"""What a receiver needs to know of itself and of a dialect: how to read it, and how to show it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from taskmachine.protocol.dialect import Dialect, Side, TaskSupport
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonrpc import Id, Request
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.protocol.operations import Operation
from taskmachine.statemachine import Outcome, Progress, Question, Task
from taskmachine.statemachine.lifecycle import Step

__all__ = [
    "IDEMPOTENCY_KEY",
    "Immediate",
    "Offer",
    "Rules",
    "Session",
    "Tool",
    "idempotency_key",
    "poll_interval_ms",
]


def poll_interval_ms(task: Task, now: int) -> int:
    """How long a requestor should wait before it looks again: longer, the older the task is."""
    if task.poll_interval_ms is not None:
        return task.poll_interval_ms
    return min(5_000, max(250, (now - task.created_at) // 10))


IDEMPOTENCY_KEY: Final = "taskmachine/idempotency-key"
"""In the `_meta` of a request: sent again under the same key, it makes no second task."""


def idempotency_key(request: Request) -> str | None:
    """The key that a request carries (USER-10)."""
    key = (request.params.get("_meta") or {}).get(IDEMPOTENCY_KEY)
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= 256):
        raise InvalidParams(f"params._meta['{IDEMPOTENCY_KEY}'] must be 1 to 256 characters")
    return key


@attrs.frozen
class Tool:
    """A tool, as a list of tools shows it."""

    definition: JSONObject
    task_support: TaskSupport = "forbidden"
    immediate: str | None = None
    """What the model is told at once when a call becomes a task, where the wire can say it."""
    first: tuple[Question, ...] = ()
    """What is asked before a call becomes a task, where the wire can ask that early."""


@attrs.frozen
class Offer:
    """What a receiver says of itself."""

    info: JSONObject
    tools: Mapping[str, Tool] = attrs.field(factory=dict)
    side: Side = "server"
    methods: frozenset[str] = frozenset()
    """On the client's side: the requests that it accepts as tasks."""
    listing: bool = True
    """Whether it can tell its callers apart, so that a list shows each one only its own."""
    instructions: str | None = None

    @property
    def augmentable(self) -> frozenset[str]:
        """The requests that can become tasks."""
        if self.side == "client":
            return self.methods
        takes_tasks = any(tool.task_support != "forbidden" for tool in self.tools.values())
        return frozenset({"tools/call"}) if takes_tasks else frozenset()

    def tool(self, name: str) -> Tool:
        """The tool of that name, or `InvalidParams`."""
        if name not in self.tools:
            raise InvalidParams(f"params.name is no tool of this server: {name[:80]!r}")
        return self.tools[name]


@attrs.define
class Session:
    """What a conversation has established."""

    offer: Offer
    capabilities: JSONObject = attrs.field(factory=dict)
    """What the peer declared when it introduced itself."""
    is_introduced: bool = False
    is_ready: bool = False
    """Whether it can be asked something."""


@attrs.frozen
class Immediate:
    """A result that needs no task."""

    result: Any


@attrs.frozen(eq=False)
class Rules:
    """How one dialect reads requests and shows tasks; None for what its wire does not have."""

    dialect: Dialect
    read: Callable[[Request, Session], Operation | Immediate]
    """What a request asks for; raises what the error table knows."""
    reply: Callable[[Operation, Task, Sequence[Step], int], Any]
    """The result message, or an `Error`, for an operation that was performed."""
    notice: Callable[[Task, Id | None, Operation | None, int], Any]
    """The notification of a change, on a stream that such an operation opened."""
    ran: Callable[[Outcome], Any] | None = None
    """The result message, or an `Error`, of a plain call."""
    paused: Callable[[Sequence[Question], str | None], Any] | None = None
    """The result message of a plain call that needs answers first."""
    page: Callable[[Sequence[Task], str | None, int], Any] | None = None
    """The result message of a list."""
    progress: Callable[[Task], Any] | None = None
    """The notification of progress, or None if there is nothing to tell."""
    question: Callable[[Id, Task, Question], Request] | None = None
    """The request that brings a question."""
    call_progress: Callable[[Id, Progress], Any] | None = None
    """The notification of progress of a plain call, under its token."""
    call_question: Callable[[Id, Question], Request] | None = None
    """The request that brings a question of a plain call."""
    readiness: type | None = None
    """The notification that has to come before any question."""
    withdrawal: Callable[[Id], Any] | None = None
    """The notification that takes a question back."""
    acknowledgement: Callable[[Id, Sequence[str]], Any] | None = None
    """The notification that a watch has begun."""
    farewell: Callable[[Id], tuple[Any, Any]] | None = None
    """The notification and the result by which a watch ends."""
    signature: Callable[[Offer], JSONObject] | None = None
    """What every result says in its `_meta`."""
    collect_blocks: bool = False
    """Whether collecting waits for the end."""
    follows_created: bool = False
    """Whether changes of a task are told to the conversation that created it."""
    announces_created: bool = False
    """Whether the creation of a task is told as well (ERL-65)."""
    cancelled: Callable[[Task], Any] | None = None
    """A second notification, of a task that was cancelled (ERL-67)."""
