"""Checks of the 2025-11-25 lifecycle: initialization, versions, capabilities."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.input_requests import REQUIRED_CAPABILITY
from taskmachine.adapters.conformance.checks.reading.messages import requests_of_the_target
from taskmachine.adapters.conformance.checks.server.mcp_2025_11_25.transports.sessions import (
    is_no_version,
)
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind
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

FIRST_WITH_TASKS: Final = "2025-11-25"
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_SERVED_LATER: Final = ("tools/list", "tools/call", "tasks/get", "tasks/result", "tasks/list")


def _proposed(exchange: Exchange) -> str | None:
    """Return the version that the client proposed."""
    version = exchange.params.get("protocolVersion")
    return version if isinstance(version, str) else None


def _agreed(exchange: Exchange) -> str | None:
    """Return the version in the response of the target."""
    version = exchange.fields.get("protocolVersion")
    return version if isinstance(version, str) else None


def _initializations(history: History) -> dict[int, Exchange]:
    """Return the `initialize` of each connection that sent exactly one."""
    initializations: dict[int, Exchange] = {}
    twice = set()
    for exchange in history.calls("initialize"):
        if exchange.request.line in initializations:
            twice.add(exchange.request.line)
        initializations[exchange.request.line] = exchange
    return {line: initialize for line, initialize in initializations.items() if line not in twice}


# --- initialization ------------------------------------------------------------------------------


@check("2025-11-25:initialize-first", needs="stdio, or a target that assigns sessions")
def nothing_before_initialize(history: History) -> Iterator[Observation]:
    """Check that the target serves no request before `initialize`.

    Over HTTP this is observable only with sessions.
    """
    began: dict[int, float] = {}
    for initialize in history.calls("initialize"):
        began.setdefault(initialize.request.line, initialize.request.number)
    has_sessions = any("mcp-session-id" in e.headers for e in history.calls("initialize"))
    if history.transport == "http" and not has_sessions:
        return
    for exchange in history.calls(*_SERVED_LATER):
        begun = began.get(exchange.request.line, math.inf)
        if "mcp-session-id" in exchange.sent_headers or begun < exchange.request.number:
            continue
        is_early = exchange.response is not None and exchange.response.number < begun
        if isinstance(exchange.result, dict) and is_early:
            yield bad(f"the target served {exchange.method!r} before 'initialize'", exchange)
        elif exchange.error is not None or exchange.status >= 400:
            yield good(exchange)


@check("2025-11-25:initialize-answered")
def initialize_is_answered(history: History) -> Iterator[Observation]:
    """Check that the response has a version, capabilities, and `serverInfo`."""
    for exchange in history.calls("initialize"):
        if not isinstance(exchange.result, dict):
            continue
        missing = [name for name, is_there in _required_members(exchange.fields) if not is_there]
        if missing:
            yield bad(f"the result of 'initialize' lacks {', '.join(missing)}", exchange)
        else:
            yield good(exchange)


def _required_members(fields: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    info = fields.get("serverInfo")
    yield "protocolVersion", isinstance(fields.get("protocolVersion"), str)
    yield "capabilities", isinstance(fields.get("capabilities"), dict)
    yield "serverInfo", isinstance(info, dict)
    if isinstance(info, dict):
        yield "serverInfo.name", isinstance(info.get("name"), str)
        yield "serverInfo.version", isinstance(info.get("version"), str)


@check(
    "2025-11-25:server-waits-for-initialized",
    needs="a client that delays 'notifications/initialized'",
)
def no_requests_before_initialized(history: History) -> Iterator[Observation]:
    """Check that the target sends no request except pings before `notifications/initialized`."""
    for line, initialize in _initializations(history).items():
        initialized_at = _initialized_at(history, line)
        asked = [
            request
            for request in requests_of_the_target(history)
            if request.line == line and request.number < initialized_at and request.method != "ping"
        ]
        if asked:
            words = f"the target sent {asked[0].method!r} before 'notifications/initialized'"
            yield bad(words, initialize, asked[0])
        elif any(
            initialize.request.number < other.request.number < initialized_at and other.is_answered
            for other in history.exchanges
            if other.request.line == line
        ):
            yield good(initialize)


def _initialized_at(history: History, line: int) -> int:
    """Return the number of the entry that sent `initialized`; past the end if there is none."""
    return next(
        (
            entry.number
            for entry in history.entries
            if entry.line == line
            and entry.kind is Kind.SENT
            and entry.method == "notifications/initialized"
        ),
        history.entries[-1].number + 1,
    )


# --- versions ------------------------------------------------------------------------------------


def _accepted(history: History) -> dict[str, Exchange]:
    """Return the proposed versions that the target agreed to."""
    return {
        version: exchange
        for exchange in history.calls("initialize")
        if (version := _agreed(exchange)) is not None
        and version == _proposed(exchange)
        and not is_no_version(version)
    }


@check("2025-11-25:server-same-version")
def supported_versions_come_back(history: History) -> Iterator[Observation]:
    """Check that a proposed version that the target supports is returned."""
    accepted = _accepted(history)
    for exchange in history.calls("initialize"):
        agreed, proposed = _agreed(exchange), _proposed(exchange)
        if agreed is None or proposed is None or proposed not in accepted:
            continue
        if agreed == proposed:
            yield good(exchange)
        else:
            words = f"the target supports the proposed {proposed}, but responded with {agreed}"
            yield bad(words, accepted[proposed], exchange)


def _mismatches(history: History) -> Iterator[Exchange]:
    """Yield proposals of versions that do not exist."""
    for exchange in history.calls("initialize"):
        proposed = _proposed(exchange)
        if proposed is not None and is_no_version(proposed):
            yield exchange


@check("2025-11-25:server-other-version")
def other_versions_are_offered(history: History) -> Iterator[Observation]:
    """Check that the response to an unsupported version names a supported one.

    The page itself shows an error, -32602, for this case.
    """
    for exchange in _mismatches(history):
        proposed, agreed = _proposed(exchange), _agreed(exchange)
        if agreed is not None and agreed == proposed:
            words = f"the target accepted {proposed!r}, which is not a protocol version"
            yield bad(words, exchange)
        elif agreed is not None:
            yield good(exchange)
        elif exchange.code == -32602:
            words = "the target rejected an unsupported version instead of offering another one"
            yield note(words, exchange)
        elif exchange.error is not None and exchange.status in (0, 200, 400):
            words = "the target rejected an unsupported version instead of offering another one"
            yield bad(words, exchange)


@check("2025-11-25:server-version-latest")
def the_latest_version_is_offered(history: History) -> Iterator[Observation]:
    """Check that the version offered instead is the newest that the target accepts."""
    accepted = _accepted(history)
    if not accepted:
        return
    newest = max(accepted)
    for exchange in _mismatches(history):
        agreed = _agreed(exchange)
        if agreed is None or not _DATE.fullmatch(agreed) or agreed == _proposed(exchange):
            continue
        if agreed < newest:
            words = f"the target offered {agreed}, although it supports the newer {newest}"
            yield bad(words, accepted[newest], exchange)
        else:
            yield good(exchange)


@check("2025-11-25:version-respected", needs="a target that also supports an older version")
def older_versions_have_no_tasks(history: History) -> Iterator[Observation]:
    """Check that no task features appear under an older version."""
    for line, initialize in _initializations(history).items():
        agreed = _agreed(initialize)
        if agreed is None or not _DATE.fullmatch(agreed) or agreed >= FIRST_WITH_TASKS:
            continue
        notifications = [
            e for e in history.notifications("notifications/tasks/status") if e.line == line
        ]
        calls = [e for e in history.calls("tools/call") if e.request.line == line]
        made = [e for e in calls if isinstance(e.fields.get("task"), dict)]
        if notifications:
            words = f"the target sent a task status notification under {agreed}"
            yield bad(words, initialize, notifications[0])
        for call in made:
            words = f"a call created a task under {agreed}, which has no tasks"
            is_asked = "task" in call.params
            yield warning(words, initialize, call) if is_asked else bad(words, initialize, call)
        if "tasks" in _capabilities(initialize.fields):
            yield note(f"the target declares 'tasks' under {agreed}", initialize)
        elif not notifications and not made and calls:
            yield good(initialize)


# --- capabilities --------------------------------------------------------------------------------


def _capabilities(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    declared = holder.get("capabilities")
    return declared if isinstance(declared, dict) else {}


def _inner(declared: Any, *names: str) -> Any:
    """Return the member at a path inside a capability; None if a step is missing."""
    for name in names:
        declared = declared.get(name) if isinstance(declared, dict) else None
    return declared


@check("2025-11-25:only-negotiated-capabilities", needs="a tool that can be called")
def only_declared_kinds_are_asked(history: History) -> Iterator[Observation]:
    """Check that the target sends only requests whose capability the client declared."""
    initializations = _initializations(history)
    asked = set()
    for request in requests_of_the_target(history):
        initialize = initializations.get(request.line)
        if initialize is None or request.method is None:
            continue
        asked.add(request.line)
        missing = _undeclared(request, _capabilities(initialize.params))
        if missing is None:
            yield good(request)
        else:
            words = f"the target sent {request.method!r} without the capability {missing!r}"
            yield bad(words, initialize.request, request)
    for call in history.calls("tools/call"):
        initialize = initializations.get(call.request.line)
        declares_nothing = initialize is not None and not _capabilities(initialize.params)
        if declares_nothing and call.is_answered and call.request.line not in asked:
            yield good(call)


def _undeclared(request: Entry, declared: Mapping[str, Any]) -> str | None:
    """Return the capability that a request needs and the client did not declare."""
    method, params = request.method or "", request.params
    needed = REQUIRED_CAPABILITY.get(method)
    if needed is not None and not isinstance(declared.get(needed), dict):
        return needed
    if method == "elicitation/create" and params.get("mode") == "url":
        return None if _inner(declared, "elicitation", "url") is not None else "elicitation.url"
    if method.startswith("tasks/") and not isinstance(declared.get("tasks"), dict):
        return "tasks"
    if "task" in params and needed is not None:
        path = ("tasks", "requests", *method.split("/"))
        return None if _inner(declared, *path) is not None else ".".join(path)
    return None


@check("2025-11-25:negotiation-errors-handled")
def mismatches_are_answered(history: History) -> Iterator[Observation]:
    """Check that the target responds to a version that cannot be negotiated."""
    for exchange in _mismatches(history):
        if exchange.is_answered or exchange.status >= 400:
            yield good(exchange)
        elif exchange.end is not None and exchange.end.kind in (Kind.GAVE_UP, Kind.EXITED):
            words = "the target did not respond to 'initialize' with an unsupported version"
            yield bad(words, exchange)


# --- rules without a check ------------------------------------------------------------------------

cannot_check(
    "The specification lets each target choose its timeouts, which may exceed the duration of a "
    "run.",
    "2025-11-25:request-timeouts",
    "2025-11-25:timeout-sends-cancelled",
    "2025-11-25:timeout-maximum",
    "2025-11-25:timeout-reset-by-progress",
)
cannot_check(
    "A server may shut down in order; an unexpected exit is judged by 'alive'.",
    "2025-11-25:shutdown-by-server",
)
