"""Many clients that open streams and never read them, beside one that measures latency."""

import socket
import statistics
import time
from pathlib import Path
from typing import Final

import attrs

from tests.wire_faults.clients import Modern, Session
from tests.wire_faults.server_process import TOKEN, Server, eventually, one_token, serving
from tests.wire_faults.wire import Wire

__all__ = ["Measurements", "measure"]

STALL_S: Final = 1.0
CUT_OFF_S: Final = 20.0
"""Bound from the last connection until all slow readers are disconnected."""
MOST_BYTES: Final = 1_000_000
"""Bound for the memory of one slow reader."""
LATENCY_S: Final = 1.0
"""Bound for the 99th percentile of the other client."""


@attrs.frozen
class Measurements:
    """The measurements."""

    readers: int
    grown_bytes: int
    latencies_s: list[float] = attrs.field(repr=False)
    cut_off_s: float
    worst_s: float = attrs.field(init=False)
    p99_s: float = attrs.field(init=False)

    @worst_s.default
    def _worst(self) -> float:
        return max(self.latencies_s)

    @p99_s.default
    def _p99(self) -> float:
        return statistics.quantiles(self.latencies_s, n=100)[98]

    def complaints(self) -> list[str]:
        """Return the exceeded bounds."""
        wrong = []
        if self.grown_bytes > self.readers * MOST_BYTES:
            wrong.append(f"{self.grown_bytes / self.readers:.0f} bytes for each slow reader")
        if self.p99_s > LATENCY_S:
            wrong.append(f"the other client waited {self.p99_s:.3f} s")
        if self.cut_off_s > CUT_OFF_S:
            wrong.append(f"the last slow reader was disconnected after {self.cut_off_s:.1f} s")
        return wrong


def measure(folder: Path, readers: int) -> Measurements:
    """Open streams, a third each: `subscriptions/listen`, a task's events, `tasks/result`."""
    settings = {"stall_s": STALL_S, "keep_alive_s": 1, "waiters_per_task": readers}
    # With a token, so that many sessions can wait for the same task.
    with serving(folder, transport=settings, auth=one_token(folder)) as server:
        modern, session = Modern(server, TOKEN), Session(server, TOKEN)
        other = Modern(server, TOKEN)
        quiet = other.create("hold", gate=str(folder / "quiet"))
        loud = session.create("chatter", gate=str(folder / "gate"))
        with Wire(server.connect()) as wire:
            latencies = [_latency(wire, other, quiet)]
            before = most = server.rss_bytes()
            slow: list[socket.socket] = []
            for number in range(readers):
                slow.append(_reader(server, modern, number % 3, loud))
                latencies.append(_latency(wire, other, quiet))
            began = time.monotonic()
            ports = {connection.getsockname()[1] for connection in slow}

            def are_gone() -> bool:
                nonlocal most
                latencies.append(_latency(wire, other, quiet))
                most = max(most, server.rss_bytes())
                return not ports & server.clients()

            eventually(are_gone, "the slow readers are disconnected", CUT_OFF_S * 2)
            cut_off_s = time.monotonic() - began
        for connection in slow:
            connection.close()
        (folder / "gate").touch()
        eventually(lambda: modern.get_task(loud)["status"] == "completed", "the loud task ends")
        return Measurements(readers, most - before, latencies, cut_off_s)


def _reader(server: Server, modern: Modern, kind: int, loud: str) -> socket.socket:
    connection = server.connect(is_tiny=True)
    if kind == 0:
        listen = {"notifications": {"taskIds": [loud]}}
        connection.sendall(modern.request("subscriptions/listen", listen))
    elif kind == 1:
        connection.sendall(modern.get_bytes(f"/tasks/{loud}/events"))
    else:
        session = Session(server, TOKEN)
        connection.sendall(session.request("tasks/result", {"taskId": loud}))
    return connection


def _latency(wire: Wire, other: Modern, task_id: str) -> float:
    began = time.perf_counter()
    wire.send(other.request("tasks/get", {"taskId": task_id}))
    answer = wire.answer()
    assert "result" in answer.json, answer
    return time.perf_counter() - began
