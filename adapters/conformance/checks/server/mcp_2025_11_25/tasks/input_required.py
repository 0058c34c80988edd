"""Checks of tasks that need input (2025-11-25)."""

from collections.abc import Iterator
from typing import Final

from taskmachine.adapters.conformance.checks.reading.order import SOON_MS, response_head
from taskmachine.adapters.conformance.checks.reading.task_rules import (
    TaskRecord,
    task_record,
    task_records,
)
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import call_key, in_flight
from taskmachine.adapters.conformance.checks.server.mcp_2025_11_25.tasks.related import (
    INPUT_METHODS,
)
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

A_REQUEST: Final = "a task that requests input"


@check("2025-11-25:input-required-when-asking", needs=A_REQUEST)
def open_request_means_input_required(history: History) -> Iterator[Observation]:
    """Check that a task is `input_required` while a request for input is open."""
    for record in task_records(history):
        for request, reply in _input_requests(history, record):
            for seen in record.sightings:
                if not _is_between(seen, request, reply) or seen.is_terminal:
                    continue
                if seen.status == "input_required":
                    yield good(request, seen)
                elif seen.status == "working":
                    words = "a task is 'working', not 'input_required', with an open request"
                    yield bad(words, request, seen)


@check("2025-11-25:leaves-input-required-when-answered", needs=A_REQUEST)
def answered_task_leaves_input_required(history: History) -> Iterator[Observation]:
    """Check that a task leaves `input_required` soon after all responses."""
    for record in task_records(history):
        requests = _input_requests(history, record)
        replies = [reply for _, reply in requests if reply is not None and "result" in reply.body]
        if not requests or len(replies) < len(requests):
            continue
        last = max(replies, key=lambda entry: entry.number)
        if _is_refused(history, last):
            continue
        for seen in record.sightings:
            if seen.exchange is None or seen.exchange.request.number < last.number:
                continue
            if seen.status != "input_required":
                yield good(last, seen)
                break
            is_late = seen.since > last.at + SOON_MS
            if is_late and _has_open_result(history, record, last, seen.entry):
                words = "a task is 'input_required' after all of its requests were answered"
                yield bad(words, last, seen)
                break


@check("2025-11-25:status-input-required", needs=A_REQUEST)
def input_required_means_open_request(history: History) -> Iterator[Observation]:
    """Check that a task in `input_required` sends a request where the client can receive it."""
    for record in task_records(history):
        for evidence in _without_request(history, record):
            yield bad("a task is 'input_required', but sent no request for input", *evidence)
        waiting = next((s for s in record.sightings if s.status == "input_required"), None)
        if waiting is not None and _input_requests(history, record):
            yield good(waiting, _input_requests(history, record)[0][0])


@check("2025-11-25:status-working", needs="a task")
def otherwise_working(history: History) -> Iterator[Observation]:
    """Check that a running task without open requests is `working`."""
    for record in task_records(history):
        for evidence in _without_request(history, record):
            yield bad("a task sent no request for input, but is not 'working'", *evidence)
        working = next((s for s in record.sightings if s.status == "working"), None)
        if working is not None:
            yield good(working)


@check("2025-11-25:question-task-id-matches", needs="two tasks that request input at the same time")
def requests_name_their_task(history: History) -> Iterator[Observation]:
    """Check that a task that received input had a request under its own id."""
    for record in task_records(history):
        own = _input_requests(history, record)
        needed = next((s for s in record.sightings if s.status == "input_required"), None)
        if needed is None:
            continue
        if own:
            yield good(own[0][0], needed)
            continue
        continued = next((s for s in record.sightings if _is_served(needed, s)), None)
        other = _asked_twice(history, record)
        if continued is not None and other and _has_result_request(history, record):
            words = "a task left 'input_required', but all requests for input named another task"
            yield bad(words, needed, *other, continued)


# --- selections -----------------------------------------------------------------------------------


def _input_requests(history: History, record: TaskRecord) -> list[tuple[Entry, Entry | None]]:
    """Return the requests for input of a task, each with the client's response."""
    return [
        (request, reply)
        for request, reply in history.questions
        if request.method in INPUT_METHODS
        and request.related_task == record.id
        and task_record(history, record.id, request) is record
    ]


def _is_between(seen: Sighting, request: Entry, reply: Entry | None) -> bool:
    """Return whether the poll falls entirely between the request and the response."""
    if seen.exchange is None or seen.exchange.request.number < request.number:
        return False
    if reply is None:  # It may have been withdrawn meanwhile.
        return seen.until < request.at + SOON_MS
    return seen.entry.number < reply.number


def _is_refused(history: History, reply: Entry) -> bool:
    """Return whether the target rejected the response."""
    head = response_head(history, reply)
    return head is not None and head.http is not None and head.http.status >= 400


def _results(history: History, record: TaskRecord) -> Iterator[Exchange]:
    for exchange in history.results.get(record.id, ()):
        if task_record(history, record.id, exchange.request) is record:
            yield exchange


def _has_open_result(history: History, record: TaskRecord, since: Entry, until: Entry) -> bool:
    """Return whether a `tasks/result` was open all the time, to carry more requests."""
    return any(in_flight(asked, since, until) for asked in _results(history, record))


def _without_request(
    history: History, record: TaskRecord
) -> Iterator[tuple[Exchange, Sighting, Sighting]]:
    """Yield long `input_required` periods with an open `tasks/result` and no request for input."""
    waiting = [
        s for s in record.sightings if s.status == "input_required" and s.exchange is not None
    ]
    for asked in _results(history, record):
        line = asked.request.line
        if any(q.line == line and _may_be_of(q, record) for q, _ in history.questions):
            continue
        during = [s for s in waiting if in_flight(asked, s.entries[0], s.entry)]
        first = min(_results(history, record), key=lambda exchange: exchange.request.number)
        if not during or not _receives_all_requests(history, first, during[-1].entry):
            continue
        if during[-1].since - during[0].until > SOON_MS:
            yield asked, during[0], during[-1]
            return


def _receives_all_requests(history: History, asked: Exchange, until: Entry) -> bool:
    """Return whether requests would have been received: they may also come on a GET stream."""
    if history.transport == "stdio":
        return True
    gets = {
        entry.post
        for entry in history.entries
        if entry.kind is Kind.SENT
        and entry.line == asked.request.line
        and entry.number < asked.request.number
        and entry.http is not None
        and entry.http.method == "GET"
    }
    ended = {
        entry.post
        for entry in history.entries
        if entry.kind in (Kind.ENDED, Kind.LEFT) and entry.number < until.number
    }
    return bool(gets - ended)


def _may_be_of(request: Entry, record: TaskRecord) -> bool:
    return request.method in INPUT_METHODS and request.related_task in (None, record.id)


def _is_served(needed: Sighting, later: Sighting) -> bool:
    return needed.precedes(later) and later.status in ("working", "completed")


def _asked_twice(history: History, record: TaskRecord) -> list[Entry]:
    """Return two requests that named another task of the same tool, which sends only one."""
    created = None if record.created is None else record.created.exchange
    for other in task_records(history):
        made = None if other.created is None else other.created.exchange
        if (
            other is record
            or created is None
            or made is None
            or call_key(made) != call_key(created)
        ):
            continue
        asked = [request for request, reply in _input_requests(history, other) if reply is not None]
        if len(asked) > 1:
            return asked[:2]
    return []


def _has_result_request(history: History, record: TaskRecord) -> bool:
    return any(True for _ in _results(history, record))
