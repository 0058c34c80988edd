"""Bugs that only malformed messages show."""

from tests.conformance.planting import STDIO, Bug, ClientMessage, Head, Instead, Message, plant


# Over HTTP the tester does not report `alive` when every connection is dropped.
@plant("alive", also=("answers",), transports=STDIO)
class ExitsOnJsonArrays(Bug):
    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead:
        return Instead(exits=True) if body.startswith(b"[") else body


@plant("answers", base=ClientMessage)
def never_answers_get_with_empty_task_id(message: Message, head: Head) -> Message | Instead | None:
    params = message.get("params")
    is_empty = isinstance(params, dict) and params.get("taskId") == ""
    return None if is_empty and message.get("method") == "tasks/get" else message
