"""Checks of `_meta` and of statelessness between requests (2026-07-28)."""

import re
from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.input_requests import REQUIRED_CAPABILITY
from taskmachine.adapters.conformance.checks.reading.meta import (
    meta_labels,
    meta_names,
    meta_prefixes,
    meta_reserved,
    meta_reversed,
)
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import (
    CAPABILITIES,
    CLIENT_INFO,
    MODERN,
    VERSION,
    capabilities,
    declares_tasks,
    faults,
    is_modern_only,
    is_unrelated_rejection,
    meta,
    modern_calls,
    successful_equivalent,
)
from taskmachine.adapters.conformance.checks.server.mcp_2026_07_28.transports.streams import (
    SUBSCRIPTION,
    is_of_subscriptions,
)
from taskmachine.adapters.conformance.history import TERMINAL, Entry, Exchange, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note

__all__: list[str] = []

check("2026-07-28:meta-prefix-format", needs="a `_meta` key")(meta_prefixes)
check("2026-07-28:meta-label-format", needs="a `_meta` key")(meta_labels)
check("2026-07-28:meta-name-format", needs="a `_meta` key")(meta_names)
check("2026-07-28:meta-prefix-reverse-dns", needs="a `_meta` key")(meta_reversed)
check("2026-07-28:meta-prefix-reserved", needs="a `_meta` key")(meta_reserved)

_MCP: Final = "io.modelcontextprotocol/"
_KNOWN: Final = frozenset(
    {*(VERSION, CAPABILITIES, CLIENT_INFO), *(_MCP + "logLevel", SUBSCRIPTION, _MCP + "serverInfo")}
)
_TASK_METHODS: Final = ("tasks/get", "tasks/update", "tasks/cancel")

# --- keys of a request ------------------------------------------------------------------------


def _is_unknown(key: str) -> bool:
    """Return whether a key has MCP's prefix but is not defined by the specification."""
    return key.startswith(_MCP) and key not in _KNOWN


@check("2026-07-28:meta-no-assumptions", needs="any request")
def unknown_keys_are_tolerated(history: History) -> Iterator[Observation]:
    """Check that an unknown reserved `_meta` key has no effect."""
    for exchange in modern_calls(history):
        unknown = next((key for key in meta(exchange) if _is_unknown(key)), None)
        if unknown is None or faults(history, exchange):
            continue
        if isinstance(exchange.result, dict):
            yield good(exchange)
        elif exchange.error is not None and not is_unrelated_rejection(exchange):
            equivalent = successful_equivalent(history, exchange)
            if equivalent is not None and not any(map(_is_unknown, meta(equivalent))):
                words = f"the target rejected the unknown reserved `_meta` key {unknown!r}"
                yield bad(words, exchange, equivalent)


@check("2026-07-28:meta-name-characters", needs="any request")
def names_may_have_other_characters(history: History) -> Iterator[Observation]:
    """Record keys with hyphens, underscores and dots that were accepted."""
    for exchange in modern_calls(history):
        names = (key.rpartition("/")[2] for key in meta(exchange))
        if isinstance(exchange.result, dict) and any(re.search(r"[-_.]", n) for n in names):
            yield good(exchange)


def _incomplete(history: History) -> Iterator[tuple[Exchange, str]]:
    """Yield requests that only lack a required key, with that key.

    A request without a version may belong to an earlier revision, unless the target supports none.
    """
    for exchange in history.exchanges:
        if faults(history, exchange) != {"meta"} or exchange.method == "initialize":
            continue
        found = meta(exchange)
        if VERSION not in found and is_modern_only(history):
            yield exchange, VERSION
        elif CAPABILITIES not in found and found.get(VERSION) == MODERN:
            yield exchange, CAPABILITIES


@check("2026-07-28:meta-missing-32602", needs="any request")
def missing_keys_are_refused(history: History) -> Iterator[Observation]:
    """Check that a request without a required key is rejected with -32602.

    Where the version is only in the header, -32020 is accepted, too.
    """
    for exchange, missing in _incomplete(history):
        if exchange.code == -32602:
            yield good(exchange)
        elif isinstance(exchange.result, dict):
            yield bad(f"the target accepted a request without {missing!r} in '_meta'", exchange)
        elif exchange.error is not None and not is_unrelated_rejection(exchange):
            is_by_header = missing == VERSION and exchange.code == -32020
            if not is_by_header and successful_equivalent(history, exchange) is not None:
                words = f"a request without {missing!r} got error {exchange.code}, not -32602"
                yield bad(words, exchange)


@check("2026-07-28:meta-missing-400", needs="HTTP")
def missing_keys_get_400(history: History) -> Iterator[Observation]:
    """Check that the rejection has HTTP status 400."""
    for exchange, missing in _incomplete(history):
        if exchange.error is None or not exchange.status or is_unrelated_rejection(exchange):
            continue
        if exchange.status == 400:
            yield good(exchange)
        elif exchange.code == -32602 and successful_equivalent(history, exchange) is not None:
            words = f"a request without {missing!r} got HTTP status {exchange.status}, not 400"
            yield bad(words, exchange)


# --- no state between requests ----------------------------------------------------------------


@check("2026-07-28:no-state-from-earlier-requests", needs="a request without declared capabilities")
def declarations_do_not_persist(history: History) -> Iterator[Observation]:
    """Check that declarations of an earlier request do not apply to the next one."""
    declared: dict[int, Exchange] = {}
    for exchange in modern_calls(history, "tools/call", *_TASK_METHODS):
        line = exchange.request.line
        if declares_tasks(exchange):
            declared.setdefault(line, exchange)
            continue
        if line not in declared or faults(history, exchange) or not exchange.is_answered:
            continue
        is_task = exchange.fields.get("resultType") == "task"
        is_served = exchange.method in _TASK_METHODS and isinstance(exchange.result, dict)
        if is_task or is_served:
            words = f"the target served {exchange.method!r} without the tasks extension"
            yield bad(words, declared[line], exchange)
        else:
            yield good(exchange)


@check("2026-07-28:many-conversations", needs="two tasks on one connection")
def tasks_do_not_disturb_each_other(history: History) -> Iterator[Observation]:
    """Check that each response concerns the requested task, with several tasks on a connection."""
    seen: dict[int, set[str]] = {}
    for exchange in modern_calls(history, "tasks/get"):
        shown = exchange.fields.get("taskId")
        if not isinstance(exchange.task_id, str) or not isinstance(shown, str):
            continue
        known = seen.setdefault(exchange.request.line, set())
        known.add(exchange.task_id)
        if shown != exchange.task_id:
            words = f"a request for the task {exchange.task_id!r} returned the task {shown!r}"
            yield bad(words, exchange)
        elif len(known) > 1:
            yield good(exchange)


@check("2026-07-28:connection-not-required", needs="HTTP, and a task")
def tasks_are_known_on_other_lines(history: History) -> Iterator[Observation]:
    """Check that a task can be read on any connection of its owner.

    Over stdio another connection is another process, which in most targets has its own memory.
    """
    for exchange in modern_calls(history, "tasks/get") if history.transport == "http" else ():
        created = history.created.get(exchange.task_id) if _is_text(exchange.task_id) else None
        if created is None or created.request.line == exchange.request.line:
            continue
        if history.principals.get(created.request.caller) != history.principals.get(
            exchange.request.caller
        ):
            continue
        if isinstance(exchange.result, dict):
            yield good(exchange)
        elif exchange.code == -32602 and not faults(history, exchange):
            later = _later_get(history, exchange, created.request.line)
            if later is not None:
                words = "the target finds a task only on the connection that created it"
                yield bad(words, exchange, later)


def _later_get(history: History, exchange: Exchange, line: int) -> Exchange | None:
    for other in modern_calls(history, "tasks/get"):
        is_later = other.request.number > exchange.request.number
        if is_later and other.request.line == line and other.task_id == exchange.task_id:
            return other if isinstance(other.result, dict) else None
    return None


@check("2026-07-28:state-by-explicit-id", needs="a task")
def tasks_are_named_in_each_request(history: History) -> Iterator[Observation]:
    """Check that a request about a task must name it."""
    for exchange in modern_calls(history, *_TASK_METHODS):
        if faults(history, exchange) - {"mcp-name"} or not declares_tasks(exchange):
            continue
        if "taskId" in exchange.params and isinstance(exchange.result, dict):
            yield good(exchange)
        elif "taskId" not in exchange.params and "taskId" in exchange.fields:
            yield bad(f"the target served {exchange.method!r} without 'taskId'", exchange)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


# --- undeclared capabilities ------------------------------------------------------------------


@check("2026-07-28:undeclared-capability-not-used", needs="a tool that requests input")
def only_declared_kinds_are_asked(history: History) -> Iterator[Observation]:
    """Check that input is only requested with a capability that the request declared.

    Whether this applies to a poll that declares less than the creating call is not specified.
    """
    for exchange in modern_calls(history):
        requests = exchange.fields.get("inputRequests")
        if not isinstance(requests, dict) or not requests:
            continue
        kinds = {
            REQUIRED_CAPABILITY.get(asked["method"])
            for asked in requests.values()
            if isinstance(asked, dict) and _is_text(asked.get("method"))
        } - {None}
        missing = sorted(str(kind) for kind in kinds if kind not in capabilities(exchange))
        created = history.created.get(exchange.task_id) if _is_text(exchange.task_id) else None
        is_poll = exchange.method in _TASK_METHODS
        if not missing:
            yield good(exchange)
        elif is_poll and (created is None or missing[0] in capabilities(created)):
            words = f"the target requests {missing[0]}, which this poll did not declare"
            yield note(words, exchange)
        else:
            words = f"the target requests {missing[0]}, which the request did not declare"
            yield bad(words, exchange)


# --- client and server information ------------------------------------------------------------


@check("2026-07-28:server-info-sent", needs="any result")
def results_name_the_server(history: History) -> Iterator[Observation]:
    """Check that every result has the server's name and version."""
    for exchange in modern_calls(history):
        if not isinstance(exchange.result, dict) or exchange.response is None:
            continue
        info = exchange.response.meta.get(_MCP + "serverInfo")
        named = info if isinstance(info, dict) else {}
        if _is_text(named.get("name")) and _is_text(named.get("version")):
            yield good(exchange)
        else:
            words = f"the result of {exchange.method!r} has no complete 'serverInfo' in '_meta'"
            yield bad(words, exchange)


@check("2026-07-28:info-changes-nothing", needs="any request")
def client_info_changes_nothing(history: History) -> Iterator[Observation]:
    """Check that the client's name does not affect the response."""
    usual = next(
        (meta(e)[CLIENT_INFO] for e in modern_calls(history) if CLIENT_INFO in meta(e)), None
    )
    for exchange in modern_calls(history):
        if meta(exchange).get(CLIENT_INFO) == usual or faults(history, exchange):
            continue
        equivalent = successful_equivalent(history, exchange)
        if equivalent is None or meta(equivalent).get(CLIENT_INFO) != usual:
            continue
        if isinstance(exchange.result, dict):
            is_same = _says_the_same(exchange, equivalent)
            words = "the same request got a different response under another client name"
            yield good(exchange) if is_same else bad(words, exchange, equivalent)
        elif exchange.error is not None and not is_unrelated_rejection(exchange):
            how = (
                "under another client name"
                if CLIENT_INFO in meta(exchange)
                else "without a client name"
            )
            yield bad(f"the target rejected a valid request {how}", exchange, equivalent)


def _says_the_same(one: Exchange, other: Exchange) -> bool:
    """Compare terminal tasks completely, and others by result type only."""
    names = ["resultType"]
    if one.fields.get("status") in tuple(TERMINAL):  # the result type alone is compared otherwise
        names += ["status", "result", "error"]
    return all(one.fields.get(name) == other.fields.get(name) for name in names)


@check("2026-07-28:info-not-for-security", needs="two callers with credentials, and a task")
def client_info_gives_no_access(history: History) -> Iterator[Observation]:
    """Check that the client name of a task's creator does not give access to another principal."""
    for exchange in modern_calls(history, *_TASK_METHODS):
        created = history.created.get(exchange.task_id) if _is_text(exchange.task_id) else None
        if created is None or _who(history, created) == _who(history, exchange):
            continue
        if None in (_who(history, created), _who(history, exchange)):
            continue
        if meta(exchange).get(CLIENT_INFO) != meta(created).get(CLIENT_INFO):
            continue
        if exchange.error is not None:
            yield good(exchange)
        elif isinstance(exchange.result, dict):
            refused = _refused_by_name(history, exchange)
            if refused is not None:
                words = "the client name of a task's creator gave another principal access"
                yield bad(words, refused, exchange)


def _who(history: History, exchange: Exchange) -> str | None:
    return history.principals.get(exchange.request.caller)


def _refused_by_name(history: History, served: Exchange) -> Exchange | None:
    """Return the same request of the same caller under another client name that was rejected."""
    for other in modern_calls(history, served.method):
        is_same = (other.task_id, _who(history, other)) == (served.task_id, _who(history, served))
        is_other_name = meta(other).get(CLIENT_INFO) != meta(served).get(CLIENT_INFO)
        is_refused = other.error is not None and not is_unrelated_rejection(other)
        if is_same and is_other_name and is_refused:
            return other
    return None


# --- notifications ----------------------------------------------------------------------------


@check("2026-07-28:subscription-id-in-meta", needs="'subscriptions/listen'")
def notifications_name_their_subscription(history: History) -> Iterator[Observation]:
    """Check that notifications of a subscription have its id."""
    posts = {e.request.post for e in history.calls("subscriptions/listen")} - {None}
    for entry in history.heard:
        if not entry.is_notification or entry.method == "notifications/cancelled":
            continue
        if entry.post in posts or (entry.post is None and is_of_subscriptions(entry)):
            if SUBSCRIPTION in entry.meta:
                yield good(entry)
            else:
                yield bad(f"{entry.method!r} has no subscription id in '_meta'", entry)


_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
_MEMBER: Final = r"[ \t]*[a-z0-9][-a-z0-9_*/@]*=[\x20-\x2b\x2d-\x3c\x3e-\x7e]*[ \t]*"
_TRACESTATE: Final = re.compile(rf"({_MEMBER})?(,({_MEMBER})?)*")
_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_ITEM: Final = rf"[ \t]*{_TOKEN}[ \t]*=[^,]*"
_BAGGAGE: Final = re.compile(rf"{_ITEM}(,{_ITEM})*")
_FORMATS: Final = {"traceparent": _TRACEPARENT, "tracestate": _TRACESTATE, "baggage": _BAGGAGE}


@check("2026-07-28:trace-context-format", needs="a target that sends trace contexts")
def trace_contexts_have_their_format(history: History) -> Iterator[Observation]:
    """Check that trace context has the W3C format."""
    sent = {repr(e.meta.get(name)) for e in history.entries if _is_sent(e) for name in _FORMATS}
    for entry in history.heard:
        for name, form in _FORMATS.items():
            value = entry.meta.get(name)
            if name not in entry.meta or repr(value) in sent:
                continue
            if isinstance(value, str) and form.fullmatch(value):
                yield good(entry)
            else:
                words = f"{name!r} in '_meta' is {value!r}, which is not in the W3C format"
                yield bad(words, entry)


def _is_sent(entry: Entry) -> bool:
    return entry.kind is Kind.SENT
