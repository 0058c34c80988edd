"""The example in which a user approves or declines, with a terminal and without one."""

import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests.oracle import REPOSITORY
from tests.site.pages import example_of

EXAMPLE: Final = str(REPOSITORY / "docs/examples/receiver.py")
PATIENCE_S: Final = 30.0

ACCEPTED: Final = 'elicitation/create: completed: {"name": "%s"}'
DECLINED: Final = 'elicitation/create: completed: "decline"'
SAMPLED: Final = 'sampling/createMessage: completed: {"type": "text", "text": "%s"}'
FAILED: Final = "sampling/createMessage: failed: User declined sampling request"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--yes"], [ACCEPTED % "yes", SAMPLED % "Yes."]),
        (["--no"], [DECLINED, FAILED]),
        ([], [DECLINED, FAILED]),
    ],
    ids=["yes", "no", "nobody there"],
)
def test_example_answers_by_itself_without_a_terminal(
    arguments: list[str], said: list[str]
) -> None:
    ended = subprocess.run(
        [sys.executable, EXAMPLE, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (ended.stdout.splitlines(), ended.stderr, ended.returncode) == (said, "", 0)


class Terminal:
    def __init__(self, *command: str) -> None:
        self._ours, theirs = pty.openpty()
        self.seen = ""
        self._program = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)

    def read_until(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.seen:
            ready, _, _ = select.select([self._ours], [], [], deadline - time.monotonic())
            assert ready, self.seen
            self.seen += os.read(self._ours, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def ended(self) -> int:
        return self._program.wait(PATIENCE_S)

    def close(self) -> None:
        self._program.kill()
        self._program.wait()
        os.close(self._ours)


@contextlib.contextmanager
def terminal(*command: str) -> Iterator[Terminal]:
    opened = Terminal(*command)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.parametrize(
    ("name", "agreed", "said"),
    [
        ("Ada\n", "yes\n", [ACCEPTED % "Ada", SAMPLED % "Whatever you say."]),
        ("\x04", "no\n", [DECLINED, FAILED]),
        ("Ada\n", "\x04", [ACCEPTED % "Ada", FAILED]),
    ],
)
def test_a_person_at_a_terminal_approves_or_refuses(
    name: str, agreed: str, said: list[str]
) -> None:
    with terminal(sys.executable, EXAMPLE) as shown:
        shown.read_until("Who are you?")
        shown.read_until("Your name (string): ")
        shown.type(name)
        shown.read_until("user: Say something nice.")
        shown.read_until("Let the model answer? (yes | no): ")
        shown.type(agreed)
        for line in said:
            shown.read_until(line)
        assert shown.ended() == 0


CANCELS: Final = """
import json, sys

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

done = {"content": [{"type": "text", "text": "never mind"}]}
hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x"}}
answers = {"initialize": {**hello, "serverInfo": {"name": "x", "version": "1"}},
           "tools/list": {"tools": [{"name": "interview", "inputSchema": {"type": "object"}}]}}
form = {"type": "object", "properties": {"name": {"type": "string"}}}
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") in answers:
        say(id=message["id"], result=answers[message["method"]])
    elif message.get("method") == "tools/call":
        call = message["id"]
        params = {"message": "Still there?", "requestedSchema": form, "task": {"ttl": 60000}}
        say(id="a", method="elicitation/create", params=params)
    elif "statusMessage" in message.get("params", {}) and message["params"]["status"] == "working":
        say(id="b", method="tasks/cancel", params={"taskId": message["params"]["taskId"]})
    elif message.get("id") == "b":
        say(id=call, result=done)
    elif "method" in message and "id" in message:
        say(id=message["id"], error={"code": -32601, "message": "Method not found"})
"""


def test_a_prompt_that_the_server_takes_back_vanishes() -> None:
    with terminal(sys.executable, EXAMPLE, "--", sys.executable, "-c", CANCELS) as shown:
        shown.read_until("Still there?")
        shown.read_until("(taken back)")
        shown.read_until("never mind")
        assert shown.ended() == 0


def test_a_server_that_cannot_be_started_is_one_line() -> None:
    ended = subprocess.run(
        [sys.executable, EXAMPLE, "--yes", "--", "no-such-program"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    [said] = ended.stderr.splitlines()
    assert "no-such-program" in said
    assert (ended.returncode, ended.stdout) == (1, "")


def test_documentation_example_prints_the_documented_output() -> None:
    example, output = example_of("docs/howto/client.md", "receiver.py")
    ended = subprocess.run(
        [sys.executable, "-c", example],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (ended.stdout, ended.returncode) == (output, 0), ended.stderr
