"""Sampling, done wrong."""

from typing import Any

from tests.conformance.bugs.elicitation import questions_in
from tests.conformance.planting import Bug, Head, Message, plant

OLD, NEW = "2025-11-25", "2026-07-28"


class _Sampling(Bug):
    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for question in questions_in(message, "sampling/createMessage"):
            self.change(question["params"])
        return [message]

    def change(self, params: Message) -> None:
        """Ask otherwise."""


@plant(f"{OLD}:sampling-tools-only-if-declared", f"{NEW}:sampling-tools-only-if-declared")
class SamplesWithTools(_Sampling):
    """The model is to use tools, whether it can or not."""

    def change(self, params: Message) -> None:
        params["tools"] = [{"name": "look", "inputSchema": {"type": "object"}}]


@plant(f"{OLD}:sampling-context-avoided")
class SamplesWithContext(_Sampling):
    """The model is to know everything."""

    def change(self, params: Message) -> None:
        params["includeContext"] = "allServers"


@plant(f"{OLD}:sampling-tool-results-alone", f"{OLD}:sampling-tool-uses-answered")
class MixesResultsOfTools(_Sampling):
    """The results of tools come with remarks."""

    def change(self, params: Message) -> None:
        used = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
        seen = {"type": "tool_result", "toolUseId": "1", "content": []}
        remark = {"type": "text", "text": "So it is."}
        params["messages"] += [
            {"role": "assistant", "content": used},
            {"role": "user", "content": [remark, seen]},
        ]
