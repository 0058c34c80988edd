"""The offer of a receiver: its tools, and the requests that can become tasks."""

from collections.abc import Mapping

import attrs

from taskmachine.protocol.dialects.dialect import Side, TaskSupport
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import Question

__all__ = ["Offer", "Tool"]


@attrs.frozen
class Tool:
    """A tool as `tools/list` shows it."""

    definition: JSONObject
    task_support: TaskSupport = "forbidden"
    immediate: str | None = None
    """Immediate response for the model when a call becomes a task, if the wire supports it."""
    first: tuple[Question, ...] = ()
    """Questions to ask before a call becomes a task, if the wire supports it."""


@attrs.frozen
class Offer:
    """The offer of a receiver to its requestors."""

    info: JSONObject
    tools: Mapping[str, Tool] = attrs.field(factory=dict)
    side: Side = "server"
    methods: frozenset[str] = frozenset()
    """The requests that a client accepts as tasks."""
    listing: bool = True
    """Whether it can distinguish its callers, so `tasks/list` shows each one only its own."""
    instructions: str | None = None

    @property
    def augmentable(self) -> frozenset[str]:
        """The requests that can become tasks now; tools may be added and removed."""
        if self.side == "client":
            return self.methods
        for tool in self.tools.values():
            if tool.task_support != "forbidden":
                return frozenset({"tools/call"})
        return frozenset()

    def tool(self, name: str) -> Tool:
        """Return the tool of that name, or raise `InvalidParams`."""
        if name not in self.tools:
            raise InvalidParams(f"params.name is not a tool of this server: {name[:80]!r}")
        return self.tools[name]
