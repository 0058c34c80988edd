"""2026-07-28, the tasks extension: statuses, what comes with them, and what may follow."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading import sightings
from taskmachine.adapters.conformance.checks.reading.asked import input_requests
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import capabilities
from taskmachine.adapters.conformance.checks.reading.tasks_2026_07_28 import (
    answered,
    contradicts,
    details,
    gets,
    is_by_creator,
    modern,
    of_task,
)
from taskmachine.adapters.conformance.history import Exchange, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note, warning

__all__ = ["payload_fault"]

_OWNER: Final = {"result": "completed", "error": "failed", "inputRequests": "input_required"}
_KINDS: Final = frozenset({"elicitation", "sampling", "roots"})


# --- which statuses there are --------------------------------------------------------------------


@check("2026-07-28:status-values", needs="a task")
def statuses_are_known(history: History) -> Iterator[Observation]:
    """Only the five statuses are shown."""
    yield from sightings.statuses_known(modern(history))


@check("2026-07-28:paths-from-working", needs="a task that is seen `working` and then otherwise")
def paths_from_working(history: History) -> Iterator[Observation]:
    """What follows `working` can be reached from it."""
    yield from sightings.paths(modern(history), "working")


@check(
    "2026-07-28:paths-from-input-required",
    needs="a task that is seen `input_required` and then otherwise",
)
def paths_from_input_required(history: History) -> Iterator[Observation]:
    """What follows `input_required` can be reached from it."""
    yield from sightings.paths(modern(history), "input_required")


@check("2026-07-28:terminal-final", needs="a task that is read again after its end")
def terminal_is_final(history: History) -> Iterator[Observation]:
    """Once a task is over neither its status nor its outcome changes."""
    yield from sightings.terminal_final(modern(history))
    for life in sightings.lives(modern(history)):
        ends = [s for s in life.sightings if s.is_terminal and s.where in ("get", "notification")]
        for later in ends[1:]:
            if ends[0].status == later.status and contradicts(ends[0].task, later.task):
                yield bad("the outcome of the task changed after its end", ends[0], later)


@check("2026-07-28:status-cancelled", needs="a task that is cancelled")
def cancelled_has_a_reason(history: History) -> Iterator[Observation]:
    """A task is cancelled because somebody asked for it, or it says why."""
    for life in sightings.lives(modern(history)):
        first = next((s for s in life.sightings if s.status == "cancelled"), None)
        if first is None:
            continue
        cancels = history.calls("tasks/cancel")
        was_asked = any(
            cancel.task_id == life.id and cancel.request.number < first.entry.number
            for cancel in cancels
        )
        if was_asked or first.task.get("statusMessage"):
            yield good(first)
        else:
            yield warning(
                "the task was cancelled, but nobody asked for it, nor does it say why", first
            )


# --- what comes with a status --------------------------------------------------------------------


@check("2026-07-28:payload-matches-status", needs="a task")
def payload_fits(history: History) -> Iterator[Observation]:
    """Result, error and questions come with their own status only."""
    for sighting in details(history):
        strays = [
            name
            for name, status in _OWNER.items()
            if sighting.task.get(name) is not None and sighting.status != status
        ]
        words = f"{sighting.status!r} with {', '.join(repr(name) for name in strays)}"
        if not strays:
            yield good(sighting)
        elif sighting.status == "working" and "inputRequests" not in strays:
            yield warning(words, sighting)  # the types allow it
        else:
            yield bad(words, sighting)


def payload_fault(task: Mapping[str, Any]) -> str | None:
    """Why what has to come with the status of a task is not right; None if it is."""
    match task.get("status"):
        case "completed" if not isinstance(task.get("result"), dict):
            return "'completed' without 'result'"
        case "failed" if not isinstance(task.get("error"), dict):
            return "'failed' without 'error'"
        case "failed":
            code, message = task["error"].get("code"), task["error"].get("message")
            if not isinstance(code, int) or isinstance(code, bool):
                return f"the code of the error is {code!r}"
            return None if isinstance(message, str) else f"the message of the error is {message!r}"
        case "input_required" if not isinstance(task.get("inputRequests"), dict):
            return "'input_required' without 'inputRequests'"
    return None


def _complete(sighting: Sighting) -> Observation:
    fault = payload_fault(sighting.task)
    return good(sighting) if fault is None else bad(fault, sighting)


@check("2026-07-28:status-completed", needs="a task that completes")
def completed_has_result(history: History) -> Iterator[Observation]:
    """`completed` comes with the result."""
    yield from (_complete(s) for s in details(history) if s.status == "completed")


@check("2026-07-28:status-failed", needs="a task that fails")
def failed_has_error(history: History) -> Iterator[Observation]:
    """`failed` comes with the error."""
    yield from (_complete(s) for s in details(history) if s.status == "failed")


@check("2026-07-28:status-input-required", needs="a task that asks for input")
def input_required_has_requests(history: History) -> Iterator[Observation]:
    """`input_required` comes with the questions."""
    yield from (_complete(s) for s in details(history) if s.status == "input_required")


@check("2026-07-28:status-working", needs="a task that is seen at work")
def working_asks_nothing(history: History) -> Iterator[Observation]:
    """`working` means that nothing is asked."""
    for sighting in details(history):
        if sighting.status == "working":
            if input_requests(sighting.task):
                yield bad("'working', and yet something is asked", sighting)
            else:
                yield good(sighting)


# --- tasks/get -----------------------------------------------------------------------------------


@check("2026-07-28:get-answers-by-status", needs="a task that is read")
def get_has_the_variant(history: History) -> Iterator[Observation]:
    """`tasks/get` shows what belongs to the status."""
    for sighting in gets(history):
        if isinstance(sighting.status, str):
            yield _complete(sighting)


@check("2026-07-28:get-completed-has-result", needs="a task that completes")
def get_of_completed(history: History) -> Iterator[Observation]:
    """`tasks/get` of a completed task has its result."""
    yield from (_complete(s) for s in gets(history) if s.status == "completed")


@check("2026-07-28:get-failed-has-error", needs="a task that fails")
def get_of_failed(history: History) -> Iterator[Observation]:
    """`tasks/get` of a failed task has its error."""
    yield from (_complete(s) for s in gets(history) if s.status == "failed")


@check("2026-07-28:get-cancelled", needs="a task that is cancelled")
def get_of_cancelled(history: History) -> Iterator[Observation]:
    """`tasks/get` of a cancelled task says so, and no more."""
    for sighting in gets(history):
        if sighting.status == "cancelled":
            more = [name for name in ("result", "error") if sighting.task.get(name) is not None]
            yield bad(f"'cancelled' with {more[0]!r}", sighting) if more else good(sighting)


@check("2026-07-28:get-working", needs="a task that is read while it works")
def get_of_working(history: History) -> Iterator[Observation]:
    """`tasks/get` of a working task says so, and is no error."""
    for sighting in gets(history):
        if sighting.status == "working":
            more = [name for name in ("result", "error") if sighting.task.get(name) is not None]
            yield warning(f"'working' with {more[0]!r}", sighting) if more else good(sighting)
    yield from _refused_at_work(history)


def _refused_at_work(history: History) -> Iterator[Observation]:
    found = modern(history)
    for get in answered(history, "tasks/get", declared=True):
        if get.error is None or not is_by_creator(found, get):
            continue
        seen = [s for s in found.by_task[get.task_id] if s.exchange is not None]
        around = _around(get, [s for s in seen if s.status == "working"])
        if around is not None:
            yield bad(f"a working task was answered with error {get.code!r}", *around, get)


def _around(get: Exchange, working: list[Sighting]) -> tuple[Sighting, Sighting] | None:
    """Sightings certainly before and after."""
    before = [s for s in working if s.entry.number < get.request.number]
    answer = get.response
    after = [
        s
        for s in working
        if s.exchange is not None and answer and s.exchange.request.number > answer.number
    ]
    return (before[-1], after[0]) if before and after else None


@check("2026-07-28:get-input-required-has-requests", needs="a task that asks for input")
def get_of_input_required(history: History) -> Iterator[Observation]:
    """`tasks/get` of a task that needs input has questions, each with method and params."""
    for sighting in gets(history):
        if sighting.status != "input_required":
            continue
        fault = payload_fault(sighting.task)
        asked = input_requests(sighting.task)
        if fault is not None:
            yield bad(fault, sighting)
        elif not asked:
            yield _nothing_asked(sighting)
        for key, question in asked.items():
            wrong = _question_fault(question)
            if wrong is not None:
                yield bad(f"the question {key!r} {wrong}", sighting)
            else:
                yield good(sighting)


def _nothing_asked(sighting: Sighting) -> Observation:
    declared = {} if sighting.exchange is None else capabilities(sighting.exchange)
    if set(declared) >= _KINDS:
        return bad("'input_required', but nothing is asked", sighting)
    return note("'input_required', but nothing of a kind that the poll declared", sighting)


def _question_fault(question: Any) -> str | None:
    if not isinstance(question, dict):
        return "is no object"
    if not isinstance(question.get("method"), str):
        return "has no method"
    if "params" not in question and question["method"] == "roots/list":
        return None  # that has none
    return None if isinstance(question.get("params"), dict) else "has no params"


@check("2026-07-28:get-result-type-complete", needs="a task that is read")
def get_is_complete(history: History) -> Iterator[Observation]:
    """The answer to `tasks/get` has `resultType: "complete"`, whatever the status."""
    for sighting in gets(history):
        kind = sighting.task.get("resultType")
        if kind == "complete":
            yield good(sighting)
        else:
            yield bad(f"the answer to tasks/get has 'resultType' {kind!r}", sighting)


@check("2026-07-28:task-questions-not-mrtr", needs="a task that asks for input")
def get_is_no_round_trip(history: History) -> Iterator[Observation]:
    """A task asks by its status, not by `resultType: "input_required"`."""
    for sighting in gets(history):
        if sighting.task.get("resultType") == "input_required":
            yield bad("the answer to tasks/get has 'resultType' 'input_required'", sighting)
        elif sighting.status == "input_required":
            yield good(sighting)


@check("2026-07-28:inlined-result-type", needs="a task that completes")
def inlined_result_type(history: History) -> Iterator[Observation]:
    """Whether the inlined result has a `resultType` of its own is worth a note, either way."""
    for sighting in details(history):
        result = sighting.task.get("result")
        if sighting.status == "completed" and isinstance(result, dict):
            has = "has a" if "resultType" in result else "has no"
            yield note(f"the result in a completed task {has} 'resultType' of its own", sighting)
            return


@check("2026-07-28:reads-do-not-write", needs="a task that is read twice after its end")
def reading_changes_nothing(history: History) -> Iterator[Observation]:
    """Of a task that is over, two reads with nothing else between them show the same times."""
    for life in sightings.lives(modern(history)):
        others = of_task(history, life, "tasks/cancel", "tasks/update")
        seen = [s for s in life.sightings if s.where == "get" and s.is_terminal]
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
                yield bad(f"{moved[0]!r} changed between two reads", earlier, later)
            else:
                yield good(earlier, later)


@check("2026-07-28:may-rate-limit-polling", needs="polls that are faster than `pollIntervalMs`")
def fast_polls(history: History) -> Iterator[Observation]:
    """Polls that are too fast may be answered or refused."""
    for life in sightings.lives(modern(history)):
        seen = [s for s in life.sightings if s.where in ("create", "get")]
        for get in of_task(history, life, "tasks/get"):
            last = next((s for s in reversed(seen) if s.entry.number < get.request.number), None)
            interval = None if last is None else last.task.get("pollIntervalMs")
            if last is None or not isinstance(interval, int | float) or not get.is_answered:
                continue
            if get.request.at - last.until < interval:
                yield good(last, get)
