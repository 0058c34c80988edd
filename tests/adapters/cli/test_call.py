"""`taskmachine call` in scripts and in a terminal."""

import argparse
import contextlib
import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskmachine.adapters.cli.call import command as call_command
from taskmachine.adapters.client.errors import CallFailed, ConnectionLost
from taskmachine.statemachine import ConfigurationError

COMMAND = str(Path(sys.executable).with_name("taskmachine"))
SERVER = shlex.join([COMMAND, "serve", "--stdio", "--store", "memory:", "--log-level", "error"])

MAIN = """
import argparse, sys
from taskmachine.adapters.cli.call import command as call_command
parser = argparse.ArgumentParser()
call_command.add_to(parser.add_subparsers(), lambda: None)
options = parser.parse_args(["call", *sys.argv[1:]])
sys.exit(options.run(options))
"""


def call(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    call_command.add_to(parser.add_subparsers(), lambda: None)
    options = parser.parse_args(["call", *arguments])
    status: int = options.run(options)
    return status


def test_the_text_of_a_result_goes_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert call(SERVER, "greet", "--args", '{"name": "Ada"}') == 0
    assert capfd.readouterr().out == "Hello, Ada!\n"


@pytest.mark.parametrize("generation", ["2025-11-25", "2026-07-28"])
def test_programs_get_the_whole_result(
    generation: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = tmp_path / "arguments.json"
    arguments.write_text('{"to": 2, "pause_ms": 10}')
    options = ["--generation", generation, "--ttl", "60", "--json"]
    assert call(SERVER, "count", "--args", f"@{arguments}", *options) == 0
    result = json.loads(capfd.readouterr().out)
    assert result["structuredContent"] == {"counted": 2}


def test_a_tool_that_fails_leaves_with_1(capfd: pytest.CaptureFixture[str]) -> None:
    assert call(SERVER, "fail") == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert "This tool always fails" in err
    assert call(SERVER, "fail", "--json") == 1
    assert json.loads(capfd.readouterr().out)["isError"] is True


def test_an_error_is_an_error() -> None:
    with pytest.raises(CallFailed, match="'crash' failed"):
        call(SERVER, "crash")
    with pytest.raises(ConnectionLost):
        call("http://127.0.0.1:1/mcp", "greet")


@pytest.mark.parametrize("options", [[], ["--no-input"]])
def test_call_declines_questions_without_a_terminal(
    options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert call(SERVER, "deploy", "--args", '{"version": "1.4"}', *options) == 0
    out, err = capfd.readouterr()
    assert out == "1.4 was not deployed: not confirmed.\n"
    assert "Declined without a terminal: Deploy 1.4?" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([SERVER, "greet", "--args", "{"], "not valid JSON"),
        ([SERVER, "greet", "--args", "[1]"], "a JSON object"),
        ([SERVER, "greet", "--args", "@/does/not/exist"], "cannot read /does/not/exist"),
        ([SERVER, "greet", "--token-file", "/does/not/exist"], "cannot read /does/not/exist"),
        (["'unbalanced", "greet"], "No closing quotation"),
        (["", "greet"], "the command that starts the server is empty"),
        (["/does/not/exist --stdio", "greet"], "cannot start '/does/not/exist'"),
    ],
)
def test_call_rejects_invalid_arguments_with_a_message(arguments: list[str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        call(*arguments)


@pytest.mark.parametrize("option", ["--ttl=0", "--timeout=nan", "--generation=2024-11-05"])
def test_wrong_usage_leaves_with_2(option: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        call(SERVER, "greet", option)
    assert caught.value.code == 2


def test_arguments_come_from_standard_input(capfd: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, SERVER, "greet", "--args", "-"],
        input=b'{"name": "Ada"}',
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, b"Hello, Ada!\n")


class Terminal:
    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, *arguments],
            stdin=theirs,
            stderr=theirs,
            stdout=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        )
        os.close(theirs)

    def until(self, words: str) -> None:
        deadline = time.monotonic() + 60
        while words not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self._ours], [], [], 1)[0]:
                try:
                    self.seen += os.read(self._ours, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"it ended with: {self.seen}") from None

    def type(self, text: str) -> None:
        self.seen = ""
        os.write(self._ours, text.encode())

    def end(self) -> tuple[int, str]:
        """Return the exit status and standard output."""
        with contextlib.suppress(AssertionError):
            self.until("\0 what is never shown \0")
        out, _ = self.process.communicate(timeout=60)
        os.close(self._ours)
        return self.process.returncode, out.decode()


@contextlib.contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    person = Terminal(*arguments)
    try:
        yield person
    finally:
        if person.process.poll() is None:
            person.process.kill()
            person.process.communicate()


def test_a_form_is_filled_in_field_by_field() -> None:
    with terminal(SERVER, "deploy", "--args", '{"version": "1.4"}') as person:
        person.until("Deploy 1.4?")
        person.until("Deploy it (yes | no; nothing means yes): ")
        shown = "\x1b[?25h"  # the cursor is visible during input
        assert person.seen.rindex(shown) > person.seen.rindex("\x1b[?25l")
        person.type("perhaps\n")
        person.until("it must be yes or no")
        person.until("nothing means yes): ")
        person.type("\n")
        person.until("Where (test | live; may be empty): ")
        person.type("moon\n")
        person.until("it must be one of test, live")
        person.until("may be empty): ")
        person.type("live\n")
        assert person.end() == (0, "1.4 is deployed to live.\n")


def test_the_end_of_input_declines() -> None:
    with terminal(SERVER, "deploy", "--args", '{"version": "1.4"}') as person:
        person.until("nothing means yes): ")
        person.type("\x04")
        person.until("Declined.")
        assert person.end() == (0, "1.4 was not deployed: not confirmed.\n")


@pytest.mark.parametrize("generation", ["2025-11-25", "2026-07-28"])
def test_an_interrupt_cancels_the_task_and_says_so(generation: str) -> None:
    options = ["--args", '{"to": 9999, "pause_ms": 50}', "--generation", generation]
    with terminal(SERVER, "count", *options) as person:
        person.until("of 9999")  # progress is shown while it runs
        person.process.send_signal(signal.SIGINT)
        person.until("Cancelling.")
        person.until("The call was cancelled: cancelled: The task was cancelled by request")
        assert person.end() == (1, "")


def test_interrupt_at_a_prompt_cancels_the_call() -> None:
    with terminal(SERVER, "deploy", "--args", '{"version": "1.4"}') as person:
        person.until("nothing means yes): ")
        person.process.send_signal(signal.SIGINT)
        person.until("The call was cancelled")
        assert person.end() == (1, "")


def test_an_interrupt_before_the_call_leaves() -> None:
    with terminal(f"{sys.executable} -c 'import time; time.sleep(60)'", "greet") as person:
        person.until("connecting")
        person.process.send_signal(signal.SIGINT)
        person.until("Stopped waiting")
        assert person.end() == (1, "")
