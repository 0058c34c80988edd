"""The base protocol of 2025-11-25: ids, notifications, metadata."""

import asyncio
from typing import Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.probes.registry import probe

__all__: list[str] = []

ONLY: Final = ("2025-11-25",)
IDS: Final = (0, -1, 2**53 - 1, "1", "", "two\nlines", "zażółć 任務 🙂")


@probe(revisions=ONLY)
async def many_kinds_of_ids(harness: Harness) -> None:
    """Send concurrent requests with ids of every kind, for results and errors."""
    caller = await harness.caller(fresh=harness.transport == "http")
    await asyncio.gather(*(caller.request("ping", id=id) for id in IDS))
    unknown = {"taskId": "no-such-task"}
    await asyncio.gather(
        *(caller.request("tasks/get", unknown, id=id) for id in ("error", "błąd", 10**9))
    )
    await caller.request("no/such/method")


@probe(revisions=ONLY)
async def one_way_messages(harness: Harness) -> None:
    """Send notifications and responses that require no response, then a request."""
    caller = await harness.caller()
    await caller.notify("notifications/no-such-notification", {"a": 1})
    await caller.notify("notifications/cancelled", {"requestId": "never-sent", "reason": "a test"})
    await caller.notify("notifications/progress", {"progressToken": "never-sent", "progress": 1})
    await caller.send({"jsonrpc": "2.0", "id": "never-asked", "result": {}})
    await caller.request("ping")


@probe(revisions=ONLY, alone=True)
async def malformed_messages(harness: Harness) -> None:
    """Send messages that resemble a notification or a request and are neither."""
    caller = await harness.caller(fresh=True)
    await caller.send({"jsonrpc": "2.0", "method": 5})
    await caller.send({"jsonrpc": "2.0", "id": None, "method": "ping"}, wait_ms=200)
    await caller.request("ping")
    await harness.release(caller)


@probe(revisions=ONLY)
async def unknown_metadata(harness: Harness) -> None:
    """Send unknown `_meta` keys with reserved and other prefixes."""
    caller = await harness.caller()
    keys = {
        "io.modelcontextprotocol/no-such-key": {"a": [1, None]},
        "org.example.taskmachine/a_key-with.all": "x",
        "plain_name": 1,
    }
    for method in ("ping", "tools/list"):
        await caller.request(method)
        await caller.request(method, meta=keys)
