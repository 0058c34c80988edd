"""Tools for the server that is tested: every role has one, and no name says which.

They are quick: a run calls them dozens of times.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Final

import attrs
from pydantic import Field

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import CallError, Tool, ToolError, Tools
from taskmachine.adapters.tools.sampling import UnfitReply, sampling
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.protocol.offer import Tool as OfferedTool

__all__ = ["DESTRUCTIVE", "tools"]

POLL_S: Final = 0.02
RARE_S: Final = 0.1
LONGEST_S: Final = 2.0
"""A tool that works until it is cancelled gives up then."""

DESTRUCTIVE: Final = "quench"
"""Its annotations say so: no tester may call it."""

# Parameters that 2026-07-28 wants to see in headers, too.
_HEAP: Final[JSONObject] = {
    "type": "object",
    "properties": {
        "pebbles": {"type": "integer", "minimum": 0, "maximum": 1_000, "x-mcp-header": "Pebbles"},
        "stones": {"type": "integer", "minimum": 0, "maximum": 1_000, "default": 1},
    },
    "required": ["pebbles"],
}
_GLANCE: Final[JSONObject] = {
    "type": "object",
    "properties": {"at": {"type": "string", "maxLength": 200, "x-mcp-header": "At"}},
}
_SIZE: Final = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "title": "How many", "minimum": 1, "maximum": 9},
        "colour": {"type": "string", "title": "Which one", "enum": ["red", "blue"]},
    },
    "required": ["size"],
}


@attrs.frozen
class _Annotated(Tool):
    annotations: JSONObject = attrs.field(factory=dict)

    @property
    def offered(self) -> OfferedTool:
        offered = super().offered
        definition = {**offered.definition, "annotations": self.annotations}
        return attrs.evolve(offered, definition=definition)


class _Tools(Tools):
    """With annotations, which our own tools have no use for."""

    def __getitem__(self, name: str) -> Tool:
        tool = super().__getitem__(name)
        if name != DESTRUCTIVE:
            return tool
        fields = {f.name: getattr(tool, f.name) for f in attrs.fields(Tool)}
        return _Annotated(**fields, annotations={"readOnlyHint": False, "destructiveHint": True})


def tools(tell: Callable[[str], None]) -> Tools:
    """Return all tools; `record` receives errors."""
    made = _Tools()
    _offer_tasks(made)
    _offer_questions(made)

    @made.task(DESTRUCTIVE, poll_interval=POLL_S)
    async def quench(everything: bool = True) -> str:
        """Put it out for good."""
        tell("the destructive tool was called")
        return "gone"

    return made


def _offer_tasks(made: Tools) -> None:
    @made.task(poll_interval=POLL_S, schema=_HEAP)
    async def heap(
        pebbles: Annotated[int, Field(ge=0, le=1_000)],
        stones: Annotated[int, Field(ge=0, le=1_000)] = 1,
    ) -> dict[str, int]:
        """Put pebbles and stones on one heap."""
        return {"height": pebbles + stones}

    @made.task(poll_interval=RARE_S)
    async def drift(ctx: Context, along: Annotated[str, Field(max_length=80)] = "a river") -> str:
        """Drift along something, for a while."""
        steps = round(LONGEST_S / 0.05)
        for step in range(1, steps + 1):
            await ctx.progress(step, steps, f"drifting along {along}")
            await asyncio.sleep(LONGEST_S / steps)
        return f"The end of {along}."

    @made.task(poll_interval=RARE_S)
    async def linger(
        duration_seconds: Annotated[float, Field(ge=0, le=86_400, description="how long")],
    ) -> str:
        """Stay as long as one likes."""
        await asyncio.sleep(duration_seconds)
        return f"Stayed for {duration_seconds:g} s."

    @made.task(poll_interval=POLL_S)
    async def topple() -> str:
        """Build a tower that is too high."""
        raise ToolError("The tower fell over.")

    @made.task(poll_interval=POLL_S)
    async def snap() -> str:
        """Bend a twig."""
        raise CallError(-31_001, "The twig snapped", {"pieces": 2})

    @made.task(support="forbidden", schema=_GLANCE)
    async def glance(at: Annotated[str, Field(max_length=200)] = "the sky") -> str:
        """Look at something."""
        return f"There is {at}."

    @made.task(support="required", poll_interval=POLL_S)
    async def ferment() -> dict[str, Any]:
        """Let it stand."""
        await asyncio.sleep(0.03)
        return {"bubbles": 7}


def _offer_questions(made: Tools) -> None:
    @made.task(poll_interval=POLL_S)
    async def tailor(ctx: Context) -> str:
        """Cut a coat."""
        answer = await ctx.ask("size", form("Which size?", _SIZE))
        if answer.action != "accept":
            return "No coat."
        size, colour = answer.content.get("size"), answer.content.get("colour", "red")
        # 2025-11-25:elicitation-server-validates
        if type(size) is not int or not 1 <= size <= 9 or colour not in ("red", "blue"):
            raise ToolError("That is no size, or no colour.")
        return f"A {colour} coat of size {size}."

    @made.task(poll_interval=POLL_S)
    async def hum(ctx: Context) -> str:
        """Find words for a melody."""
        try:
            said = await ctx.ask("line", sampling("Write a line of a song.", max_tokens=50))
        except UnfitReply:
            raise ToolError("These are no words.") from None
        return f"La la la: {said.text}"
