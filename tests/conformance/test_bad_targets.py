"""A target that cannot be checked is reported in one line: no hang, no traceback, no process."""

import contextlib
import resource
import shlex
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from taskmachine.adapters.cli.main import main
from taskmachine.adapters.conformance import harness, recorder
from tests.processes import assert_gone

BAD_TARGET: Final = Path(__file__).with_name("bad_target.py")
QUICK: Final = ("--budget", "2s", "--examples", "1")
LONGEST_S: Final = 60.0
SLOW: Final = [pytest.mark.slow, pytest.mark.bugs]
"""The tester waits for its timeouts."""
MEMORY: Final = 1_500_000_000
"""Address space: less than a target sends in a few seconds, more than a tester needs."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "START_MS", 2_500.0)
    monkeypatch.setattr(recorder, "MOST_ENTRIES", 5_000)


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Return the status, the output and the line on stderr."""
    began = time.monotonic()
    status = main(["check", *arguments, *QUICK])
    assert time.monotonic() - began < LONGEST_S
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    return status, told.out, told.err


def command(kind: str, pids: Path) -> str:
    return shlex.join([sys.executable, "-I", "-S", str(BAD_TARGET), kind, str(pids)])


def assert_nobody_is_left(pids: Path) -> None:
    started = [int(line) for line in pids.read_text().split()]
    assert started
    assert_gone(*started)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("dies", "its process ended with status 1: ValueError: there is no configuration"),
        pytest.param("is silent", "it did not answer in time", marks=SLOW),
        pytest.param("has a child", "it did not answer in time", marks=SLOW),
        ("prints", "it wrote 'Welcome!'"),
        pytest.param("prints bytes", "it did not answer in time; it wrote", marks=SLOW),
        ("floods", "it sent more than 5000 messages"),
        ("floods with text", "it sent more than 5000 messages; it wrote 'y'"),
        pytest.param("floods its log", "it did not answer in time", marks=SLOW),
        ("never ends a line", "it wrote a line of more than"),
        pytest.param("closes its output", "it closed its output", marks=SLOW),
        ("is old", "2025-11-25: it supports only 2024-11-05"),
        ("answers with a number", "it supports only unnamed revisions"),
        pytest.param("answers with a list", "it did not answer in time", marks=SLOW),
        ("refuses", r"it answered with error -32000: no\nway"),
        ("is huge", "it wrote a line of more than"),
    ],
)
def test_a_process_that_cannot_be_talked_to(
    kind: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, shown, error = run([command(kind, tmp_path / "pids")], capsys)
    assert (status, shown) == (2, "")
    assert words in error
    assert error.count("\n") == 1
    assert "\x1b" not in error
    assert_nobody_is_left(tmp_path / "pids")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("dies after hello", 1),
        ("floods after hello", 1),
        pytest.param("is silent after hello", 3, marks=SLOW),
    ],
)
def test_a_process_that_begins_well(
    kind: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got, shown, _ = run([command(kind, tmp_path / "pids")], capsys)
    assert got == status, shown
    assert "Tools by role: none; no tool runs as a task" in shown
    assert_nobody_is_left(tmp_path / "pids")


# --- behind a URL ----------------------------------------------------------------------------


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that disconnect."""


@contextlib.contextmanager
def answering(first: bytes, then: bytes = b"", *, keeps_open: bool = False) -> Iterator[str]:
    """Serve the same response to every request: `first`, then `then` without end."""
    over = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline().strip():
                assert line
            self.wfile.write(first)
            while then:
                self.wfile.write(then)
            if keeps_open:
                over.wait()

    with _Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        finally:
            over.set()
            server.shutdown()
            thread.join()


def answer(status: str, kind: str = "text/html", body: bytes = b"", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n{more}\r\n"
    return head.encode() + body


EVENTS = answer("200 OK", "text/event-stream")
EVENT = b'data: {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}}\n\n'


@pytest.mark.parametrize(
    ("first", "then", "words"),
    [
        (answer("200 OK", body=b"<html>Hello</html>"), b"", "HTTP status 200, text/html, <html>He"),
        (answer("404 Not Found", body=b"<html>"), b"", "HTTP status 404"),
        (answer("500 Oops", body=b"Traceback of somebody"), b"", "HTTP status 500"),
        (answer("302 Found", more="location: /elsewhere\r\n"), b"", "status 302, to '/elsewhere'"),
        (answer("200 OK", "application/json"), b"", "no message in it"),
        (answer("200 OK", "application/json", b'{"jsonrpc": '), b"", "it wrote '{\"jsonrpc\":'"),
        (answer("200 OK", "application/json", b'{"a": 1}'), b"", "no message in it"),
        (answer("200 OK", "application/json"), b" " * 65_536, "a response of more than"),
        (EVENTS, EVENT * 100, "it sent more than 5000 messages"),
        (EVENTS, b"data: " + b"x" * 100_000 + b"\n", "HTTP status 200, text/event-stream"),
        (b"HTTP/1.1 200 OK\r\n", b"x-more: " + b"x" * 1_000 + b"\r\n", "cannot connect"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", b"", "cannot connect to the target"),
        (b"", b"", "cannot connect to the target"),
    ],
)
def test_a_url_that_cannot_be_talked_to(
    first: bytes, then: bytes, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(first, then) as url:
        status, shown, error = run([url], capsys)
    assert (status, shown) == (2, "")
    assert words in error
    assert error.count("\n") == 1


def test_a_url_that_never_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(b"", keeps_open=True) as url:
        status, _, error = run([url], capsys)
    assert status == 2
    assert "it did not answer in time" in error


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/mcp", "http://no-such-host.invalid/mcp"])
def test_url_without_a_server_is_reported_in_one_line(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, error = run([url], capsys)
    assert status == 2
    assert error.count("\n") == 1


@pytest.mark.parametrize("kind", ["floods", "never ends a line", "is huge"])
def test_flooding_target_does_not_exhaust_the_memory_of_the_tester(
    kind: str, tmp_path: Path
) -> None:
    """In a process of its own, with the limits of every day."""
    program = str(Path(sys.executable).with_name("taskmachine"))
    ran = subprocess.run(
        [program, "check", command(kind, tmp_path / "pids"), "--budget", "5s"],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    assert ran.returncode == 2
    assert "cannot connect to the target" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert_nobody_is_left(tmp_path / "pids")
