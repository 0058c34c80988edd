"""Client processes: start, limits, and the report on a whole run."""

import asyncio
import os
import shlex
import sys
import time
from pathlib import Path

import pytest

from taskmachine.adapters.conformance.clients.program import (
    ProcessResult,
    command_line,
    relay_command,
    run_program,
)
from taskmachine.adapters.conformance.clients.run import run_client
from taskmachine.adapters.conformance.errors import CannotCheck
from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.run import Options
from tests.oracle import REPOSITORY
from tests.processes import assert_gone

A_CLIENT = [sys.executable, str(REPOSITORY / "tests" / "conformance" / "clients" / "a_client.py")]


def _run(
    command: list[str], within_s: float = 20.0, *, talks: bool = True
) -> tuple[ProcessResult, list[ProcessResult]]:
    async def main() -> tuple[ProcessResult, list[ProcessResult]]:
        begun, over = asyncio.Event(), list[ProcessResult]()
        if talks:
            begun.set()
        return await run_program(command, "a scene", within_s, begun=begun, over=over.append), over

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("client", ["client", "http://x/mcp"]),
        ("client --to {url} --quiet", ["client", "--to", "http://x/mcp", "--quiet"]),
        ("client --to={url}", ["client", "--to=http://x/mcp"]),
        ("'my client' 'a b'", ["my client", "a b", "http://x/mcp"]),
        ("client -- {server}", ["client", "--", "relay", "--port", "1"]),
        ("client --command={server}", ["client", "--command=relay --port 1"]),
    ],
)
def test_addresses_are_filled_in(command: str, expected: list[str]) -> None:
    assert command_line(command, url="http://x/mcp", server="relay --port 1") == expected


@pytest.mark.parametrize("command", ["", "  ", "client 'x"])
def test_a_command_that_cannot_be_read_is_a_configuration_error(command: str) -> None:
    with pytest.raises(CannotCheck):
        command_line(command, url="", server="")


def test_a_program_that_is_not_there_is_a_configuration_error() -> None:
    with pytest.raises(CannotCheck, match="no-such-client"):
        _run(["no-such-client"])


def test_client_run_passes_the_scenario_and_records_stderr() -> None:
    script = "import os, sys; sys.exit(os.environ['MCP_CONFORMANCE_SCENARIO'])"
    ran, over = _run([sys.executable, "-c", script])
    assert (ran.returncode, ran.words) == (1, "a scene\n")
    assert [one.returncode for one in over] == [1]


def test_client_run_keeps_only_the_end_of_stderr() -> None:
    script = "import sys; sys.stderr.write('x' * 100_000 + 'the end')"
    ran, _ = _run([sys.executable, "-c", script])
    assert ran.words.endswith("the end")
    assert len(ran.words) <= 20_000


def test_stopping_a_client_run_ends_the_client_and_its_children(tmp_path: Path) -> None:
    """The client ignores SIGTERM and has a child process."""
    note = tmp_path / "pids"
    script = f"""
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path({str(note)!r}).write_text(f"{{os.getpid()}} {{child.pid}}")
time.sleep(60)
"""
    began = time.monotonic()
    ran, over = _run([sys.executable, "-c", script], within_s=2)
    assert ran.returncode is None
    assert [one.returncode for one in over] == [None]
    assert time.monotonic() - began < 20
    assert_gone(*map(int, note.read_text().split()))


def test_relay_exits_without_a_server() -> None:
    command = shlex.split(relay_command(1))  # no server listens there
    ran, _ = _run(command)
    assert ran.returncode == 1


@pytest.mark.slow
@pytest.mark.bugs
def test_a_client_is_judged_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.fspath(REPOSITORY))
    told: list[str] = []
    bug = shlex.join([*A_CLIENT, "--bug", "is anonymous", "2026-07-28"])
    run = asyncio.run(run_client(bug, "2026-07-28", Options(budget_s=100), on_progress=told.append))
    assert run.stopped is None
    assert (run.transport, told[0]) == ("http", "lifecycle")
    bad = {one.id: one for one in run.findings if one.verdict in (Verdict.FAIL, Verdict.WARNING)}
    assert list(bad) == ["2026-07-28:client-info-sent"]
    [finding] = bad.values()
    assert finding.verdict is Verdict.WARNING
    assert "scenario" in finding.words
    assert [entry.kind.value for entry in finding.transcript][:1] == ["heard"]


def test_a_client_that_says_nothing_is_not_judged() -> None:
    words = shlex.join([sys.executable, "-c", "import sys; sys.exit('cannot do that')"])
    run = asyncio.run(run_client(words, "2025-11-25", Options(budget_s=30)))
    assert run.stopped is not None
    assert "cannot do that" in run.stopped
    assert not run.count(Verdict.FAIL, Verdict.WARNING, Verdict.PASS)


def test_tester_judges_only_the_selected_client_checks() -> None:
    words = shlex.join([sys.executable, "-c", ""])
    only = frozenset({"2025-11-25:session-id-sent", "2025-11-25:http-accept-both"})
    options = Options(budget_s=30, only=only, skip=frozenset({"2025-11-25:http-accept-both"}))
    run = asyncio.run(run_client(words, "2025-11-25", options))
    assert [one.id for one in run.findings] == ["2025-11-25:session-id-sent"]
