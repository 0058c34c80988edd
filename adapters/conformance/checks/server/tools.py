"""Checks of tools: lists, rejected calls, and results."""

from collections.abc import Iterator
from typing import Any

from taskmachine.adapters.conformance.checks.reading.outcomes import (
    outcome_of_call,
    results_of_tools,
    sightings_of,
)
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import capabilities
from taskmachine.adapters.conformance.checks.reading.schemas import certain_fault, fault
from taskmachine.adapters.conformance.history import MISSING, Exchange, History
from taskmachine.adapters.conformance.judging import (
    Observation,
    bad,
    cannot_check,
    check,
    good,
    note,
    warning,
)

__all__: list[str] = []


# --- lists ------------------------------------------------------------------------------------


@check("2025-11-25:tools-capability", "2026-07-28:tools-capability", needs="a tool that works")
def capability(history: History) -> Iterator[Observation]:
    """Check that a target with tools declares the capability."""
    works = {
        exchange.request.line: exchange
        for exchange in history.calls("tools/call", "tools/list")
        if exchange.fields and exchange.fields.get("tools") != []
    }
    for initialize in history.calls("initialize", "server/discover"):
        used = works.get(initialize.request.line)
        declared = initialize.fields.get("capabilities")
        if used is None or not initialize.fields:
            continue
        if isinstance(declared, dict) and isinstance(declared.get("tools"), dict):
            yield good(initialize)
        else:
            words = "the target has tools, but does not declare the `tools` capability"
            yield bad(words, initialize, used)


@check("2026-07-28:tools-list-answered")
def list_answered(history: History) -> Iterator[Observation]:
    """Check that a target that declares tools lists them."""
    declared = {line for line, can in history.capabilities.items() if "tools" in can}
    for exchange in history.calls("tools/list"):
        if exchange.request.line not in declared or not exchange.is_answered:
            continue
        if exchange.code == -32601:
            yield bad("the target declares `tools`, but does not implement `tools/list`", exchange)
        elif exchange.error is None:
            is_list = isinstance(exchange.fields.get("tools"), list)
            if is_list:
                yield good(exchange)
            else:
                yield bad("the result of `tools/list` has no array `tools`", exchange)


@check("2026-07-28:tools-list-not-per-connection", needs="a list of tools that fits on one page")
def list_not_per_connection(history: History) -> Iterator[Observation]:
    """Check that all connections list the same tools.

    Tools may be added and removed. A difference counts only if the first connection lists the same
    tools before and after the other connection was asked.
    """
    seen: dict[Any, list[tuple[frozenset[str], Exchange]]] = {}
    for exchange in history.calls("tools/list"):
        names = _whole_list(exchange)
        if names is not None:
            principal = history.principals.get(exchange.request.caller)
            key = (principal, repr(capabilities(exchange)))
            seen.setdefault(key, []).append((names, exchange))
    for lists in seen.values():
        yield from _compare(lists)


def _whole_list(exchange: Exchange) -> frozenset[str] | None:
    tools = exchange.fields.get("tools")
    is_page = "cursor" in exchange.params or exchange.fields.get("nextCursor") is not None
    if is_page or not isinstance(tools, list):
        return None
    return frozenset(str(tool.get("name")) for tool in tools if isinstance(tool, dict))


def _compare(lists: list[tuple[frozenset[str], Exchange]]) -> Iterator[Observation]:
    first: dict[tuple[int, frozenset[str]], Exchange] = {}
    for position, (names, exchange) in enumerate(lists):
        line = exchange.request.line
        before = first.setdefault((line, names), exchange)
        for others, other in lists[:position]:
            if other.request.line == line or not _is_between(before, other, exchange):
                continue
            if others == names:
                yield good(other, exchange)
            else:
                words = "the result of `tools/list` depends on the connection"
                yield bad(words, before, other, exchange)
                return
    if len({names for names, _ in lists}) > 1:
        yield note("the result of `tools/list` changed during the run", lists[0][1], lists[-1][1])


def _is_between(one: Exchange, other: Exchange, third: Exchange) -> bool:
    """Return whether the requests were sequential; False if the first and the last are the same."""
    if one is third:
        return False
    ended, begun = one.response, other.request
    later = other.response
    return (
        ended is not None
        and later is not None
        and ended.number < begun.number
        and later.number < third.request.number
    )


# --- rejected calls ---------------------------------------------------------------------------


@check("2025-11-25:tool-protocol-errors", "2026-07-28:tool-protocol-errors")
def protocol_errors(history: History) -> Iterator[Observation]:
    """Check that a call of an unknown tool, or without a name, gets a JSON-RPC error.

    Many targets return a result with `isError` instead, which is only noted.
    """
    lists = (exchange.fields for exchange in history.calls("tools/list"))
    if not any("tools" in fields and fields.get("nextCursor") is None for fields in lists):
        return  # the complete list is unknown
    for call in history.calls("tools/call"):
        name = call.params.get("name", MISSING)
        if isinstance(name, str) and name in history.tools:
            continue
        outcome = outcome_of_call(history, call)
        what = "a tool that is not listed" if isinstance(name, str) else "a tool without a name"
        if outcome is None:
            continue
        if outcome.kind == "error":
            yield good(call)
        elif outcome.kind == "tool error":
            words = f"a call of {what} returned a result with `isError` instead of a JSON-RPC error"
            yield note(words, call, outcome.where)
        else:
            yield bad(f"a call of {what} succeeded", call, outcome.where)


@check(
    "2025-11-25:tool-execution-errors",
    "2026-07-28:tool-execution-errors",
    needs="a tool that fails",
)
def execution_errors(history: History) -> Iterator[Observation]:
    """Check that a failed tool returns a result with `isError`."""
    for _, outcome in results_of_tools(history):
        if outcome.kind == "tool error":
            yield good(outcome.where)
    for exchange in history.calls("tasks/result"):
        task_id = exchange.task_id
        if not exchange.fields or not isinstance(task_id, str):
            continue
        failed = [
            s for s in sightings_of(history, task_id, exchange.request) if s.status == "failed"
        ]
        if failed and exchange.fields.get("isError") is not True:
            yield bad("a failed task has a result without `isError`", failed[0], exchange)
    for sighting in history.sightings:
        result = sighting.task.get("result")
        if sighting.status == "failed" and isinstance(result, dict):
            yield bad("a task with a result is 'failed' instead of 'completed'", sighting)


@check(
    "2025-11-25:tool-input-validated",
    "2026-07-28:tool-input-validated",
    needs="a tool with a required argument",
)
def input_validated(history: History) -> Iterator[Observation]:
    """Check that a call with arguments that violate the tool's schema does not succeed."""
    for call in history.calls("tools/call"):
        name, arguments = call.params.get("name"), call.params.get("arguments", {})
        tool = history.tools.get(name) if isinstance(name, str) else None
        if tool is None or not isinstance(arguments, dict):
            continue
        wrong = certain_fault(tool.get("inputSchema"), arguments)
        outcome = None if wrong is None else outcome_of_call(history, call)
        if outcome is None:
            continue
        if outcome.kind == "success":
            words = f"a call succeeded although its arguments violate the `inputSchema`: {wrong}"
            yield bad(words, call, outcome.where)
        else:
            yield good(call, outcome.where)


@check(
    "2025-11-25:tool-access-controlled",
    "2026-07-28:tool-access-controlled",
    needs="HTTP and a token",
)
def access_controlled(history: History) -> Iterator[Observation]:
    """Check that a call without credentials is rejected.

    It is only a warning, since some tools may be public.
    """
    for call in history.calls("tools/call"):
        principal = history.principals.get(call.request.caller)
        if principal is None or call.sent_headers.get("authorization") == principal:
            continue
        if call.status in (401, 403) or call.error is not None:
            yield good(call)
        elif call.fields:
            yield warning("the target allows a tool call without credentials", call)


# --- results ----------------------------------------------------------------------------------


@check(
    "2025-11-25:structured-result-conforms",
    "2026-07-28:structured-result-conforms",
    needs="a tool with an output schema",
)
def structured_result_conforms(history: History) -> Iterator[Observation]:
    """Check that the result of a tool with an output schema has conforming structured content."""
    for name, outcome in results_of_tools(history):
        tool = history.tools.get(name)
        schema = None if tool is None else tool.get("outputSchema")
        if not isinstance(schema, dict) or outcome.kind != "success":
            continue
        if "content" not in outcome.result:
            continue  # not the result of a tool, which another check reports
        if "structuredContent" not in outcome.result:
            words = "the tool has an `outputSchema`, but its result has no `structuredContent`"
            yield bad(words, outcome.where)
            continue
        wrong = fault(schema, outcome.result["structuredContent"])
        if wrong is None:
            yield good(outcome.where)
        else:
            words = f"`structuredContent` does not conform to the `outputSchema`: {wrong}"
            yield bad(words, outcome.where)


cannot_check(
    "The specification sets no limit; a target that accepts a burst may have a higher one.",
    "2025-11-25:tool-calls-rate-limited",
    "2026-07-28:tool-calls-rate-limited",
)
