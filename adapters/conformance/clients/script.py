"""What a scripted server offers: tools, the lives of their tasks, and scenarios of both."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import attrs

from taskmachine.adapters.conformance.clients.incoming import Heard

__all__ = [
    "FORM",
    "SAMPLING",
    "WITHOUT_MODE",
    "Broken",
    "Life",
    "Question",
    "Scenario",
    "Tool",
    "Where",
    "breaks",
    "fails",
    "paced",
    "text_result",
]

Revision = Literal["2025-11-25", "2026-07-28"]
Where = Literal["result", "listening", "poll"]
"""Of 2025-11-25: on which stream a question goes to the client."""


@attrs.frozen
class Question:
    """Something that a task wants to know."""

    kind: Literal["elicitation", "sampling"]
    params: Mapping[str, Any]
    unless: str | None = None
    """Asked only if the client declared the kind without this part of it."""

    def fits(self, capabilities: Mapping[str, Any]) -> bool:
        """Whether it is asked of a client with these capabilities."""
        declared = capabilities.get(self.kind)
        return isinstance(declared, dict) and (self.unless is None or self.unless not in declared)

    @property
    def method(self) -> str:
        """Of the request."""
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


class Broken(Exception):
    """A task ends with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Life(Protocol):
    """A task in the hands of its tool."""

    interval_ms: int
    """The poll interval that is shown from now on."""

    async def work(self, ms: float) -> None:
        """Let time pass, as `working`."""

    async def tell(self) -> None:
        """Push the status to whoever listens."""

    async def ask(
        self, *questions: Question, where: Where = "result", lingers_ms: float = 0
    ) -> Sequence[Any] | None:
        """The answers to these questions, asked at once; None if there are none in time.

        Kinds that the client did not declare are never asked.  Of 2026-07-28 the questions stay
        in sight for a while after they were answered.
        """


def text_result(text: str) -> dict[str, Any]:
    """A tool result."""
    return {"content": [{"type": "text", "text": text}], "isError": False}


async def _live(life: Life) -> dict[str, Any]:
    await life.work(700)
    return text_result("done")


@attrs.frozen
class Tool:
    """One tool; `words` are for whoever writes the client."""

    name: str
    words: str
    support: Literal["optional", "required", "forbidden"] | None = "optional"
    live: Callable[[Life], Awaitable[dict[str, Any]]] = _live
    """The life of its task, and the result."""
    schema: Mapping[str, Any] = attrs.field(factory=lambda: {"type": "object", "properties": {}})
    respond: Callable[[Any, Heard], Awaitable[None]] | None = None
    """Answers `tools/call` in a way of its own, given the actor."""
    task_id: str | None = None
    """For ids that are unusual."""

    def shown(self, revision: Revision) -> dict[str, Any]:
        """As `tools/list` has it."""
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
    """One run of a client: what it finds, and what the server does to it."""

    name: str
    words: str
    revision: Revision
    pages: tuple[tuple[Tool, ...], ...]
    """Of `tools/list`."""
    transports: tuple[Literal["stdio", "http"], ...] = ("http",)
    capabilities: Mapping[str, Any] | None = None
    """What the server declares, if not all that it has."""
    patience_s: float = 20.0
    hello_ms: float = 0
    """How long the first answer takes."""
    version: str | None = None
    """The version that `initialize` is answered with, if not the right one."""
    forgets_sessions: bool = False
    """Whether the session is forgotten after the first call."""
    refuses_version: bool = False
    """Of 2026-07-28: whether no request finds its version supported."""
    ignores_task_ids: bool = False
    """Of 2026-07-28: whether subscriptions are acknowledged without their tasks."""
    lists_as_task: bool = False
    """Of 2026-07-28: whether `tools/list` is answered with a task, which is nonsense."""
    old_error: int | None = None
    """Of 2025-11-25: the error that a modern request is answered with."""

    @property
    def tools(self) -> dict[str, Tool]:
        """By name."""
        return {tool.name: tool for page in self.pages for tool in page}


WITHOUT_MODE: Final = Question(
    "elicitation", {name: value for name, value in FORM.params.items() if name != "mode"}
)


async def paced(life: Life) -> dict[str, Any]:
    """Changes its poll interval on the way."""
    life.interval_ms = 400
    await life.work(1_000)
    life.interval_ms = 700
    await life.work(1_600)
    return text_result("done, at your pace")


async def fails(life: Life) -> dict[str, Any]:
    """Ends with a result that is an error."""
    await life.work(300)
    return {**text_result("it did not work"), "isError": True}


async def breaks(life: Life) -> dict[str, Any]:
    """Ends with an error of JSON-RPC."""
    await life.work(300)
    raise Broken(-32603, "it broke")
