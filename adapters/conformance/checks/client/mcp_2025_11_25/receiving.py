"""Checks of clients as receivers of tasks, as far as they differ from servers (2025-11-25)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.history import TERMINAL, Entry, Exchange, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good, note

__all__: list[str] = []

_TASKS: Final = "a client that accepts sampling or elicitation as a task"
_PATHS: Final = {
    "elicitation/create": ("tasks", "requests", "elicitation", "create"),
    "sampling/createMessage": ("tasks", "requests", "sampling", "createMessage"),
}
_REQUIRED: Final = {
    "elicitation/create": ("action",),
    "sampling/createMessage": ("role", "content", "model"),
}


def _declares(history: History, line: int, *path: str) -> bool:
    for entry in history.heard:
        if entry.method == "initialize" and entry.line == line:
            found: Any = entry.params.get("capabilities")
            for name in path:
                found = found.get(name) if isinstance(found, dict) else None
            return isinstance(found, dict)
    return False


def _augmented(history: History, *, declared: bool) -> Iterator[Exchange]:
    """Yield answered requests of the server with `task`."""
    for exchange in history.exchanges:
        path = _PATHS.get(exchange.method)
        if path is None or "task" not in exchange.params or not exchange.is_answered:
            continue
        if _declares(history, exchange.request.line, *path) is declared:
            yield exchange


@client_check("2025-11-25:create-result-returned", "2025-11-25:create-result-shape", needs=_TASKS)
def answers_with_task(history: History) -> Iterator[Observation]:
    """Check that the response to a request with `task` is a task or an error."""
    for exchange in _augmented(history, declared=True):
        task = exchange.fields.get("task")
        if isinstance(task, dict) and "taskId" in task:
            yield good(exchange)
        elif exchange.error is None:
            words = f"the client declared tasks for {exchange.method!r}, but its result has no task"
            yield bad(words, exchange)


@client_check(
    "2025-11-25:undeclared-type-processed-normally",
    "2025-11-25:capability-requests-exhaustive",
    needs="a client that accepts sampling or elicitation, but not as a task",
)
def undeclared_is_plain(history: History) -> Iterator[Observation]:
    """Check that `task` is ignored for request types without declared task support."""
    for exchange in _augmented(history, declared=False):
        required = _REQUIRED[exchange.method]
        if "task" in exchange.fields:
            yield bad(f"the client created an undeclared task for {exchange.method!r}", exchange)
        elif exchange.error is None and all(name in exchange.fields for name in required):
            yield good(exchange)
        elif exchange.error is not None and exchange.code in (-32602, -32600):
            words = f"the client rejected 'params.task' with {exchange.code} instead of ignoring it"
            yield bad(words, exchange)


@client_check("2025-11-25:result-matches-request-type", needs=_TASKS)
def result_fits_request(history: History) -> Iterator[Observation]:
    """Check that the result of the task has the members that the request requires."""
    for task_id, results in history.results.items():
        created = history.created.get(task_id)
        for exchange in results:
            if created is None or not exchange.fields:
                continue
            missing = [n for n in _REQUIRED.get(created.method, ()) if n not in exchange.fields]
            if missing:
                words = f"the result of a {created.method!r} task has no `{missing[0]}`"
                yield bad(words, created, exchange)
            else:
                yield good(created, exchange)


@client_check("2025-11-25:result-blocks", needs=_TASKS)
def result_blocks(history: History) -> Iterator[Observation]:
    """Check that `tasks/result` responds only after the task ended."""
    for task_id, results in history.results.items():
        for exchange in results:
            if exchange.response is None or not exchange.fields:
                continue
            later = [
                s
                for s in history.by_task.get(task_id, ())
                if s.exchange is not None and s.since > exchange.response.at
            ]
            if later and later[0].status not in TERMINAL:
                words = f"'tasks/result' returned while the task was {later[0].status!r}"
                yield bad(words, exchange, later[0])
            elif later:
                yield good(exchange, later[0])


@client_check("2025-11-25:get-unknown-32602", needs=_TASKS, method="tasks/get")
@client_check("2025-11-25:result-unknown-32602", needs=_TASKS, method="tasks/result")
@client_check(
    "2025-11-25:cancel-unknown-32602", needs=f"{_TASKS} and can cancel it", method="tasks/cancel"
)
def unknown_task_is_refused(history: History, method: str) -> Iterator[Observation]:
    """Check that a request for an unknown task is rejected with -32602."""
    known: Mapping[str, Any] = history.by_task
    for exchange in history.calls(method):
        if exchange.task_id in known or not exchange.is_answered:
            continue
        if not _declares(history, exchange.request.line, "tasks"):
            continue
        if exchange.code == -32602:
            yield good(exchange)
        else:
            how = "a result" if exchange.error is None else str(exchange.code)
            yield bad(f"{method!r} for an unknown task got {how}, not error -32602", exchange)


@client_check("2025-11-25:list-bad-cursor-32602", needs=f"{_TASKS} and lists its tasks")
def bad_cursor(history: History) -> Iterator[Observation]:
    """Check that an unknown cursor is rejected with -32602."""
    given = {exchange.fields.get("nextCursor") for exchange in history.calls("tasks/list")}
    for exchange in history.calls("tasks/list"):
        cursor = exchange.params.get("cursor")
        if cursor is None or cursor in given or not exchange.is_answered:
            continue
        if exchange.code == -32602:
            yield good(exchange)
        else:
            how = "a result" if exchange.error is None else str(exchange.code)
            yield bad(f"an unknown cursor got {how}, not error -32602", exchange)


@client_check("2025-11-25:list-capability", needs=f"{_TASKS} and lists its tasks")
def lists_if_declared(history: History) -> Iterator[Observation]:
    """Check that a client that declares `tasks.list` serves `tasks/list`."""
    for exchange in history.calls("tasks/list"):
        if "cursor" not in exchange.params and exchange.is_answered:
            is_list = isinstance(exchange.fields.get("tasks"), list)
            if is_list:
                yield good(exchange)
            else:
                yield bad("the result of 'tasks/list' has no array 'tasks'", exchange)


@client_check("2025-11-25:cancel-capability", needs=f"{_TASKS} and can cancel it")
def cancels_if_declared(history: History) -> Iterator[Observation]:
    """Check that a client that declares `tasks.cancel` implements `tasks/cancel`."""
    for exchange in history.calls("tasks/cancel"):
        if exchange.is_answered:
            is_unknown = exchange.code == -32601
            if is_unknown:
                yield bad("the client declared 'tasks.cancel', but does not implement it", exchange)
            else:
                yield good(exchange)


# --- messages without response --------------------------------------------------------------------


@client_check(
    "2025-11-25:notification-not-answered",
    needs="a client that receives a notification and continues",
)
@client_check(
    "2025-11-25:invalid-cancellation-ignored",
    "2025-11-25:cancelled-may-be-ignored",
    needs="a client that receives a cancellation and continues",
    methods=("notifications/cancelled",),
)
def notification_is_not_answered(
    history: History, methods: tuple[str, ...] = ()
) -> Iterator[Observation]:
    """Check that the client continues after a notification without responding to it."""
    for sent in history.entries:
        is_ours = sent.kind is Kind.SENT and sent.is_notification
        if not is_ours or (methods and sent.method not in methods):
            continue
        later = [e for e in history.heard if e.line == sent.line and e.number > sent.number]
        stray = next((e for e in later if e.is_response and e.body.get("id") is None), None)
        answered = next((e for e in later if e.is_response), None)
        if stray is not None:
            yield bad("the client responded to a notification", sent, stray)
        elif answered is not None:
            yield good(sent, answered)


@client_check("2025-11-25:cancelled-request-not-answered", needs=_TASKS)
def cancelled_not_answered(history: History) -> Iterator[Observation]:
    """Check that the client does not respond to a request after it processed the cancellation.

    It did if it had responded to a request sent after the cancellation on the same stream.
    """
    for sent in history.entries:
        if sent.kind is not Kind.SENT or sent.method != "notifications/cancelled":
            continue
        target = next((e for e in history.exchanges if _is_named(e, sent)), None)
        known = next((e for e in history.exchanges if _is_later(e, sent)), None)
        if target is None or known is None or known.response is None:
            continue
        if target.response is None:
            yield good(target, sent, known)
        elif target.response.number > known.response.number:
            words = "the client responded to a request after it was cancelled"
            yield bad(words, target, sent, known)


def _is_named(exchange: Exchange, cancellation: Entry) -> bool:
    return exchange.request.body.get("id") == cancellation.params.get("requestId")


def _is_later(exchange: Exchange, cancellation: Entry) -> bool:
    is_same_stream = exchange.request.post == cancellation.post
    return is_same_stream and exchange.request.number > cancellation.number


# --- sampling ------------------------------------------------------------------------------------


def _sampled(history: History) -> Iterator[tuple[Exchange, list[Any]]]:
    """Yield answered sampling requests, with the content blocks of the last message."""
    for exchange in history.calls("sampling/createMessage"):
        messages = exchange.params.get("messages")
        if exchange.is_answered and isinstance(messages, list) and messages:
            content = messages[-1].get("content")
            yield exchange, content if isinstance(content, list) else [content]


def _kinds(blocks: list[Any]) -> set[Any]:
    return {block.get("type") for block in blocks if isinstance(block, dict)}


def _refused(exchange: Exchange, what: str) -> Observation:
    if exchange.code == -32602:
        return good(exchange)
    how = "a result" if exchange.error is None else str(exchange.code)
    return bad(f"{what} got {how}, not error -32602", exchange)


_TOOLS: Final = "a client that declares 'sampling.tools'"


@client_check("2025-11-25:sampling-missing-tool-result-32602", needs=_TOOLS)
def missing_tool_result(history: History) -> Iterator[Observation]:
    """Check that a tool use without a following result is rejected."""
    for exchange, blocks in _sampled(history):
        if "tools" in exchange.params and "tool_result" not in _kinds(blocks):
            yield _refused(exchange, "a sampling request with a missing tool result")


@client_check("2025-11-25:sampling-mixed-tool-result-32602", needs=_TOOLS)
def mixed_tool_result(history: History) -> Iterator[Observation]:
    """Check that tool results mixed with other content are rejected."""
    for exchange, blocks in _sampled(history):
        if "tool_result" in _kinds(blocks) and len(_kinds(blocks)) > 1:
            yield _refused(
                exchange, "a sampling request that mixes tool results with other content"
            )


@client_check("2025-11-25:sampling-tools-declared", needs=_TOOLS)
def sampling_with_tools(history: History) -> Iterator[Observation]:
    """Check that a client that samples with tools declared that."""
    for exchange, blocks in _sampled(history):
        if "tools" in exchange.params and _kinds(blocks) == {"tool_result"} and exchange.fields:
            if _declares(history, exchange.request.line, "sampling", "tools"):
                yield good(exchange)
            else:
                words = "the client accepted sampling with tools without declaring 'sampling.tools'"
                yield bad(words, exchange)


@client_check("2025-11-25:sampling-content-validated", needs="a client that declares sampling")
def content_validated(history: History) -> Iterator[Observation]:
    """Note accepted content of an unknown type: the user or the model may also reject it."""
    for exchange, blocks in _sampled(history):
        if "no such type" in _kinds(blocks):
            if exchange.error is not None:
                yield good(exchange)
            else:
                yield note("the client accepted sampling content of an unknown type", exchange)
