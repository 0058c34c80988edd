"""A disk that is full for a while, with work under way."""

import time
from pathlib import Path

from tests.wire_faults.clients import Modern
from tests.wire_faults.server_process import eventually, serving

__all__ = ["outage"]


def outage(folder: Path, seconds: float) -> list[str]:
    """What went wrong while nothing could be written for so long, and after it."""
    wrong = []
    gates = [folder / f"gate {number}" for number in range(10)]
    with serving(folder) as server:
        modern = Modern(server)
        ids = [modern.create("hold", gate=str(gate)) for gate in gates]
        for gate in gates:
            eventually(lambda gate=gate: Path(f"{gate}.runs").exists(), "the tool runs")
        server.limit_files(0)
        until = time.monotonic() + seconds
        for gate in gates:
            gate.touch()
        while time.monotonic() < until and server.is_alive:
            response = modern.ask("tools/call", {"name": "hold", "arguments": {"gate": "/"}})
            if response.get("error", {}).get("code") != -32603:
                wrong.append(f"something was created: {response}")
            time.sleep(0.2)
        if not server.is_alive:
            return [*wrong, f"the server gave up: {server.log[-1]}"]
        server.limit_files(-1)
        for task_id in ids:
            eventually(lambda id=task_id: modern.look(id)["status"] == "completed", "it ends")
        if server.tracebacks():
            wrong.append(f"a traceback: {server.tracebacks()[0][:500]}")
    return wrong
