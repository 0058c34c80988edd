"""Bugs that only abuse brings to light."""

from tests.conformance.planting import Bug, Head, Instead, Message, plant


@plant("alive", also=("answers",))
class DiesOfArrays(Bug):
    """What is no object ends the process."""

    def came(self, body: bytes, head: Head) -> bytes | Instead:
        return Instead(exits=True) if body.startswith(b"[") else body


@plant("answers")
class SwallowsEmptyIds(Bug):
    """Who asks for a task without a name waits for ever."""

    def asked(self, message: Message, head: Head) -> Message | None:
        params = message.get("params")
        is_empty = isinstance(params, dict) and params.get("taskId") == ""
        return None if is_empty and message.get("method") == "tasks/get" else message
