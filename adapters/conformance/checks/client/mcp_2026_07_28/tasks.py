"""How clients of 2026-07-28 follow and answer their tasks."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.checks.client.mcp_2025_11_25.questions import (
    elicit_result_fault,
)
from taskmachine.adapters.conformance.checks.client.polling import (
    PATIENCE_MS,
    has_hung,
    lived_until,
    requests_for,
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
_ASKED: Final = "a client that declares elicitation or sampling, and follows a task that asks"


def capabilities_of(entry: Entry) -> Mapping[str, Any]:
    """What a request declares."""
    found = entry.meta.get(_CAPABILITIES)
    return found if isinstance(found, dict) else {}


def _extensions(entry: Entry) -> Mapping[str, Any]:
    found = capabilities_of(entry).get("extensions")
    return found if isinstance(found, dict) else {}


def _ended_in_peace(history: History) -> bool:
    return any(e.kind is Kind.EXITED and e.text == "exit status 0" for e in history.entries)


# --- declaring -----------------------------------------------------------------------------------


@client_check("2026-07-28:client-declares-per-request", needs="a client that asks for its tasks")
def declares_per_request(history: History) -> Iterator[Observation]:
    """Each request for a task declares the extension, and so did the call that made it."""
    for exchange in as_client(history).exchanges:
        if exchange.method in _METHODS:
            if _TASKS in _extensions(exchange.request):
                yield good(exchange)
            else:
                yield bad(f"`{exchange.method}` does not declare the extension", exchange)


@client_check("2026-07-28:extension-identifier", needs="a client that declares the extension")
def extension_identifier(history: History) -> Iterator[Observation]:
    """It is declared under its own name, as nothing that only looks like it."""
    for exchange in as_client(history).exchanges:
        for key in _extensions(exchange.request):
            if key == _TASKS:
                yield good(exchange)
            elif key.lower().replace("_", "-") in (_TASKS, "tasks", "mcp/tasks"):
                yield bad(f"the extension is declared as {key!r:.60}", exchange)


@client_check("2026-07-28:capability-empty-object", needs="a client that declares the extension")
def extension_is_object(history: History) -> Iterator[Observation]:
    """Its value is an object."""
    for exchange in as_client(history).exchanges:
        extensions = _extensions(exchange.request)
        if _TASKS not in extensions:
            continue
        if not isinstance(extensions[_TASKS], dict):
            yield bad("the extension is declared by something else than an object", exchange)
        elif extensions[_TASKS]:
            yield note("the extension is declared with settings, and has none", exchange)
        else:
            yield good(exchange)


@client_check("2026-07-28:extension-id-format", needs="a client that declares extensions")
def extension_ids(history: History) -> Iterator[Observation]:
    """Each has a prefix and the form of a `_meta` key."""
    for exchange in as_client(history).exchanges:
        for key in _extensions(exchange.request):
            fault = prefix_fault(key) or label_fault(key) or name_fault(key)
            if "/" not in key:
                fault = "has no prefix"
            if fault is None:
                yield good(exchange)
            else:
                yield bad(f"the extension {key!r:.60} {fault}", exchange)


@client_check("2026-07-28:extension-label-reserved", needs="a client that declares the extension")
def extension_label(history: History) -> Iterator[Observation]:
    """The label is an extension key, and no key of `_meta`."""
    for exchange in as_client(history).exchanges:
        if _TASKS in exchange.request.meta:
            yield bad("the label of the extension is used as a `_meta` key", exchange)
        elif _TASKS in _extensions(exchange.request):
            yield good(exchange)


@client_check("2026-07-28:method-prefix-reserved", needs="a client that asks for its tasks")
def methods_reserved(history: History) -> Iterator[Observation]:
    """Only methods of the extension begin with `tasks/`."""
    for entry in history.heard:
        method = entry.method or ""
        if method.startswith(("tasks/", "notifications/tasks")):
            if method in _METHODS:
                yield good(entry)
            else:
                yield bad(f"there is no method `{method:.60}`", entry)


# --- following -----------------------------------------------------------------------------------


@client_check(
    "2026-07-28:client-uses-task-id",
    "2026-07-28:state-by-explicit-id",
    needs="a client that asks for its tasks",
)
def uses_task_ids(history: History) -> Iterator[Observation]:
    """Each request names a task that was given out before."""
    client = as_client(history)
    for exchange in client.exchanges:
        if exchange.method in _METHODS:
            if isinstance(exchange.task_id, str) and exchange.task_id in client.by_task:
                yield good(exchange)
            else:
                yield bad(f"asked for the task {exchange.task_id!r:.60}, unknown here", exchange)


def _subscriptions(client: History, task_id: str) -> list[Exchange]:
    found = []
    for exchange in client.calls("subscriptions/listen"):
        wanted = exchange.params.get("notifications")
        ids = wanted.get("taskIds") if isinstance(wanted, dict) else None
        if isinstance(ids, list) and task_id in ids:
            found.append(exchange)
    return found


def _is_over(client: History, task_id: str) -> Sighting | None:
    return next((s for s in client.by_task[task_id] if s.is_terminal), None)


def _is_task_for_call(exchange: Exchange) -> bool:
    return exchange.method == "tools/call"


@client_check(
    "2026-07-28:client-handles-both-results",
    "2026-07-28:fixed-shape-clients",
    needs="a client that declares the extension",
)
def handles_both(history: History) -> Iterator[Observation]:
    """A task is followed to its end by whoever said it can."""
    client = as_client(history)
    for task_id, created in client.created.items():
        if not _is_task_for_call(created):
            continue
        end = _is_over(client, task_id)
        asked = requests_for(client, task_id) or _subscriptions(client, task_id)
        is_done = has_hung(history) or _ended_in_peace(history)
        if end is not None and asked:
            yield good(created, end)
        elif not asked and is_done and lived_until(history) - created.sent_at > _SEEN_MS:
            # It may mean to come back another day.
            yield warning("declared the extension, but does not follow the task", created)


@client_check(
    "2026-07-28:task-for-unsupported-request-invalid",
    needs="a client that lists the tools",
)
def misplaced_task_refused(history: History) -> Iterator[Observation]:
    """A task in answer to anything but a tool call is not followed."""
    client = as_client(history)
    for task_id, created in client.created.items():
        if _is_task_for_call(created):
            continue
        followed = requests_for(client, task_id) or _subscriptions(client, task_id)
        if followed:
            words = f"followed a task in answer to `{created.method}`"
            yield bad(words, created, followed[0])
        else:
            yield good(created)


# --- questions -----------------------------------------------------------------------------------


def _questions(sighting: Sighting) -> Mapping[str, Any]:
    found = sighting.task.get("inputRequests")
    return found if isinstance(found, dict) and sighting.status == "input_required" else {}


def _answers(exchange: Exchange) -> Mapping[str, Any]:
    found = exchange.params.get("inputResponses")
    return found if isinstance(found, dict) else {}


def _updates(client: History, task_id: str) -> list[Exchange]:
    return [e for e in requests_for(client, task_id) if e.method == "tasks/update"]


@client_check(
    "2026-07-28:client-answers-questions",
    "2026-07-28:client-inspects-input-requests",
    needs=_ASKED,
)
def answers_questions(history: History) -> Iterator[Observation]:
    """An open question is answered, not polled past; to leave or to cancel is no silence."""
    client = as_client(history)
    for task_id in client.created:
        asking = [s for s in client.by_task[task_id] if _questions(s)]
        if not asking:
            continue
        answered = [e for e in _updates(client, task_id) if _answers(e)]
        polls = [s for s in asking if s.where == "get"]
        asked_ms = polls[-1].until - polls[0].until if polls else 0
        if answered:
            yield good(asking[0], answered[0])
        elif len(polls) >= 3 and asked_ms > _IGNORED_MS:
            yield bad("polled on and left a question open", polls[0], polls[-1])
        elif has_hung(history) and lived_until(history) - asking[-1].until > PATIENCE_MS:
            yield bad("did nothing about a question", asking[-1])


_IGNORED_MS: Final = 3_000.0


@client_check("2026-07-28:client-observes-after-update", needs=_ASKED)
def observes_after_update(history: History) -> Iterator[Observation]:
    """After the last answer the client polls on, or listens."""
    client = as_client(history)
    for task_id in client.created:
        updates = [e for e in _updates(client, task_id) if e.is_answered]
        asked = requests_for(client, task_id)
        if not updates or any(e.method == "tasks/cancel" for e in asked):
            continue
        later = [e for e in asked if e.request.number > updates[-1].request.number]
        if later or _subscriptions(client, task_id):
            yield good(updates[-1], *later[:1])
        elif _ended_in_peace(history) or has_hung(history):
            yield bad("did not look at a task again after an answer", updates[-1])


@client_check("2026-07-28:answer-once", "2026-07-28:questions-deduplicated", needs=_ASKED)
def answers_once(history: History) -> Iterator[Observation]:
    """A key that was shown again after its answer is not answered again."""
    client = as_client(history)
    for task_id in client.created:
        first: dict[str, Exchange] = {}
        for exchange in _updates(client, task_id):
            for key in _answers(exchange):
                if key in first and first[key].error is None:
                    yield bad(f"answered the question {key!r:.40} twice", first[key], exchange)
                first.setdefault(key, exchange)
        for key, exchange in first.items():
            again = [
                s
                for s in client.by_task[task_id]
                if key in _questions(s) and s.entry.number > exchange.request.number
            ]
            count = sum(key in _answers(e) for e in _updates(client, task_id))
            if again and count == 1:
                yield good(exchange, again[0])


@client_check("2026-07-28:response-keys-outstanding", needs=_ASKED)
def keys_outstanding(history: History) -> Iterator[Observation]:
    """Each key was shown, and was not gone from what the client had seen last."""
    client = as_client(history)
    for task_id in client.created:
        for exchange in _updates(client, task_id):
            before = [
                s for s in client.by_task[task_id] if s.entry.number < exchange.request.number
            ]
            seen = [s for s in before if exchange.sent_at - s.until > _SEEN_MS]
            for key in _answers(exchange):
                if not any(key in _questions(s) for s in before):
                    yield bad(f"answered {key!r:.40}, which was never asked", exchange)
                elif seen and seen[-1] is before[-1] and key not in _questions(seen[-1]):
                    yield bad(f"answered {key!r:.40}, not open any more", seen[-1], exchange)
                else:
                    yield good(exchange)


@client_check("2026-07-28:question-as-standalone-request", needs=_ASKED)
def answers_in_form(history: History) -> Iterator[Observation]:
    """An answer has the form that the answer to the same request alone would have."""
    client = as_client(history)
    for task_id in client.created:
        asked: dict[str, Any] = {}
        for sighting in client.by_task[task_id]:
            asked |= _questions(sighting)
        for exchange in _updates(client, task_id):
            for key, answer in _answers(exchange).items():
                if key in asked:
                    fault = _answer_fault(asked[key], answer)
                    yield good(exchange) if fault is None else bad(fault, exchange)


def _answer_fault(question: Mapping[str, Any], answer: Any) -> str | None:
    if question["method"] == "elicitation/create":
        return elicit_result_fault(answer, question["params"].get("requestedSchema"))
    if not isinstance(answer, dict):
        return "an answer is no object"
    missing = [name for name in ("role", "content", "model") if name not in answer]
    return f"what a model says has no `{missing[0]}`" if missing else None


@client_check(
    "2026-07-28:elicitation-declared", needs=_ASKED, method="elicitation/create", kind="elicitation"
)
@client_check(
    "2026-07-28:sampling-declared",
    needs="a client that declares sampling",
    method="sampling/createMessage",
    kind="sampling",
)
def answers_are_declared(history: History, method: str, kind: str) -> Iterator[Observation]:
    """A client that answers a form, or for a model, has declared that in the call."""
    client = as_client(history)
    for task_id, created in client.created.items():
        asked: dict[str, Any] = {}
        for sighting in client.by_task[task_id]:
            asked |= _questions(sighting)
        keys = {key for key, one in asked.items() if one["method"] == method}
        for exchange in _updates(client, task_id):
            if keys & set(_answers(exchange)):
                if kind in capabilities_of(created.request):
                    yield good(created, exchange)
                else:
                    yield bad(f"answered {kind}, but did not declare it", created, exchange)


@client_check("2026-07-28:elicitation-no-mode-is-form", needs=_ASKED)
def no_mode_is_form(history: History) -> Iterator[Observation]:
    """A question without a mode is answered like a form."""
    client = as_client(history)
    for task_id in client.created:
        updates = _updates(client, task_id)
        for sighting in client.by_task[task_id]:
            for key, question in _questions(sighting).items():
                is_form = question["method"] == "elicitation/create"
                if is_form and "mode" not in question["params"]:
                    for exchange in updates:
                        if key in _answers(exchange):
                            schema = question["params"]["requestedSchema"]
                            fault = elicit_result_fault(_answers(exchange)[key], schema)
                            yield good(exchange) if fault is None else bad(fault, exchange)


# --- subscriptions and the end -------------------------------------------------------------------


@client_check("2026-07-28:listen-with-task-ids", needs="a client that listens")
def listens_for_tasks(history: History) -> Iterator[Observation]:
    """Task ids are in `notifications.taskIds`."""
    for exchange in as_client(history).calls("subscriptions/listen"):
        wanted = exchange.params.get("notifications")
        if "taskIds" in exchange.params:
            yield bad("`taskIds` is not within `notifications`", exchange)
        elif isinstance(wanted, dict) and "taskIds" in wanted:
            ids = wanted["taskIds"]
            is_list = isinstance(ids, list) and all(isinstance(id, str) for id in ids)
            yield good(exchange) if is_list else bad("`taskIds` is no list of ids", exchange)


@client_check("2026-07-28:client-checks-ack", needs="a client that listens for its tasks")
def checks_acknowledgement(history: History) -> Iterator[Observation]:
    """Where the tasks are not covered, the client polls."""
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
            elif has_hung(history) and lived_until(history) - told.at > PATIENCE_MS:
                yield bad("waited for news that were not granted", exchange, told)


@client_check("2026-07-28:poll-beside-notifications", needs="a client that listens for its tasks")
def may_poll_beside(history: History) -> Iterator[Observation]:
    """It may, or not."""
    client = as_client(history)
    for task_id in client.created:
        for exchange in _subscriptions(client, task_id):
            yield good(exchange)


@client_check("2026-07-28:many-subscriptions", needs="a client that listens more than once")
def many_subscriptions(history: History) -> Iterator[Observation]:
    """It may."""
    for exchange in list(as_client(history).calls("subscriptions/listen"))[1:]:
        yield good(exchange)


@client_check("2026-07-28:listen-ended-by-client", needs="a client that ends a subscription")
def ends_subscriptions(history: History) -> Iterator[Observation]:
    """By closing the stream, or on a pipe by a notification."""
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
    """It may, or look again."""
    for exchange in as_client(history).calls("tasks/cancel"):
        yield good(exchange)
