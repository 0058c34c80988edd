"""Base classes of bugs of the tasks extension."""

from collections import Counter
from typing import Any, Final

from tests.conformance.planting import Bug, Head, Message, method_of
from tests.conformance.variations import tasks_in

TASKS: Final = "io.modelcontextprotocol/tasks"
ENDS: Final = ("completed", "failed", "cancelled")
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"


def capabilities(request: Message) -> dict[str, Any]:
    """Return the declared capabilities of a request, to be changed in place."""
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    found = meta.get(_CAPABILITIES) if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def is_modern(request: Message | None) -> bool:
    """Return whether a request has the metadata of this revision."""
    params = None if request is None else request.get("params")
    return isinstance(params, dict) and _CAPABILITIES in (params.get("_meta") or {})


def declare(request: Message) -> None:
    """Declare the extension in a request."""
    if is_modern(request):
        capabilities(request).setdefault("extensions", {})[TASKS] = {}


class Shown(Bug):
    """Change tasks of this revision in every message."""

    methods: tuple[str, ...] = ("tools/call", "tasks/get", "notifications")

    def __init__(self) -> None:
        self.times: Counter[Any] = Counter()
        """How often each task was sent, including this message."""

    def change(self, task: Message) -> None:
        """In place."""

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        where = "notifications" if "method" in message else method_of(request)
        if where in self.methods and (where == "notifications" or is_modern(request)):
            for task in tasks_in(message):
                self.times[task.get("taskId")] += 1
                self.change(task)
        return [message]


class Answers(Bug):
    """Change the responses to some methods."""

    methods: tuple[str, ...] = ()

    def change(self, message: Message, request: Message) -> Message:
        """Return another response, or the same one changed in place."""
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and is_modern(request) and method_of(request) in self.methods:
            return [self.change(message, request)]
        return [message]
