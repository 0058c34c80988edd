"""Checks of task statuses, their fields, and their transitions (2026-07-28, tasks extension)."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading import task_rules
from taskmachine.adapters.conformance.checks.reading.input_requests import input_requests
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import capabilities
from taskmachine.adapters.conformance.checks.reading.tasks_2026_07_28 import (
    answered,
    contradicts,
    detailed_tasks,
    get_results,
    is_by_creator,
    modern,
    requests_about,
)
from taskmachine.adapters.conformance.history import Exchange, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note, warning

__all__ = ["payload_fault"]

_OWNER: Final = {"result": "completed", "error": "failed", "inputRequests": "input_required"}
_KINDS: Final = frozenset({"elicitation", "sampling", "roots"})


# --- statuses -------------------------------------------------------------------------------------


@check("2026-07-28:status-values", needs="a task")
def statuses_are_known(history: History) -> Iterator[Observation]:
    """Check that the target shows only the five statuses."""
    yield from task_rules.statuses_known(modern(history))


@check(
    "2026-07-28:paths-from-working",
    needs="a task that is read as `working` and later in another status",
    status="working",
)
@check(
    "2026-07-28:paths-from-input-required",
    needs="a task that is read as `input_required` and later in another status",
    status="input_required",
)
def transitions_are_allowed(history: History, status: str) -> Iterator[Observation]:
    """Check that every status after `status` is reachable from it."""
    yield from task_rules.transitions_from(modern(history), status)


@check("2026-07-28:terminal-final", needs="a task that is read again after it ended")
def terminal_is_final(history: History) -> Iterator[Observation]:
    """Check that neither the terminal status of a task nor its outcome changes."""
    yield from task_rules.terminal_final(modern(history))
    for record in task_rules.task_records(modern(history)):
        ends = [s for s in record.sightings if s.is_terminal and s.where in ("get", "notification")]
        for later in ends[1:]:
            if ends[0].status == later.status and contradicts(ends[0].task, later.task):
                yield bad("the result or error of the task changed after it ended", ends[0], later)


@check("2026-07-28:status-cancelled", needs="a task that is cancelled")
def cancelled_has_a_reason(history: History) -> Iterator[Observation]:
    """Check that a cancelled task was cancelled by a request, or has a status message."""
    for record in task_rules.task_records(modern(history)):
        first = next((s for s in record.sightings if s.status == "cancelled"), None)
        if first is None:
            continue
        cancels = history.calls("tasks/cancel")
        was_asked = any(
            cancel.task_id == record.id and cancel.request.number < first.entry.number
            for cancel in cancels
        )
        if was_asked or first.task.get("statusMessage"):
            yield good(first)
        else:
            yield warning("a task is 'cancelled' without cancel request or 'statusMessage'", first)


# --- fields of a status ---------------------------------------------------------------------------


@check("2026-07-28:payload-matches-status", needs="a task")
def payload_fits(history: History) -> Iterator[Observation]:
    """Check that result, error and input requests come only with their own status."""
    for sighting in detailed_tasks(history):
        strays = [
            name
            for name, status in _OWNER.items()
            if sighting.task.get(name) is not None and sighting.status != status
        ]
        words = f"a task is {sighting.status!r}, but has {', '.join(repr(name) for name in strays)}"
        if not strays:
            yield good(sighting)
        elif sighting.status == "working" and "inputRequests" not in strays:
            yield warning(words, sighting)  # the schema allows it
        else:
            yield bad(words, sighting)


def payload_fault(task: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the fields that the status of a task requires, or None."""
    match task.get("status"):
        case "completed" if not isinstance(task.get("result"), dict):
            return "a task that is 'completed', but has no 'result'"
        case "failed" if not isinstance(task.get("error"), dict):
            return "a task that is 'failed', but has no 'error'"
        case "failed":
            code, message = task["error"].get("code"), task["error"].get("message")
            if not isinstance(code, int) or isinstance(code, bool):
                return f"a failed task whose error code is {code!r}, not an integer"
            return (
                None
                if isinstance(message, str)
                else f"a failed task whose error message is {message!r}, not a string"
            )
        case "input_required" if not isinstance(task.get("inputRequests"), dict):
            return "a task that is 'input_required', but has no 'inputRequests'"
    return None


def _complete(sighting: Sighting) -> Observation:
    fault = payload_fault(sighting.task)
    return good(sighting) if fault is None else bad(fault, sighting)


@check("2026-07-28:status-completed", needs="a task that completes", status="completed")
@check("2026-07-28:status-failed", needs="a task that fails", status="failed")
@check(
    "2026-07-28:status-input-required", needs="a task that requests input", status="input_required"
)
def status_has_its_fields(history: History, status: str) -> Iterator[Observation]:
    """Check that a task with that status has its result, error or input requests."""
    yield from (_complete(s) for s in detailed_tasks(history) if s.status == status)


@check("2026-07-28:status-working", needs="a task that is read while it is working")
def working_has_no_input_requests(history: History) -> Iterator[Observation]:
    """Check that a `working` task has no input requests."""
    for sighting in detailed_tasks(history):
        if sighting.status == "working":
            if input_requests(sighting.task):
                yield bad("a task is 'working', but has input requests", sighting)
            else:
                yield good(sighting)


# --- tasks/get ------------------------------------------------------------------------------------


@check("2026-07-28:get-answers-by-status", needs="a task that is read")
def get_has_the_variant(history: History) -> Iterator[Observation]:
    """Check that `tasks/get` returns the fields that the status requires."""
    for sighting in get_results(history):
        if isinstance(sighting.status, str):
            yield _complete(sighting)


@check("2026-07-28:get-completed-has-result", needs="a task that completes", status="completed")
@check("2026-07-28:get-failed-has-error", needs="a task that fails", status="failed")
def get_has_fields_of_status(history: History, status: str) -> Iterator[Observation]:
    """Check that `tasks/get` of a task with that status returns its result or error."""
    yield from (_complete(s) for s in get_results(history) if s.status == status)


@check("2026-07-28:get-cancelled", needs="a task that is cancelled")
def get_of_cancelled(history: History) -> Iterator[Observation]:
    """Check that `tasks/get` of a cancelled task returns neither result nor error."""
    for sighting in get_results(history):
        if sighting.status == "cancelled":
            more = [name for name in ("result", "error") if sighting.task.get(name) is not None]
            if more:
                yield bad(f"a task is 'cancelled', but has {more[0]!r}", sighting)
            else:
                yield good(sighting)


@check("2026-07-28:get-working", needs="a task that is read while it is working")
def get_of_working(history: History) -> Iterator[Observation]:
    """Check that `tasks/get` of a working task returns it, without result or error."""
    for sighting in get_results(history):
        if sighting.status == "working":
            more = [name for name in ("result", "error") if sighting.task.get(name) is not None]
            if more:
                yield warning(f"a task is 'working', but has {more[0]!r}", sighting)
            else:
                yield good(sighting)
    yield from _refused_at_work(history)


def _refused_at_work(history: History) -> Iterator[Observation]:
    found = modern(history)
    for get in answered(history, "tasks/get", declared=True):
        if get.error is None or not is_by_creator(found, get):
            continue
        seen = [s for s in found.by_task[get.task_id] if s.exchange is not None]
        around = _around(get, [s for s in seen if s.status == "working"])
        if around is not None:
            yield bad(f"'tasks/get' of a working task got error {get.code!r}", *around, get)


def _around(get: Exchange, working: list[Sighting]) -> tuple[Sighting, Sighting] | None:
    """Return sightings certainly before and after."""
    before = [s for s in working if s.entry.number < get.request.number]
    answer = get.response
    after = [
        s
        for s in working
        if s.exchange is not None and answer and s.exchange.request.number > answer.number
    ]
    return (before[-1], after[0]) if before and after else None


@check("2026-07-28:get-input-required-has-requests", needs="a task that requests input")
def get_of_input_required(history: History) -> Iterator[Observation]:
    """Check that `tasks/get` returns input requests with method and params."""
    for sighting in get_results(history):
        if sighting.status != "input_required":
            continue
        fault = payload_fault(sighting.task)
        asked = input_requests(sighting.task)
        if fault is not None:
            yield bad(fault, sighting)
        elif not asked:
            yield _no_input_requests(sighting)
        for key, request in asked.items():
            wrong = _request_fault(request)
            if wrong is not None:
                yield bad(f"the input request {key!r} {wrong}", sighting)
            else:
                yield good(sighting)


def _no_input_requests(sighting: Sighting) -> Observation:
    declared = {} if sighting.exchange is None else capabilities(sighting.exchange)
    if set(declared) >= _KINDS:
        return bad("a task is 'input_required', but has no input requests", sighting)
    return note(
        "a task is 'input_required', but has no input requests of a kind that the poll declared",
        sighting,
    )


def _request_fault(request: Any) -> str | None:
    if not isinstance(request, dict):
        return "is not an object"
    if not isinstance(request.get("method"), str):
        return "has no `method`"
    if "params" not in request and request["method"] == "roots/list":
        return None  # `roots/list` has no params
    return None if isinstance(request.get("params"), dict) else "has no `params`"


@check("2026-07-28:get-result-type-complete", needs="a task that is read")
def get_is_complete(history: History) -> Iterator[Observation]:
    """Check that the result of `tasks/get` has `resultType: "complete"`, whatever the status."""
    for sighting in get_results(history):
        kind = sighting.task.get("resultType")
        if kind == "complete":
            yield good(sighting)
        else:
            words = f"the result of 'tasks/get' has 'resultType' {kind!r}, not 'complete'"
            yield bad(words, sighting)


@check("2026-07-28:task-questions-not-mrtr", needs="a task that requests input")
def get_is_not_input_required(history: History) -> Iterator[Observation]:
    """Check that a task does not request input by `resultType: "input_required"`."""
    for sighting in get_results(history):
        if sighting.task.get("resultType") == "input_required":
            yield bad("the result of 'tasks/get' has 'resultType' 'input_required'", sighting)
        elif sighting.status == "input_required":
            yield good(sighting)


@check("2026-07-28:inlined-result-type", needs="a task that completes")
def inlined_result_type(history: History) -> Iterator[Observation]:
    """Note whether the inlined result has its own `resultType`; the specification allows both."""
    for sighting in detailed_tasks(history):
        result = sighting.task.get("result")
        if sighting.status == "completed" and isinstance(result, dict):
            has = "has a" if "resultType" in result else "has no"
            yield note(f"the result in a completed task {has} 'resultType'", sighting)
            return


@check("2026-07-28:reads-do-not-write", needs="a task that is read twice after it ended")
def reads_do_not_write(history: History) -> Iterator[Observation]:
    """Check that consecutive reads of a terminal task return the same timestamps."""
    for record in task_rules.task_records(modern(history)):
        others = requests_about(history, record, "tasks/cancel", "tasks/update")
        seen = [s for s in record.sightings if s.where == "get" and s.is_terminal]
        for earlier, later in pairwise(seen):
            if not earlier.precedes(later) or any(
                earlier.entry.number < o.request.number < later.entry.number for o in others
            ):
                continue
            moved = [
                name
                for name in ("createdAt", "lastUpdatedAt")
                if earlier.task.get(name) != later.task.get(name)
            ]
            if moved:
                words = f"{moved[0]!r} changed between two reads although the task had ended"
                yield bad(words, earlier, later)
            else:
                yield good(earlier, later)


@check("2026-07-28:may-rate-limit-polling", needs="polls that are faster than `pollIntervalMs`")
def fast_polls(history: History) -> Iterator[Observation]:
    """Record polls faster than `pollIntervalMs`, which the target may reject."""
    for record in task_rules.task_records(modern(history)):
        seen = [s for s in record.sightings if s.where in ("create", "get")]
        for get in requests_about(history, record, "tasks/get"):
            last = next((s for s in reversed(seen) if s.entry.number < get.request.number), None)
            interval = None if last is None else last.task.get("pollIntervalMs")
            if last is None or not isinstance(interval, int | float) or not get.is_answered:
                continue
            if get.request.at - last.until < interval:
                yield good(last, get)
