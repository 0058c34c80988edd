"""A disk that is full for a while, with running tasks."""

import time
from functools import partial
from pathlib import Path

from tests.wire_faults.clients import Modern
from tests.wire_faults.server_process import TOOLS, Server, eventually

__all__ = ["outage"]


def outage(folder: Path, seconds: float) -> list[str]:
    """Fail all writes for that long; return the violations during and after the outage."""
    wrong = []
    gates = [folder / f"gate {number}" for number in range(10)]
    server = Server(folder, TOOLS, {})
    server.start()
    try:
        modern = Modern(server)
        ids = [modern.create("hold", gate=str(gate)) for gate in gates]
        for gate in gates:
            eventually(Path(f"{gate}.runs").exists, "the tool runs")
        server.limit_files(0)
        until = time.monotonic() + seconds
        for gate in gates:
            gate.touch()
        while time.monotonic() < until and server.is_alive:
            wrong += _try_to_create(modern)
            time.sleep(0.2)
        if not server.is_alive:
            return [*wrong, f"the server exited: {server.log[-1]}"]
        server.limit_files(-1)
        for task_id in ids:
            ended = partial(_has_ended, modern, task_id)
            eventually(ended, "the tasks that ended during the outage complete")
    finally:
        server.kill()
    return [*wrong, *(f"a traceback: {found[:500]}" for found in server.tracebacks())]


def _try_to_create(modern: Modern) -> list[str]:
    try:
        response = modern.ask("tools/call", {"name": "hold", "arguments": {"gate": "/"}})
    except (OSError, EOFError) as error:
        return [f"the server does not answer: {error}"]
    code = response.get("error", {}).get("code")
    return [] if code == -32603 else [f"a create did not fail: {response}"]


def _has_ended(modern: Modern, task_id: str) -> bool:
    return bool(modern.get_task(task_id)["status"] == "completed")
