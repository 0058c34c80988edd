"""Streamable HTTP in 2026-07-28: valid and invalid headers, streams, disconnecting."""

from collections.abc import Sequence
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import annotations
from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role, ToolCall
from taskmachine.adapters.conformance.wire.caller import Caller
from taskmachine.adapters.conformance.wire.header_values import encode_value, to_base64, to_text

__all__: list[str] = []

META: Final = "io.modelcontextprotocol/"
NEW: Final = ("2026-07-28",)
HTTP: Final = ("http",)
UNKNOWN_VERSION: Final = "1900-01-01"
OLDER: Final = "2025-11-25"
SOON_MS: Final = 2_000.0
A_WHILE_MS: Final = 300.0
MOST_MARKS: Final = 4

_TASKS: Final = (Role.COMPLETES, Role.SLOW, Role.ASKS)


async def _a_task(harness: Harness, caller: Caller) -> str | None:
    call = harness.profile.get(*_TASKS)
    return None if call is None else await caller.create(call)


# --- origins, credentials, versions --------------------------------------------------------------


@probe(revisions=NEW, transports=HTTP)
async def foreign_origin_and_no_credentials(harness: Harness) -> None:
    """Send requests with a foreign `Origin` and without credentials."""
    caller = await harness.caller()
    await caller.request("tools/list", headers={"origin": "https://evil.example"})
    if harness.target.principal(caller.name) is not None:
        await caller.request("tools/list", headers={"authorization": None})


@probe(revisions=NEW, transports=HTTP)
async def other_versions(harness: Harness) -> None:
    """Send versions that differ between header and body, unknown ones, and none."""
    caller = await harness.caller()
    unknown = {f"{META}protocolVersion": UNKNOWN_VERSION}
    header = "mcp-protocol-version"
    await caller.request("tools/list")
    await caller.request("tools/list", headers={header: OLDER})
    await caller.request("tools/list", headers={header: UNKNOWN_VERSION})
    await caller.request("tools/list", meta=unknown)
    await caller.request("tools/list", meta=unknown, headers={header: UNKNOWN_VERSION})
    await caller.request("tools/list", headers={header: None})


@probe(revisions=NEW, transports=HTTP)
async def removed_and_unknown_methods(harness: Harness) -> None:
    """Send methods of the previous revision and an unknown one."""
    caller = await harness.caller()
    for method in ("tasks/list", "tasks/result", "no/such/method"):
        await caller.request(method, {})


# --- headers -------------------------------------------------------------------------------------


@probe(revisions=NEW, transports=HTTP)
async def wrong_method_headers(harness: Harness) -> None:
    """Send a `Mcp-Method` header with another method, in capital letters, or none."""
    caller = await harness.caller()
    for method in ("tools/call", "TOOLS/LIST", None):
        await caller.request("tools/list", headers={"mcp-method": method})
    await caller.request("tools/list")


@probe(revisions=NEW, transports=HTTP)
async def wrong_tool_names_in_headers(harness: Harness) -> None:
    """Send a `Mcp-Name` header with another tool, none, or the right one in Base64."""
    caller = await harness.caller()
    call = harness.profile.get(Role.PLAIN, *_TASKS)
    if call is None:
        return
    for name in (f"not-{call.name}", None, to_base64(call.name)):
        await caller.call(call, headers={"mcp-name": name})
    await caller.call(call)


@probe(revisions=NEW, transports=HTTP)
async def wrong_task_ids_in_headers(harness: Harness) -> None:
    """Send `Mcp-Name` with another task, the right one in Base64, and a wrong `Mcp-Method`."""
    caller = await harness.caller()
    mine, other = await _a_task(harness, caller), await _a_task(harness, caller)
    if mine is None or other is None:
        return
    await caller.get(mine, headers={"mcp-name": other})
    await caller.get(mine, headers={"mcp-name": to_base64(mine)})
    await caller.get(mine)
    await caller.cancel(mine, headers={"mcp-method": "tasks/get"})
    await caller.cancel(mine)
    await caller.cancel(other)


def _marked_calls(history: History) -> list[tuple[ToolCall, str, Sequence[str]]]:
    """Yield calls of tools with annotated parameters, and where each parameter is.

    Only tools that were called successfully before, since other tools may have side effects.
    """
    found: dict[tuple[str, str], tuple[ToolCall, str, Sequence[str]]] = {}
    for exchange in history.calls("tools/call"):
        name, arguments = exchange.params.get("name"), exchange.params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict) or not exchange.fields:
            continue
        for path, header in annotations(history, name).items():
            if _value_at(arguments, path) is not None or (name, header) not in found:
                found[name, header] = (ToolCall(name, arguments), header, path)
    return list(found.values())[:MOST_MARKS]


@probe(revisions=NEW, transports=HTTP)
async def wrong_parameter_headers(harness: Harness) -> None:
    """Send parameter headers that are right, different, invalid, missing or encoded."""
    caller = await harness.caller()
    for call, header, path in _marked_calls(harness.history()):
        value = _value_at(call.arguments, path)
        if value is not None:
            text = to_text(value)
            await caller.call(call, headers={header: encode_value(text)})
            for sent in (f"{text}0", "=?base64?!?=", None, to_base64(text)):
                await caller.call(call, headers={header: sent})
            if isinstance(value, int) and not isinstance(value, bool):
                await caller.call(call, headers={header: f"{text}.0"})
        await _leave_out(harness, caller, call, path)


async def _leave_out(harness: Harness, caller: Caller, call: ToolCall, path: Sequence[str]) -> None:
    """Set the parameter to null or omit it, if the tool allows that."""
    schema = harness.history().tools.get(call.name, {}).get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if len(path) != 1 or not isinstance(properties, dict) or not isinstance(schema, dict):
        return
    field, required = properties.get(path[0]), schema.get("required")
    kinds = field.get("type") if isinstance(field, dict) else None
    rest = {name: value for name, value in call.arguments.items() if name != path[0]}
    if isinstance(kinds, list) and "null" in kinds:
        await caller.call(ToolCall(call.name, {**rest, path[0]: None}))
    if not isinstance(required, list) or path[0] not in required:
        await caller.call(ToolCall(call.name, rest))


def _value_at(arguments: Any, path: Sequence[str]) -> Any:
    for step in path:
        arguments = arguments.get(step) if isinstance(arguments, dict) else None
    return arguments


# --- earlier revisions ---------------------------------------------------------------------------


@probe(revisions=NEW, transports=HTTP)
async def http_of_older_revisions(harness: Harness) -> None:
    """Send GET, DELETE, a session id and `Last-Event-ID`."""
    caller = await harness.caller()
    stream = {"accept": "text/event-stream", "content-type": None}
    for method, more in (
        ("GET", stream),
        ("GET", {**stream, "last-event-id": "1"}),
        ("DELETE", {}),
    ):
        visit = caller.begin(b"", method=method, headers=more)
        await visit.answer(SOON_MS)
        await visit.abandon()
    await caller.request("tools/list", headers={"mcp-session-id": "no-such-session"})
    await caller.request("tools/list", headers={"last-event-id": "1"})
    await caller.request("tools/list")


@probe(revisions=NEW, transports=HTTP)
async def subscribe_with_last_event_id(harness: Harness) -> None:
    """Send `subscriptions/listen` with a `Last-Event-ID`, which has no effect."""
    caller = await harness.caller()
    task_id = await _a_task(harness, caller)
    if task_id is None:
        return
    wanted = {"notifications": {"taskIds": [task_id]}}
    for last in (None, "1"):
        stream = caller.start(
            "subscriptions/listen", wanted, id=f"listen-{last}", headers={"last-event-id": last}
        )
        await _first_message(caller, stream)
        await stream.abandon()
    await caller.cancel(task_id)


async def _first_message(caller: Caller, stream: Any) -> None:
    """Wait until a message arrives or the exchange ends."""
    for _ in range(20):
        if stream.heard() or stream.is_done:
            return
        await caller.pause(SOON_MS / 40)


# --- disconnecting -------------------------------------------------------------------------------


@probe(Role.SLOW, revisions=NEW, transports=HTTP)
async def close_streams(harness: Harness) -> None:
    """Abandon a subscription and an ordinary call while other requests continue."""
    caller = await harness.caller()
    call = harness.profile.calls[Role.SLOW]
    task_id = await caller.create(call)
    if task_id is None:
        return
    wanted = {"notifications": {"taskIds": [task_id]}}
    left = caller.start("subscriptions/listen", wanted, id="left-listen")
    stays = caller.start("subscriptions/listen", wanted, id="other-listen")
    plain = caller.start_call(
        call, as_task=False, id="left-call", meta={"progressToken": "left-call"}
    )
    await _first_message(caller, left)
    await _first_message(caller, stays)
    await left.abandon()
    await plain.abandon()
    await caller.cancel(task_id)
    await caller.until(task_id, within_ms=SOON_MS)
    await caller.pause(A_WHILE_MS)
    await stays.abandon()
    await caller.get(task_id)


@probe(revisions=NEW, transports=HTTP)
async def concurrent_calls_with_progress(harness: Harness) -> None:
    """Make two concurrent ordinary calls with progress tokens."""
    caller = await harness.caller()
    call = _longest_quick_one(harness)
    if call is None:
        return
    calls = [
        caller.start_call(call, as_task=False, meta={"progressToken": f"plain-{n}"})
        for n in range(2)
    ]
    for pending in calls:
        await pending.answer(2 * SOON_MS)
        await pending.abandon()


def _longest_quick_one(harness: Harness) -> ToolCall | None:
    """Return the call that most probably gets a stream as its response, in acceptable time."""
    slow = harness.profile.get(Role.SLOW)
    if slow is not None and slow.takes_ms is not None and slow.takes_ms < 2 * SOON_MS:
        return slow
    return harness.profile.get(Role.REPORTS, Role.COMPLETES, Role.PLAIN)
