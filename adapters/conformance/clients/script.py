"""Scripts of servers: tools, the behaviour of their tasks, and scenarios."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import attrs

from taskmachine.adapters.conformance.clients.incoming import ClientMessage

__all__ = [
    "FORM",
    "SAMPLING",
    "WITHOUT_MODE",
    "Question",
    "Scenario",
    "TaskControl",
    "TaskError",
    "Tool",
    "Where",
    "breaks",
    "fails",
    "paced",
    "text_result",
]

Revision = Literal["2025-11-25", "2026-07-28"]
Where = Literal["result", "listening", "poll"]
"""The stream on which a request goes to the client (2025-11-25)."""


@attrs.frozen
class Question:
    """A request for input by a task."""

    kind: Literal["elicitation", "sampling"]
    params: Mapping[str, Any]
    unless: str | None = None
    """Skip the request if the client declared this sub-capability."""

    def fits(self, capabilities: Mapping[str, Any]) -> bool:
        """Return whether to send it to a client with these capabilities."""
        declared = capabilities.get(self.kind)
        return isinstance(declared, dict) and (self.unless is None or self.unless not in declared)

    @property
    def method(self) -> str:
        """The method of the request."""
        return {"elicitation": "elicitation/create", "sampling": "sampling/createMessage"}[
            self.kind
        ]


FORM: Final = Question(
    "elicitation",
    {
        "mode": "form",
        "message": "Which stage? Any answer will do.",
        "requestedSchema": {
            "type": "object",
            "properties": {"stage": {"type": "string", "minLength": 1}},
            "required": ["stage"],
        },
    },
)
SAMPLING: Final = Question(
    "sampling",
    {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Say anything."}}],
        "maxTokens": 20,
    },
)


class TaskError(Exception):
    """Ends a task with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class TaskControl(Protocol):
    """Control over a task, for its tool."""

    interval_ms: int
    """The poll interval to report from now on."""

    async def work(self, ms: float) -> None:
        """Let time pass in status `working`."""

    async def notify(self) -> None:
        """Push the status to subscribers."""

    async def ask(
        self, *questions: Question, where: Where = "result", lingers_ms: float = 0
    ) -> Sequence[Any] | None:
        """Ask these questions together, and return the responses, or None if they do not arrive in
        time.

        Kinds that the client did not declare are never asked. In 2026-07-28 `lingers_ms` keeps the
        questions visible after they were answered.
        """


def text_result(text: str) -> dict[str, Any]:
    """Build a tool result with one text."""
    return {"content": [{"type": "text", "text": text}], "isError": False}


async def _live(task: TaskControl) -> dict[str, Any]:
    await task.work(700)
    return text_result("done")


@attrs.frozen
class Tool:
    """A tool; `words` is its description for the author of the client."""

    name: str
    words: str
    support: Literal["optional", "required", "forbidden"] | None = "optional"
    run: Callable[[TaskControl], Awaitable[dict[str, Any]]] = _live
    """Controls the task and returns the result."""
    schema: Mapping[str, Any] = attrs.field(factory=lambda: {"type": "object", "properties": {}})
    respond: Callable[[Any, ClientMessage], Awaitable[None]] | None = None
    """Answers `tools/call` instead of the actor."""
    task_id: str | None = None
    """Replaces the generated id."""

    def document(self, revision: Revision) -> dict[str, Any]:
        """Return the tool as in `tools/list`."""
        tool: dict[str, Any] = {
            "name": self.name,
            "description": self.words,
            "inputSchema": dict(self.schema),
        }
        if self.support is not None and revision == "2025-11-25":
            tool["execution"] = {"taskSupport": self.support}
        return tool


@attrs.frozen
class Scenario:
    """One run of a client: tools and behaviour of the server."""

    name: str
    words: str
    revision: Revision
    pages: tuple[tuple[Tool, ...], ...]
    """Pages of `tools/list`."""
    transports: tuple[Literal["stdio", "http"], ...] = ("http",)
    capabilities: Mapping[str, Any] | None = None
    """Declared capabilities, if not all."""
    patience_s: float = 20.0
    hello_ms: float = 0
    """Delay of the first response."""
    version: str | None = None
    """The version in the `initialize` result, if not the right one."""
    forgets_sessions: bool = False
    """Whether the session is forgotten after the first call."""
    refuses_version: bool = False
    """2026-07-28: reject every request with an unsupported version."""
    ignores_task_ids: bool = False
    """2026-07-28: acknowledge subscriptions without their task ids."""
    lists_as_task: bool = False
    """2026-07-28: answer `tools/list` with a task, which is invalid."""
    old_error: int | None = None
    """2025-11-25: the error code for modern requests."""

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools by name."""
        return {tool.name: tool for page in self.pages for tool in page}


WITHOUT_MODE: Final = Question(
    "elicitation", {name: value for name, value in FORM.params.items() if name != "mode"}
)


async def paced(task: TaskControl) -> dict[str, Any]:
    """Change the poll interval twice."""
    task.interval_ms = 400
    await task.work(1_000)
    task.interval_ms = 700
    await task.work(1_600)
    return text_result("done")


async def fails(task: TaskControl) -> dict[str, Any]:
    """Return a result with `isError`."""
    await task.work(300)
    return {**text_result("the tool failed"), "isError": True}


async def breaks(task: TaskControl) -> dict[str, Any]:
    """End with a JSON-RPC error."""
    await task.work(300)
    raise TaskError(-32603, "the tool broke")
