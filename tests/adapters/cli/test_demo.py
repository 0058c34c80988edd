"""`taskmachine demo` passes its own checks, and leaves nothing behind."""

import asyncio
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Final

import pytest

from taskmachine.adapters.cli.demo.server import STORE, Server
from taskmachine.adapters.cli.demo.tap import Passed
from taskmachine.adapters.cli.demo.wire import in_words
from taskmachine.statemachine import ConfigurationError

COMMAND: Final = [str(Path(sys.executable).with_name("taskmachine")), "demo"]
WIDTH: Final = 100
LONGEST_S: Final = 20


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with its own temporary folder and misleading settings."""
    folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    odd = {"TASKMACHINE_PATH": "/elsewhere", "HTTP_PROXY": "http://127.0.0.1:1"}
    return {**kept, **odd, "TMPDIR": str(folder), "TERM": "xterm", "LANG": "C.UTF-8"}


def assert_nothing_is_left(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Check that no process of its group and no file remains."""
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert list(folder.iterdir()) == []


# --- the whole -------------------------------------------------------------------------------

HEADINGS: Final = (
    "1  A call becomes a task: the client decides in 2025-11-25, the server in 2026-07-28.",
    "2  A tool asks a person: by a request from the server, or by a question inside the task.",
    "3  A task is cancelled: tasks/cancel returns the task, or an empty result.",
    "4  A tool fails: reported as failed, or as completed with isError.",
    "5  The server is killed during both tasks and restarted: the tasks continue.",
    "6  The store keeps the history of every task.",
)

ROWS: Final = (
    ("→ initialize ← 2025-11-25", "→ server/discover ← 2026-07-28"),
    ("→ tools/call count, task: {} ← task", "→ tools/call count ← resultType: task"),
    ("→ tasks/result ← result", "→ subscriptions/listen"),
    ('← elicitation/create "Deploy 2.0?" → accept', "→ tasks/update confirm ← {}"),
    ("→ tasks/cancel ← cancelled", "→ tasks/cancel ← {}"),
    ("→ tasks/result ← result + isError", "completed + isError"),
    ("working → failed", "working → completed"),
    ("= 2.0 is deployed to test.", "= 2.0 is deployed to test."),
)
"""Check the methods that each revision uses."""


def test_demo_without_a_terminal_prints_everything_in_plain_lines(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    began = time.monotonic()
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(folder), start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=3 * LONGEST_S)
    finally:
        process.kill()
        process.wait()
    assert time.monotonic() - began < LONGEST_S
    text = out.decode()
    assert (process.returncode, err) == (0, b""), text
    assert_nothing_is_left(process, folder)
    assert "\x1b" not in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert [line for line in lines if re.match(r"\d  [A-Z]", line)] == list(HEADINGS)
    for left, right in ROWS:
        assert any(line.strip().startswith(left) for line in lines), left
        assert any(line.strip().endswith(right) for line in lines), right
    assert_it_survived(text)


def assert_it_survived(text: str) -> None:
    """Check that another process continued both tasks and nothing else was repeated."""
    begun = re.search(r"Process (\d+) is listening", text)
    assert begun is not None
    assert f"$ kill -9 {begun[1]}\n" in text
    found = re.search(r"Process (\d+) has recovered both tasks", text)
    assert found is not None
    assert found[1] != begun[1]
    assert text.count(' = {"counted":12}') == 2
    killed = text[text.index(HEADINGS[4]) : text.index(HEADINGS[5])]
    assert killed.count("→ tasks/get ← ") >= 2, "both ask again after the restart"
    histories = re.findall(
        r"^   (\w+) +(20[\d-]+) +(\w+) +(\w+) +(submit .*\w)", text, re.MULTILINE
    )
    ends = {"count": "completed", "deploy": "completed", "fail": "completed"}
    assert len(histories) == 10
    for number, (tool, revision, wire, store, events) in enumerate(histories):
        is_cancelled = number in (4, 5)
        assert store == ("cancelled" if is_cancelled else ends[tool])
        assert wire == ("failed" if (tool, revision) == ("fail", "2025-11-25") else store)
        assert ("requeue" in events) == (tool == "deploy" or number >= 8)
        assert events.endswith("cancel" if is_cancelled else "complete")
    assert re.search(
        r"^ +\d+  \S+ \S+  requeue +working +submitted +The worker", text, re.MULTILINE
    )


# --- a person --------------------------------------------------------------------------------


class Terminal:
    """A user at a terminal of a hundred columns."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
        self.seen = ""
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", 'exec "$0" "$@" 0<>"$TTY" 1>&0 2>&0', *COMMAND],
            env={**environment(folder), "TTY": os.ttyname(theirs)},
            start_new_session=True,  # makes the terminal its own: Ctrl-C works
        )
        self._theirs = theirs

    def until(self, words: str) -> None:
        deadline = time.monotonic() + 2 * LONGEST_S
        while words not in self.seen:
            assert time.monotonic() < deadline, self.seen
            assert self.process.poll() is None or self._is_more(), self.seen
            if self._is_more(1):
                self.seen += os.read(self._ours, 65_536).decode(errors="replace")

    def _is_more(self, timeout: float = 0) -> bool:
        return bool(select.select([self._ours], [], [], timeout)[0])

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> int:
        try:
            return self.process.wait(LONGEST_S)
        finally:
            self.process.kill()
            self.process.wait()
            while self._is_more():
                self.seen += os.read(self._ours, 65_536).decode(errors="replace")
            os.close(self._theirs)
            os.close(self._ours)


def test_a_person_is_asked_and_may_leave_at_any_time(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    person = Terminal(folder)
    try:
        person.until("Deploy it (yes | no")
        person.type("perhaps\n")
        person.until("it must be yes or no")
        person.type("no\n")
        person.until("= 2.0 was not deployed: not confirmed.")
        person.until(" of 25")
        assert list(folder.iterdir()) != []
        person.type("\x03")
    finally:
        status = person.end()
    assert status == 128 + signal.SIGINT
    assert_nothing_is_left(person.process, folder)
    assert "Traceback" not in person.seen
    assert person.seen.count("Deploy 2.0? Assuming yes after 5 s.") == 1, "asked once, for both"
    assert re.search(r"[123] of 4", person.seen), "bars move"
    assert "\x1b[32mcompleted" in person.seen
    assert person.seen.rfind("\x1b[?25h") > person.seen.rfind("\x1b[?25l"), "the cursor is back"
    shown = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", person.seen)
    assert max(map(len, re.split(r"[\r\n]+", shown))) <= WIDTH


# --- errors ----------------------------------------------------------------------------------

WITHOUT_EXTRA: Final = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("httpx", "httptools", "starlette", "uvicorn", "uvloop"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from taskmachine.adapters.cli.main import main
sys.exit(main(["demo"]))
"""


def test_command_names_the_missing_package_and_its_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRA],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LONGEST_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        r"taskmachine: error: the demo needs the package \w+: "
        r"pip install 'taskmachine\[server\]'\n",
        done.stderr,
    )


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / STORE).mkdir()
    server = Server(tmp_path)
    with pytest.raises(ConfigurationError, match=r"^the server did not start: .*tasks\.db"):
        asyncio.run(server.start())
    assert server.port is None


# --- messages in words -----------------------------------------------------------------------


def test_requests_are_shown_with_their_answers_and_repetitions_are_counted() -> None:
    def asks(id: int, method: str, **params: object) -> Passed:
        return Passed(True, {"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def answers(id: int, **body: object) -> Passed:
        return Passed(False, {"jsonrpc": "2.0", "id": id, **body})

    def tells(method: str, **params: object) -> Passed:
        return Passed(False, {"jsonrpc": "2.0", "method": method, "params": params})

    assert in_words(
        [
            asks(1, "tools/call", name="count", task={"ttl": 5}),
            tells("notifications/progress", progress=1),
            answers(1, result={"task": {"status": "working"}}),
            asks(2, "tasks/get", taskId="t"),
            asks(3, "tasks/get", taskId="t"),
            answers(3, result={"taskId": "t", "status": "working"}),
            tells("notifications/progress", progress=2),
            answers(2, result={"taskId": "t", "status": "working"}),
            asks(4, "tasks/get", taskId="t"),
            Passed(False, {"id": 1, "method": "elicitation/create", "params": {"message": "Go?"}}),
            Passed(True, {"id": 1, "result": {"action": "accept", "content": {}}}),
            answers(4, error={"code": -32602, "message": "no"}),
            asks(5, "tasks/result", taskId="t"),
        ]
    ) == [
        "→ tools/call count, task: {} ← task",
        "← notifications/progress ×2",  # noqa: RUF001
        "→ tasks/get ← working ×2",  # noqa: RUF001
        "→ tasks/get ← error -32602",
        '← elicitation/create "Go?" → accept',
        "→ tasks/result",
    ]
