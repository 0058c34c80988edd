"""What a receiver says of itself: its tools, and which requests can become tasks."""

from collections.abc import Mapping

import attrs

from taskmachine.protocol.dialects.dialect import Side, TaskSupport
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import Question

__all__ = ["Offer", "Tool"]


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
        """The requests that can become tasks, at this moment: tools may come and go."""
        if self.side == "client":
            return self.methods
        for tool in self.tools.values():
            if tool.task_support != "forbidden":
                return frozenset({"tools/call"})
        return frozenset()

    def tool(self, name: str) -> Tool:
        """Return the tool of that name, or raise `InvalidParams`."""
        if name not in self.tools:
            raise InvalidParams(f"params.name is no tool of this server: {name[:80]!r}")
        return self.tools[name]
