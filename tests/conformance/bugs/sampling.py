"""Bugs of sampling."""

from typing import Any

from tests.conformance.bugs.elicitation import questions_in
from tests.conformance.planting import Bug, Head, Message, new, old, plant

OLD, NEW = "2025-11-25", "2026-07-28"


class _Sampling(Bug):
    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for question in questions_in(message, "sampling/createMessage"):
            self.change(question["params"])
        return [message]

    def change(self, params: Message) -> None:
        """Ask otherwise."""


@plant(
    *old("sampling-tools-only-if-declared"), *new("sampling-tools-only-if-declared"), base=_Sampling
)
def samples_with_undeclared_tools(params: Message) -> None:
    params["tools"] = [{"name": "look", "inputSchema": {"type": "object"}}]


@plant(*old("sampling-context-avoided"), base=_Sampling)
def samples_with_undeclared_context(params: Message) -> None:
    params["includeContext"] = "allServers"


@plant(*old("sampling-tool-results-alone", "sampling-tool-uses-answered"), base=_Sampling)
def mixes_tool_results_with_text(params: Message) -> None:
    used = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
    seen = {"type": "tool_result", "toolUseId": "1", "content": []}
    remark = {"type": "text", "text": "So it is."}
    params["messages"] += [
        {"role": "assistant", "content": used},
        {"role": "user", "content": [remark, seen]},
    ]
