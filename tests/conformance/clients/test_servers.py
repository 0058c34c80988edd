"""The scripted servers answer any message of a client."""

import asyncio
import json
import time
from random import Random
from typing import Any

import httpx
import pytest

from taskmachine.adapters.conformance.clients.actor import Ids
from taskmachine.adapters.conformance.clients.http import serve_http
from taskmachine.adapters.conformance.clients.mcp_2025_11_25.actor import LegacyActor
from taskmachine.adapters.conformance.clients.mcp_2026_07_28.actor import ModernActor
from taskmachine.adapters.conformance.history import Kind
from taskmachine.adapters.conformance.recorder import Recorder
from tests.conformance.clients.playing import scenario

AT_ONCE = 16
JUNK: list[Any] = [None, 1, "x", [], [1], {}, {"x": None}]
METHODS = (
    *("initialize", "server/discover", "ping", "tools/list", "tools/call", "no/such"),
    *("tasks/get", "tasks/update", "tasks/cancel", "tasks/list"),
    *("notifications/cancelled", "notifications/initialized"),
)


def _bodies() -> list[bytes]:
    bodies = [b"", b"{", b"\xff", b"[]", *(json.dumps(junk).encode() for junk in JUNK)]
    for method in METHODS:
        for junk in JUNK:
            fields = dict.fromkeys(("_meta", "taskId", "cursor", "name", "requestId"), junk)
            message = {"jsonrpc": "2.0", "method": method, "params": fields}
            bodies += [json.dumps(one).encode() for one in (message, {**message, "id": junk})]
        bodies.append(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode())
    return bodies


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_nothing_that_a_client_says_breaks_the_server(revision: str) -> None:
    recorder = Recorder(lambda: time.monotonic() * 1_000)
    shown, ids = scenario(revision, "no_tasks"), Ids(Random(0))
    actor: Any = (
        LegacyActor(shown, recorder, ids)
        if revision == "2025-11-25"
        else ModernActor(shown, recorder, ids, has_lines=False)
    )
    bodies = _bodies()

    async def main() -> set[int]:
        limits, timeout = httpx.Limits(max_connections=AT_ONCE), httpx.Timeout(20, pool=None)
        async with (
            serve_http(actor, recorder) as url,
            httpx.AsyncClient(limits=limits, timeout=timeout) as client,
        ):
            answers = await asyncio.gather(*(client.post(url, content=body) for body in bodies))
            return {answer.status_code for answer in answers}

    statuses = asyncio.run(main())
    assert max(statuses) < 500
    heard = [e for e in recorder.history("2025-11-25", "http", {}).entries if e.kind is Kind.HEARD]
    assert len(heard) == len(bodies)
