"""Sends malformed input to a server and checks the responses."""

import json
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import attrs

from tests.oracle import REPOSITORY
from tests.wire_faults.clients import Session
from tests.wire_faults.garbage import Garbage, Sent
from tests.wire_faults.server_process import (
    PATIENCE_S,
    TOOLS,
    Server,
    program,
    rss_bytes,
    serving,
)
from tests.wire_faults.wire import Wire

__all__ = ["Report", "abuse_http", "abuse_stdio"]

WORKERS: Final = 6
SHORT_S: Final = 0.2
"""Timeout of unfinished requests; other tests cover those."""


@attrs.define
class Report:
    """The responses, violations and memory figures."""

    requests: int
    statuses: Counter[str] = attrs.field(factory=Counter)
    wrong: list[str] = attrs.field(factory=list)
    warm_bytes: int = 0
    end_bytes: int = 0
    took_s: float = 0.0

    @property
    def growth(self) -> float:
        """Growth of the memory after the first quarter."""
        return self.end_bytes / self.warm_bytes - 1


def abuse_http(folder: Path, requests: int, seed: int = 1) -> Report:
    """Send that many requests over concurrent connections."""
    transport = {"header_s": SHORT_S, "body_s": SHORT_S, "sessions": 50, "body_bytes": 200_000}
    report, began = Report(requests), time.monotonic()
    with serving(folder, transport=transport) as server:
        session = Session(server)
        _send_all(server, session, requests // 4, seed, report)
        report.warm_bytes = server.rss_bytes()
        _send_all(server, session, requests - requests // 4, seed + WORKERS, report)
        report.end_bytes = server.rss_bytes()
        if session.ask("ping") != {"jsonrpc": "2.0", "id": session.last_id, "result": {}}:
            report.wrong.append("the session does not work any more")
    report.took_s = time.monotonic() - began
    return report


def _send_all(server: Server, session: Session, requests: int, seed: int, report: Report) -> None:
    session_id = session.headers["MCP-Session-Id"]
    with ThreadPoolExecutor(WORKERS) as pool:
        jobs = [
            pool.submit(_worker, server, Garbage(seed + n, session_id), requests // WORKERS)
            for n in range(WORKERS)
        ]
        for job in jobs:
            statuses, wrong = job.result()
            report.statuses += statuses
            report.wrong += wrong


def _worker(server: Server, garbage: Garbage, requests: int) -> tuple[Counter[str], list[str]]:
    statuses, wrong = Counter[str](), list[str]()
    wire: Wire | None = None
    for _ in range(requests):
        sent = garbage.request()
        if wire is None or not sent.is_http:
            if wire is not None:
                wire.close()
            wire = Wire(server.connect())
        try:
            status, complaint, stays_open = _judge(wire, sent)
        except (ConnectionError, EOFError) as error:
            status, stays_open = type(error).__name__, False
            complaint = "no answer" if sent.is_http else ""
        except (ValueError, AssertionError, KeyError, TimeoutError) as error:
            status, complaint, stays_open = "malformed", f"{error!r:.300}", False
        statuses[status] += 1
        if complaint:
            wrong.append(f"{complaint} to {sent.data[:600]!r}")
        if not stays_open:
            wire.close()
            wire = None
    if wire is not None:
        wire.close()
    return statuses, wrong


def _judge(wire: Wire, sent: Sent) -> tuple[str, str, bool]:
    """Send a request; return the status, the violation, and whether the connection stays open."""
    wire.send(sent.data)
    status, headers = wire.head()
    if "x-injected" in headers:
        return str(status), "a header was injected", False
    if headers.get("content-type", "").startswith("text/event-stream"):
        return f"{status} stream", "", False
    if not sent.is_http and headers.get("content-type", "").startswith("text/plain"):
        return f"{status} not HTTP", "" if status in (400, 503) else "a plain text response", False
    if sent.data.startswith(b"HEAD"):
        return str(status), "", False
    body = wire.body(status, headers)
    stays_open = sent.is_http and headers.get("connection") != "close"
    if b"Traceback" in body or b'File "' in body:
        return str(status), f"a traceback: {body[:500]!r}", stays_open
    if status in (202, 204, 304) and not body:
        return str(status), "", stays_open
    value: Any = json.loads(body)
    if status >= 500 and status != 503:
        return str(status), f"an internal error: {body[:300]!r}", stays_open
    if status >= 400 and not _explains(value):
        return str(status), f"no reason: {body[:300]!r}", stays_open
    return str(status), "", stays_open


def _explains(value: Any) -> bool:
    error = value.get("error")
    return isinstance(error, dict) and bool(error.get("code")) and len(error["message"]) > 10


# --- standard input and output ----------------------------------------------------------------


def abuse_stdio(folder: Path, lines: int, seed: int = 1) -> Report:
    """Send that many lines, with a valid ping now and then that must be answered."""
    report, began = Report(lines), time.monotonic()
    command = program("--stdio", "--store", f"sqlite:{folder / 'tasks.db'}", "--tools", TOOLS)
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
    )
    output = _Output(process.stdout)
    logged = _Output(process.stderr)
    garbage = Garbage(seed)
    assert process.stdin is not None
    try:
        for number in range(lines):
            line = garbage.message() if number % 1_000 else b" " * (4 * 2**20 + 10)
            process.stdin.write(line.replace(b"\n", b" ") + b"\n")
            if number % 50 == 49 or number == lines - 1:
                ping = {"jsonrpc": "2.0", "id": f"ping {number}", "method": "ping"}
                process.stdin.write(json.dumps(ping).encode() + b"\n")
                process.stdin.flush()
                if not output.wait_for(f'"ping {number}"'.encode()):
                    report.wrong.append(f"no answer after {number} lines: {logged.lines[-5:]}")
                    break
            if number == lines // 4:
                report.warm_bytes = rss_bytes(process.pid)
        report.end_bytes = rss_bytes(process.pid)
        if process.poll() is not None:
            report.wrong.append(f"the process ended: {logged.lines[-5:]}")
    finally:
        process.stdin.close()
        process.wait(PATIENCE_S)
        output.close()
        logged.close()
    for line in output.lines:
        status, complaint = _judge_line(line)
        report.statuses[status] += 1
        if complaint:
            report.wrong.append(complaint)
    report.wrong += [f"a traceback: {line!r}" for line in logged.lines if b"Traceback" in line]
    report.took_s = time.monotonic() - began
    return report


def _judge_line(line: bytes) -> tuple[str, str]:
    if b"Traceback" in line:
        return "traceback", f"a traceback: {line[:300]!r}"
    try:
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if "error" in message:
            assert _explains(message)
            return str(message["error"]["code"]), ""
        assert "result" in message or "method" in message
        return "result" if "result" in message else "notification", ""
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        return "malformed", f"{error!r}: {line[:300]!r}"


class _Output:
    """The lines that a process writes."""

    def __init__(self, stream: Any) -> None:
        self.lines: list[bytes] = []
        self._stream = stream
        self._more = threading.Condition()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def wait_for(self, text: bytes) -> bool:
        """Wait for a line with this text among the latest ones; return False after a bound."""

        def is_there() -> bool:
            return any(text in line for line in self.lines[-200:])

        with self._more:
            return self._more.wait_for(is_there, PATIENCE_S)

    def close(self) -> None:
        self._thread.join()
        self._stream.close()

    def _read(self) -> None:
        for line in self._stream:
            with self._more:
                self.lines.append(line)
                self._more.notify_all()
