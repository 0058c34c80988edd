"""Checks of task results, compared with plain calls (2026-07-28, tasks extension).

Plain calls are those without the extension. Two of them with equal arguments and equal results show
what the tool returns. If tasks with these arguments consistently return something else, the task
causes the difference.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import declares_tasks
from taskmachine.adapters.conformance.checks.reading.task_rules import task_records
from taskmachine.adapters.conformance.checks.reading.tasks_2026_07_28 import (
    answered,
    call_key,
    detailed_tasks,
    get_results,
    modern,
)
from taskmachine.adapters.conformance.history import Exchange, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note

__all__: list[str] = []

_RESERVED: Final = frozenset({-32002, -32042, *range(-32099, -32019)})
"""Codes that a server must not send itself, so it may replace them in a task."""
_OF_THE_ENVELOPE: Final = frozenset({-32700, -32600, -32601, -32602, -32021, -32022, -32020})


@attrs.frozen
class Comparison:
    """Plain calls and tasks of one tool with the same arguments."""

    plain: list[Exchange] = attrs.field(factory=list)
    ends: list[Sighting] = attrs.field(factory=list)
    """The terminal states of the tasks."""

    @property
    def result(self) -> Any:
        """Return the result of plain calls, if at least two agree; else None."""
        results = [_output(call.result) for call in self.plain]
        is_sure = len(results) > 1 and all(result == results[0] for result in results)
        return results[0] if is_sure else None

    @property
    def code(self) -> Any:
        """Return the error code of all plain calls, or None if they differ."""
        codes = [call.code for call in self.plain]
        is_sure = isinstance(codes[0], int) and all(code == codes[0] for code in codes)
        return codes[0] if is_sure else None


def _output(result: Any) -> Any:
    """Return the tool's result without members that depend on its delivery."""
    if not isinstance(result, dict):
        return None
    given = {name: result.get(name) for name in ("content", "structuredContent")}
    return {**given, "isError": _is_error(result)}


@lru_cache(maxsize=8)
def _comparisons(history: History) -> tuple[Comparison, ...]:
    found: dict[str, Comparison] = {}
    for call in answered(history, "tools/call", declared=False):
        if call.fields.get("resultType", "complete") == "complete":
            found.setdefault(call_key(call), Comparison()).plain.append(call)
    for record in task_records(modern(history)):
        made = modern(history).created.get(record.id)
        end = next((s for s in record.sightings if s.where == "get" and s.is_terminal), None)
        if made is None or end is None:
            continue
        if end.status != "cancelled" and declares_tasks(made):
            found.setdefault(call_key(made), Comparison()).ends.append(end)
    return tuple(
        comparison for comparison in found.values() if comparison.plain and comparison.ends
    )


# --- results -------------------------------------------------------------------------------------


@check(
    "2026-07-28:result-is-underlying",
    needs="a tool that returns the same result each time, with and without a task",
)
def result_is_that_of_the_call(history: History) -> Iterator[Observation]:
    """Check that the result of a completed task is what the call would have returned."""
    for comparison in _comparisons(history):
        results = [_output(s.task.get("result")) for s in comparison.ends]
        expected = comparison.result
        is_steady = all(result == results[0] for result in results)
        if expected is None or not is_steady or not isinstance(results[0], dict):
            continue
        if results[0] == expected:
            yield good(comparison.plain[0], comparison.ends[0])
        elif len(results) > 1:
            words = "the result of the task differs from that of a call without the extension"
            yield bad(words, comparison.plain[0], comparison.ends[0])


@check("2026-07-28:is-error-is-completed", needs="a tool whose result has `isError`")
def is_error_means_completed(history: History) -> Iterator[Observation]:
    """Check that a result with `isError` makes the task `completed` and is preserved."""
    for sighting in detailed_tasks(history):
        if sighting.status == "completed" and _is_error(sighting.task.get("result")):
            yield good(sighting)
    for comparison in _comparisons(history):
        if not all(_is_error(call.result) for call in comparison.plain):
            continue
        for end in comparison.ends:
            if end.status == "failed":
                words = "a task with a result with 'isError' is 'failed', not 'completed'"
                yield bad(words, comparison.plain[0], end)
            elif not _is_error(end.task.get("result")):
                words = "the call without the extension returns 'isError', the task does not"
                yield bad(words, comparison.plain[0], end)


@check("2026-07-28:failed-only-for-jsonrpc-errors", needs="a tool whose result has `isError`")
def failed_is_for_protocol_errors(history: History) -> Iterator[Observation]:
    """Check that a result with `isError` does not make the task `failed`."""
    for sighting in detailed_tasks(history):
        error = sighting.task.get("error")
        data = error.get("data") if isinstance(error, dict) else None
        holders = (sighting.task.get("result"), error, data)
        if sighting.status == "failed" and any(_is_error(holder) for holder in holders):
            yield bad("a task with a result with 'isError' is 'failed', not 'completed'", sighting)
        elif sighting.status == "completed" and _is_error(sighting.task.get("result")):
            yield good(sighting)
    for comparison in _comparisons(history):
        if all(_is_error(call.result) for call in comparison.plain):
            for end in comparison.ends:
                if end.status == "failed":
                    words = "a task with a result with 'isError' is 'failed', not 'completed'"
                    yield bad(words, comparison.plain[0], end)


def _is_error(result: Any) -> bool:
    return isinstance(result, dict) and result.get("isError") is True


# --- errors ---------------------------------------------------------------------------------------


@check("2026-07-28:failed-on-jsonrpc-error", needs="a tool that ends with a JSON-RPC error")
def jsonrpc_error_means_failed(history: History) -> Iterator[Observation]:
    """Check that a JSON-RPC error makes the task `failed`."""
    for sighting in detailed_tasks(history):
        result = sighting.task.get("result")
        if sighting.status == "failed" and isinstance(sighting.task.get("error"), dict):
            yield good(sighting)
        elif sighting.status == "completed" and _looks_like_error(result):
            words = "a task is 'completed' with a JSON-RPC error as its result; it must be 'failed'"
            yield bad(words, sighting)


def _looks_like_error(result: Any) -> bool:
    if not isinstance(result, dict) or "content" in result:
        return False
    error = result.get("error", result)
    is_error = isinstance(error, dict) and isinstance(error.get("code"), int)
    return is_error and isinstance(error.get("message"), str)


@check("2026-07-28:error-is-underlying", needs="a tool that ends with a JSON-RPC error")
def error_is_that_of_the_call(history: History) -> Iterator[Observation]:
    """Check that the error of a failed task is that of the call."""
    for comparison in _comparisons(history):
        for end in comparison.ends:
            error = end.task.get("error")
            if end.status != "failed" or comparison.code is None or not isinstance(error, dict):
                continue
            code = error.get("code")
            if code == comparison.code:
                yield good(comparison.plain[0], end)
            elif comparison.code in _RESERVED or comparison.code not in _OF_THE_ENVELOPE:
                expected = comparison.code
                words = (
                    f"the error code is {expected} without the extension, but {code!r} in the task"
                )
                finding = note if expected in _RESERVED else bad
                yield finding(words, comparison.plain[0], end)


@check("2026-07-28:failed-status-message", needs="a task that fails")
def failed_has_status_message(history: History) -> Iterator[Observation]:
    """Check that a failed task has a status message."""
    for sighting in get_results(history):
        if sighting.status == "failed":
            message = sighting.task.get("statusMessage")
            if isinstance(message, str) and message.strip():
                yield good(sighting)
            else:
                yield bad("a 'failed' task has no 'statusMessage'", sighting)
