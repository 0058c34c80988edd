"""Tool lists and invalid calls."""

from collections.abc import Iterator, Mapping
from typing import Any

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role, ToolCall

__all__: list[str] = []

NONSENSE = "no-such-tool-anywhere"


@probe(revisions=("2026-07-28",))
async def list_on_two_connections(harness: Harness) -> None:
    """List the tools on two connections in turn."""
    here, there = await harness.caller(), await harness.caller(fresh=True)
    for caller in (here, there, here, there):
        await caller.request("tools/list")
    await harness.release(there)


@probe()
async def unknown_tools(harness: Harness) -> None:
    """Call an unknown tool, with and without a task."""
    caller = await harness.caller()
    for as_task in (True, False):
        call = ToolCall(NONSENSE)
        task_id = await caller.create(call, as_task=as_task)
        if task_id is not None:
            await caller.until(task_id, within_ms=3_000)


@probe()
async def wrong_arguments(harness: Harness) -> None:
    """Call tools without required arguments, and with objects instead of numbers and strings."""
    caller = await harness.caller()
    tools = harness.history().tools
    known = {call.name: call for call in harness.profile.calls.values()}
    for call in known.values():
        tool = tools.get(call.name)
        for arguments in _wrong(call, tool.get("inputSchema") if tool else None):
            task_id = await caller.create(ToolCall(call.name, arguments))
            if task_id is not None and await caller.until(task_id, within_ms=1_000):
                if harness.revision == "2025-11-25":
                    await caller.request("tasks/result", {"taskId": task_id}, wait_ms=1_000)
            elif task_id is not None:
                await caller.cancel(task_id)


def _wrong(call: ToolCall, schema: Any) -> Iterator[Mapping[str, Any]]:
    """Return at most two invalid sets of arguments."""
    schema = schema if isinstance(schema, dict) else {}
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and required:
        yield {name: value for name, value in call.arguments.items() if name not in required}
    for name, field in properties.items() if isinstance(properties, dict) else ():
        kind = field.get("type") if isinstance(field, dict) else None
        if kind in ("string", "number", "integer", "boolean"):
            yield {**call.arguments, name: {"not": "that simple"}}
            return


@probe(transports=("http",))
async def call_without_credentials(harness: Harness) -> None:
    """Call without credentials, and with invalid ones."""
    call = harness.profile.get(Role.PLAIN, Role.COMPLETES)
    if call is None or harness.target.principal("A") is None:
        return
    caller = await harness.caller()
    for credentials in (None, "Bearer no-such-token"):
        await caller.call(call, as_task=False, headers={"authorization": credentials})


@probe(revisions=("2025-11-25",), alone=True)
async def cursors(harness: Harness) -> None:
    """Send invalid cursors to every list, and each valid cursor twice."""
    caller = await harness.caller()
    quick = harness.profile.get(Role.COMPLETES)
    for _ in range(3 if quick is not None else 0):
        assert quick is not None
        await caller.create(quick)
    for method in ("tools/list", "tasks/list"):
        await caller.request(method, {"cursor": "never-given-out"})
        cursor = (await caller.request(method)).fields.get("nextCursor")
        if isinstance(cursor, str):
            for _ in range(2):
                await caller.request(method, {"cursor": cursor})
    await caller.request("tools/list")
