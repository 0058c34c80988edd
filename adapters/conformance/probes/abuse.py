"""Send invalid messages, and check afterwards that the target still answers."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role
from taskmachine.adapters.conformance.wire.caller import Caller, Pending

__all__: list[str] = []

WRONG_TYPES: Final[tuple[Any, ...]] = (None, True, 1, 1.5, "", [], {}, ["a"], "x" * 10_000)
WRONG_PARAMS: Final[tuple[Any, ...]] = ([], ["a"], "a", 1, True)
STRANGE_TTLS: Final[tuple[Any, ...]] = (-1, 0, 1.5, 2**31, 2**63, 1e308, "1000", None, [], {})
MALFORMED: Final = (
    b"{",
    b"\xff\xfe",
    b"null",
    b"1",
    b'"text"',
    b"[]",
    b"[1]",
    b"{}",
    b'{"jsonrpc": "1.0", "id": 900001, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": 900002}',
    b'{"jsonrpc": "2.0", "id": 900003, "method": 1}',
    b'{"jsonrpc": "2.0", "id": 900004, "method": null, "params": {}}',
    b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": 900005, "result": {}}',
    b'{"jsonrpc": "2.0", "id": 900006, "error": {"code": "x"}}',
    b'{"jsonrpc": "2.0", "method": "notifications/unheard-of"}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 900007}}',
    b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": []}}',
    b'{"jsonrpc": "2.0", "id": 900008, "method": "ping", "params": '
    + b'{"a":' * 200
    + b"1"
    + b"}" * 200
    + b"}",
)
UNKNOWN_METHODS: Final = ("tasks/unheard-of", "unheard/of", "", "tasks/", "rpc.discover")

_FIELDS: Final = {
    "2025-11-25": {
        "tasks/get": "taskId",
        "tasks/result": "taskId",
        "tasks/cancel": "taskId",
        "tasks/list": "cursor",
    },
    "2026-07-28": {"tasks/get": "taskId", "tasks/cancel": "taskId", "tasks/update": "taskId"},
}


async def _all(pending: list[Pending]) -> None:
    """Send all requests concurrently, so that unanswered ones share one time limit."""
    await asyncio.gather(*(one.answer() for one in pending))


@probe(alone=True)
async def malformed_messages(harness: Harness) -> None:
    """Send bytes that are not messages, and messages that are not requests."""
    caller = await harness.caller(fresh=True)
    sent = [caller.begin(body) for body in MALFORMED]
    if harness.transport == "http":  # on stdio most of these get no response
        await _all(sent)
    await _still_answers(harness, caller)


@probe(alone=True)
async def wrong_types(harness: Harness) -> None:
    """Send every field of every task method with every wrong type."""
    caller = await harness.caller(fresh=True)
    await _all([caller.start(method, params) for method, params in _wrong(harness.revision)])
    await _still_answers(harness, caller)


def _wrong(revision: str) -> Iterator[tuple[str, Any]]:
    for method, field in _FIELDS[revision].items():
        for value in WRONG_TYPES:
            yield method, {field: value}
        for params in (None, *WRONG_PARAMS):
            yield method, params
    if revision == "2026-07-28":
        for value in WRONG_TYPES:
            yield "tasks/update", {"taskId": "unknown", "inputResponses": value}
            yield "subscriptions/listen", {"notifications": value}
    for value in WRONG_TYPES:
        yield "tools/call", {"name": value, "arguments": {}}
    for params in (None, *WRONG_PARAMS):
        yield "tools/call", params


@probe(alone=True)
async def unknown_methods(harness: Harness) -> None:
    """Send unknown methods."""
    caller = await harness.caller()
    await _all([caller.start(method, {}) for method in UNKNOWN_METHODS])


@probe(Role.COMPLETES, alone=True)
async def wrong_arguments(harness: Harness) -> None:
    """Call a task-capable tool with arguments of every wrong type."""
    caller = await harness.caller()
    call = harness.profile.calls[Role.COMPLETES]
    task: dict[str, Any] = {"task": {}} if harness.revision == "2025-11-25" else {}
    wrong = [{"name": call.name, "arguments": value, **task} for value in WRONG_TYPES]
    await _all([caller.start("tools/call", params) for params in wrong])


@probe(Role.COMPLETES, revisions=("2025-11-25",), alone=True)
async def invalid_ttls(harness: Harness) -> None:
    """Request negative, huge and non-numeric ttls, and send a `task` that is not an object."""
    caller = await harness.caller()
    params = harness.profile.calls[Role.COMPLETES].params
    tasks = [{"ttl": ttl} for ttl in STRANGE_TTLS] + [1, "now", [], True]
    await _all([caller.start("tools/call", {**params, "task": task}) for task in tasks])


async def _still_answers(harness: Harness, caller: Caller) -> None:
    method = "ping" if harness.revision == "2025-11-25" else "server/discover"
    if caller.closed_reason is None:
        await caller.request(method)
        await harness.release(caller)
