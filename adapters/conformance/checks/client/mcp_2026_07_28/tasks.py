"""Checks of clients that read, update, and subscribe to tasks (2026-07-28)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.checks.client.mcp_2025_11_25.input_responses import (
    elicit_result_fault,
)
from taskmachine.adapters.conformance.checks.client.polling import (
    INACTIVE_MS,
    active_until,
    exited_normally,
    requests_for,
    was_stopped,
)
from taskmachine.adapters.conformance.checks.reading.meta import (
    label_fault,
    name_fault,
    prefix_fault,
)
from taskmachine.adapters.conformance.clients.view import as_client
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind, Sighting
from taskmachine.adapters.conformance.judging import (
    Observation,
    bad,
    client_check,
    good,
    note,
    warning,
)

__all__ = ["capabilities_of"]

_TASKS: Final = "io.modelcontextprotocol/tasks"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_METHODS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_SEEN_MS: Final = 300.0
_INPUT_REQUIRED: Final = (
    "a client that declares elicitation or sampling and polls a task that requests input"
)


def capabilities_of(entry: Entry) -> Mapping[str, Any]:
    """Return the capabilities that a request declares."""
    found = entry.meta.get(_CAPABILITIES)
    return found if isinstance(found, dict) else {}


def _extensions(entry: Entry) -> Mapping[str, Any]:
    found = capabilities_of(entry).get("extensions")
    return found if isinstance(found, dict) else {}


# --- declaration ----------------------------------------------------------------------------------


@client_check("2026-07-28:client-declares-per-request", needs="a client that reads its tasks")
def declares_per_request(history: History) -> Iterator[Observation]:
    """Check that each task request declares the extension."""
    for exchange in as_client(history).exchanges:
        if exchange.method in _METHODS:
            if _TASKS in _extensions(exchange.request):
                yield good(exchange)
            else:
                yield bad(f"{exchange.method!r} does not declare the tasks extension", exchange)


@client_check("2026-07-28:extension-identifier", needs="a client that declares the tasks extension")
def extension_identifier(history: History) -> Iterator[Observation]:
    """Check that the extension is declared under its exact identifier."""
    for exchange in as_client(history).exchanges:
        for key in _extensions(exchange.request):
            if key == _TASKS:
                yield good(exchange)
            elif key.lower().replace("_", "-") in (_TASKS, "tasks", "mcp/tasks"):
                words = f"the tasks extension is declared as {key!r:.60} instead of {_TASKS!r}"
                yield bad(words, exchange)


@client_check(
    "2026-07-28:capability-empty-object", needs="a client that declares the tasks extension"
)
def extension_is_object(history: History) -> Iterator[Observation]:
    """Check that the declared value is an object."""
    for exchange in as_client(history).exchanges:
        extensions = _extensions(exchange.request)
        if _TASKS not in extensions:
            continue
        if not isinstance(extensions[_TASKS], dict):
            words = "the tasks extension is declared with a value that is not an object"
            yield bad(words, exchange)
        elif extensions[_TASKS]:
            words = "the tasks extension is declared with settings, although it defines none"
            yield note(words, exchange)
        else:
            yield good(exchange)


@client_check("2026-07-28:extension-id-format", needs="a client that declares extensions")
def extension_ids(history: History) -> Iterator[Observation]:
    """Check that each identifier is a `_meta` key with a prefix."""
    for exchange in as_client(history).exchanges:
        for key in _extensions(exchange.request):
            fault = prefix_fault(key) or label_fault(key) or name_fault(key)
            if "/" not in key:
                fault = "has no prefix"
            if fault is None:
                yield good(exchange)
            else:
                yield bad(f"the extension identifier {key!r:.60} {fault}", exchange)


@client_check(
    "2026-07-28:extension-label-reserved", needs="a client that declares the tasks extension"
)
def extension_label(history: History) -> Iterator[Observation]:
    """Check that the identifier is used as an extension key, and not as a `_meta` key."""
    for exchange in as_client(history).exchanges:
        if _TASKS in exchange.request.meta:
            yield bad("the extension identifier is used as a key of '_meta'", exchange)
        elif _TASKS in _extensions(exchange.request):
            yield good(exchange)


@client_check("2026-07-28:method-prefix-reserved", needs="a client that reads its tasks")
def methods_reserved(history: History) -> Iterator[Observation]:
    """Check that the client uses no undefined methods under the extension's prefixes."""
    for entry in history.heard:
        method = entry.method or ""
        if method.startswith(("tasks/", "notifications/tasks")):
            if method in _METHODS:
                yield good(entry)
            else:
                yield bad(f"the tasks extension has no method '{method:.60}'", entry)


# --- polling --------------------------------------------------------------------------------------


@client_check(
    "2026-07-28:client-uses-task-id",
    "2026-07-28:state-by-explicit-id",
    needs="a client that reads its tasks",
)
def uses_task_ids(history: History) -> Iterator[Observation]:
    """Check that each request names a task that the server created."""
    client = as_client(history)
    for exchange in client.exchanges:
        if exchange.method in _METHODS:
            if isinstance(exchange.task_id, str) and exchange.task_id in client.by_task:
                yield good(exchange)
            else:
                words = f"the client requested the unknown task {exchange.task_id!r:.60}"
                yield bad(words, exchange)


def _subscriptions(client: History, task_id: str) -> list[Exchange]:
    found = []
    for exchange in client.calls("subscriptions/listen"):
        wanted = exchange.params.get("notifications")
        ids = wanted.get("taskIds") if isinstance(wanted, dict) else None
        if isinstance(ids, list) and task_id in ids:
            found.append(exchange)
    return found


def _terminal_state(client: History, task_id: str) -> Sighting | None:
    return next((s for s in client.by_task[task_id] if s.is_terminal), None)


def _is_task_for_call(exchange: Exchange) -> bool:
    return exchange.method == "tools/call"


@client_check(
    "2026-07-28:client-handles-both-results",
    "2026-07-28:fixed-shape-clients",
    needs="a client that declares the tasks extension",
)
def follows_created_task(history: History) -> Iterator[Observation]:
    """Check that a client that declares the extension reads its tasks until they end."""
    client = as_client(history)
    for task_id, created in client.created.items():
        if not _is_task_for_call(created):
            continue
        end = _terminal_state(client, task_id)
        asked = requests_for(client, task_id) or _subscriptions(client, task_id)
        is_done = was_stopped(history) or exited_normally(history)
        if end is not None and asked:
            yield good(created, end)
        elif not asked and is_done and active_until(history) - created.sent_at > _SEEN_MS:
            # It may intend to read the task later.
            words = "the client declared the tasks extension, but does not read the task"
            yield warning(words, created)


@client_check("2026-07-28:task-for-unsupported-request-invalid", needs="a client that lists tools")
def ignores_task_for_other_request(history: History) -> Iterator[Observation]:
    """Check that the client ignores a task in response to anything but a tool call."""
    client = as_client(history)
    for task_id, created in client.created.items():
        if _is_task_for_call(created):
            continue
        followed = requests_for(client, task_id) or _subscriptions(client, task_id)
        if followed:
            words = f"the client read a task that {created.method!r} cannot create"
            yield bad(words, created, followed[0])
        else:
            yield good(created)


# --- input requests -------------------------------------------------------------------------------


def _input_requests(sighting: Sighting) -> Mapping[str, Any]:
    found = sighting.task.get("inputRequests")
    return found if isinstance(found, dict) and sighting.status == "input_required" else {}


def _input_responses(exchange: Exchange) -> Mapping[str, Any]:
    found = exchange.params.get("inputResponses")
    return found if isinstance(found, dict) else {}


def _updates(client: History, task_id: str) -> list[Exchange]:
    return [e for e in requests_for(client, task_id) if e.method == "tasks/update"]


@client_check(
    "2026-07-28:client-answers-questions",
    "2026-07-28:client-inspects-input-requests",
    needs=_INPUT_REQUIRED,
)
def responds_to_input_requests(history: History) -> Iterator[Observation]:
    """Check that the client responds to an open input request; it may also leave or cancel."""
    client = as_client(history)
    for task_id in client.created:
        asking = [s for s in client.by_task[task_id] if _input_requests(s)]
        if not asking:
            continue
        answered = [e for e in _updates(client, task_id) if _input_responses(e)]
        polls = [s for s in asking if s.where == "get"]
        asked_ms = polls[-1].until - polls[0].until if polls else 0
        if answered:
            yield good(asking[0], answered[0])
        elif len(polls) >= 3 and asked_ms > _IGNORED_MS:
            words = "the client kept polling without responding to an input request"
            yield bad(words, polls[0], polls[-1])
        elif was_stopped(history) and active_until(history) - asking[-1].until > INACTIVE_MS:
            yield bad("the client did not respond to an input request", asking[-1])


_IGNORED_MS: Final = 3_000.0


@client_check("2026-07-28:client-observes-after-update", needs=_INPUT_REQUIRED)
def observes_after_update(history: History) -> Iterator[Observation]:
    """Check that the client polls or has a subscription after its last response."""
    client = as_client(history)
    for task_id in client.created:
        updates = [e for e in _updates(client, task_id) if e.is_answered]
        asked = requests_for(client, task_id)
        if not updates or any(e.method == "tasks/cancel" for e in asked):
            continue
        later = [e for e in asked if e.request.number > updates[-1].request.number]
        if later or _subscriptions(client, task_id):
            yield good(updates[-1], *later[:1])
        elif exited_normally(history) or was_stopped(history):
            yield bad("the client did not read the task again after its response", updates[-1])


@client_check("2026-07-28:answer-once", "2026-07-28:questions-deduplicated", needs=_INPUT_REQUIRED)
def responds_once(history: History) -> Iterator[Observation]:
    """Check that a key that is shown again after its response gets no second response."""
    client = as_client(history)
    for task_id in client.created:
        first: dict[str, Exchange] = {}
        for exchange in _updates(client, task_id):
            for key in _input_responses(exchange):
                if key in first and first[key].error is None:
                    words = f"the client responded to the input request {key!r:.40} twice"
                    yield bad(words, first[key], exchange)
                first.setdefault(key, exchange)
        for key, exchange in first.items():
            again = [
                s
                for s in client.by_task[task_id]
                if key in _input_requests(s) and s.entry.number > exchange.request.number
            ]
            count = sum(key in _input_responses(e) for e in _updates(client, task_id))
            if again and count == 1:
                yield good(exchange, again[0])


@client_check("2026-07-28:response-keys-outstanding", needs=_INPUT_REQUIRED)
def keys_outstanding(history: History) -> Iterator[Observation]:
    """Check that each key was shown and still open when the client last read the task."""
    client = as_client(history)
    for task_id in client.created:
        for exchange in _updates(client, task_id):
            before = [
                s for s in client.by_task[task_id] if s.entry.number < exchange.request.number
            ]
            seen = [s for s in before if exchange.sent_at - s.until > _SEEN_MS]
            for key in _input_responses(exchange):
                if not any(key in _input_requests(s) for s in before):
                    words = f"the client responded to {key!r:.40}, which the server never requested"
                    yield bad(words, exchange)
                elif seen and seen[-1] is before[-1] and key not in _input_requests(seen[-1]):
                    words = f"the client responded to {key!r:.40}, which is no longer open"
                    yield bad(words, seen[-1], exchange)
                else:
                    yield good(exchange)


@client_check("2026-07-28:question-as-standalone-request", needs=_INPUT_REQUIRED)
def response_has_right_form(history: History) -> Iterator[Observation]:
    """Check that a response has the form of a result of the same standalone request."""
    client = as_client(history)
    for task_id in client.created:
        asked: dict[str, Any] = {}
        for sighting in client.by_task[task_id]:
            asked |= _input_requests(sighting)
        for exchange in _updates(client, task_id):
            for key, response in _input_responses(exchange).items():
                if key in asked:
                    fault = _response_fault(asked[key], response)
                    yield good(exchange) if fault is None else bad(fault, exchange)


def _response_fault(request: Mapping[str, Any], response: Any) -> str | None:
    if request["method"] == "elicitation/create":
        return elicit_result_fault(response, request["params"].get("requestedSchema"))
    if not isinstance(response, dict):
        return "an input response is not an object"
    missing = [name for name in ("role", "content", "model") if name not in response]
    return f"the sampling result has no `{missing[0]}`" if missing else None


@client_check(
    "2026-07-28:elicitation-declared",
    needs=_INPUT_REQUIRED,
    method="elicitation/create",
    kind="elicitation",
)
@client_check(
    "2026-07-28:sampling-declared",
    needs="a client that declares sampling",
    method="sampling/createMessage",
    kind="sampling",
)
def answers_are_declared(history: History, method: str, kind: str) -> Iterator[Observation]:
    """Check that the creating call declared the capability of each input request answered."""
    client = as_client(history)
    for task_id, created in client.created.items():
        asked: dict[str, Any] = {}
        for sighting in client.by_task[task_id]:
            asked |= _input_requests(sighting)
        keys = {key for key, one in asked.items() if one["method"] == method}
        for exchange in _updates(client, task_id):
            if keys & set(_input_responses(exchange)):
                if kind in capabilities_of(created.request):
                    yield good(created, exchange)
                else:
                    words = f"the client responded to {kind} without declaring it in the call"
                    yield bad(words, created, exchange)


@client_check("2026-07-28:elicitation-no-mode-is-form", needs=_INPUT_REQUIRED)
def no_mode_is_form(history: History) -> Iterator[Observation]:
    """Check that an elicitation without `mode` gets a valid form response."""
    client = as_client(history)
    for task_id in client.created:
        updates = _updates(client, task_id)
        for sighting in client.by_task[task_id]:
            for key, request in _input_requests(sighting).items():
                is_form = request["method"] == "elicitation/create"
                if is_form and "mode" not in request["params"]:
                    for exchange in updates:
                        if key in _input_responses(exchange):
                            schema = request["params"]["requestedSchema"]
                            fault = elicit_result_fault(_input_responses(exchange)[key], schema)
                            yield good(exchange) if fault is None else bad(fault, exchange)


# --- subscriptions and cancellation ---------------------------------------------------------------


@client_check("2026-07-28:listen-with-task-ids", needs="a client that sends 'subscriptions/listen'")
def listens_for_tasks(history: History) -> Iterator[Observation]:
    """Check that task ids are in `notifications.taskIds`."""
    for exchange in as_client(history).calls("subscriptions/listen"):
        wanted = exchange.params.get("notifications")
        if "taskIds" in exchange.params:
            yield bad("'taskIds' is not inside 'notifications'", exchange)
        elif isinstance(wanted, dict) and "taskIds" in wanted:
            ids = wanted["taskIds"]
            is_list = isinstance(ids, list) and all(isinstance(id, str) for id in ids)
            if is_list:
                yield good(exchange)
            else:
                yield bad("'notifications.taskIds' is not an array of strings", exchange)


@client_check("2026-07-28:client-checks-ack", needs="a client that subscribes to its tasks")
def checks_acknowledgement(history: History) -> Iterator[Observation]:
    """Check that the client polls if the acknowledgement does not cover its tasks."""
    client = as_client(history)
    acknowledged = {
        repr(entry.meta.get("io.modelcontextprotocol/subscriptionId")): entry
        for entry in client.notifications("notifications/subscriptions/acknowledged")
    }
    for task_id in client.created:
        for exchange in _subscriptions(client, task_id):
            told = acknowledged.get(repr(exchange.request.body.get("id")))
            granted = None if told is None else told.params.get("notifications")
            if told is None or (isinstance(granted, dict) and granted.get("taskIds")):
                continue
            polls = [e for e in requests_for(client, task_id) if e.request.number > told.number]
            if polls:
                yield good(exchange, told, polls[0])
            elif was_stopped(history) and active_until(history) - told.at > INACTIVE_MS:
                words = "the client waited for notifications that were not acknowledged"
                yield bad(words, exchange, told)


@client_check("2026-07-28:poll-beside-notifications", needs="a client that subscribes to its tasks")
def may_poll_beside(history: History) -> Iterator[Observation]:
    """Record subscriptions; polling besides is optional."""
    client = as_client(history)
    for task_id in client.created:
        for exchange in _subscriptions(client, task_id):
            yield good(exchange)


@client_check("2026-07-28:many-subscriptions", needs="a client with several subscriptions")
def many_subscriptions(history: History) -> Iterator[Observation]:
    """Record additional subscriptions, which are allowed."""
    for exchange in list(as_client(history).calls("subscriptions/listen"))[1:]:
        yield good(exchange)


@client_check("2026-07-28:listen-ended-by-client", needs="a client that ends a subscription")
def ends_subscriptions(history: History) -> Iterator[Observation]:
    """Record ended subscriptions: by closing the stream, or over stdio by a notification."""
    cancelled = {
        repr(entry.params.get("requestId")): entry
        for entry in history.notifications("notifications/cancelled")
    }
    for exchange in as_client(history).calls("subscriptions/listen"):
        told = cancelled.get(repr(exchange.request.body.get("id")))
        if exchange.end is not None and exchange.end.kind is Kind.LEFT:
            yield good(exchange)
        elif told is not None and history.transport == "stdio":
            yield good(exchange, told)


@client_check("2026-07-28:client-may-forget-after-cancel", needs="a client that cancels a task")
def may_forget(history: History) -> Iterator[Observation]:
    """Record cancellations; the client may forget the task or read it again."""
    for exchange in as_client(history).calls("tasks/cancel"):
        yield good(exchange)
