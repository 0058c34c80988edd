"""`taskmachine bench` as a command."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from taskmachine.adapters.cli.bench.contestants import (
    FASTMCP_3,
    FASTMCP_4,
    MCP_1,
    PEERS,
    TYPESCRIPT,
    ours,
)
from taskmachine.adapters.cli.bench.figures import from_json
from taskmachine.adapters.cli.bench.run import MEASURES
from taskmachine.adapters.cli.main import main
from tests.adapters.stores.postgres_server import running
from tests.processes import assert_gone
from tests.site.pages import blocks_of, page

COMMAND: Final = [str(Path(sys.executable).with_name("taskmachine")), "bench"]
WITHIN_S: Final = 120


def test_a_quick_run_takes_every_measure(tmp_path: Path) -> None:
    """Outside the repository, and with a variable that it must ignore."""
    ended = subprocess.run(
        [
            *(*COMMAND, "--quick", "--no-peers", "--only", "memory", "--folder", "cache"),
            *("--json", "bench.json", "--svg", "bench.svg"),
        ],
        cwd=tmp_path,
        env={**os.environ, "TASKMACHINE_PATH": "/elsewhere"},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert max(map(len, ended.stdout.splitlines())) <= 100
    assert "not measured" not in ended.stdout
    report = from_json((tmp_path / "bench.json").read_bytes())
    assert {row.measure for row in report.rows} == set(MEASURES)
    for measure in ("task", "get", "wake", "notify", "grow", "stdio", "start", "payload"):
        revisions = {
            row.revision
            for row in report.rows
            if row.measure == measure and row.contestant == "ours, memory" and row.values
        }
        assert revisions == {"2025-11-25", "2026-07-28"}, measure
    assert report.is_quick
    assert report.command.startswith("taskmachine bench --quick")
    assert {"processor", "kernel", "python", "uvloop"} <= report.machine.keys()
    assert json.loads((tmp_path / "bench.json").read_bytes())["rows"][0]["rounds"]
    ElementTree.fromstring((tmp_path / "bench.svg").read_text())
    assert list((tmp_path / "cache" / "runs").iterdir()) == [], "nothing is left"


def test_sqlite_is_measured_beside_its_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = os.sched_getaffinity(0)
    measures = [word for name in ("get", "grow", "disk") for word in ("--measure", name)]
    chosen = ["--quick", "--no-peers", "--only", "sqlite", "--folder", str(tmp_path)]
    assert main(["bench", *chosen, *measures]) == 0
    output = capsys.readouterr().out
    assert "ours, SQLite" in output
    assert "bare sqlite3" in output
    assert "ours, memory" not in output
    assert os.sched_getaffinity(0) == before


def test_bench_removes_its_schemas_from_the_database(tmp_path: Path) -> None:
    with running() as server:
        chosen = ["--quick", "--no-peers", "--only", "postgresql", "--measure", "get"]
        url = f"{server.url()}&pool_size=3"
        file = tmp_path / "bench.json"
        arguments = [*chosen, "--store", url, "--folder", str(tmp_path), "--json", str(file)]
        assert main(["bench", *arguments]) == 0
        left = server.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'taskm%'")
    rows = from_json(file.read_bytes()).rows
    assert {row.contestant for row in rows if row.values} == {"ours, PostgreSQL"}
    assert left == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--measure", "speed"], "unknown measure 'speed': choose from task, get,"),
        (
            ["--only", "nobody"],
            "no server is named 'nobody': choose from ours, memory; ours, SQLite;",
        ),
        (["--only", "typescript", "--no-peers"], "nothing to measure"),
        (["--rounds", "0"], "--rounds must be 1 to 1000, not 0"),
        (["--seconds", "0"], "--seconds must be 0.01 to 60, not 0"),
        (["--tasks", "10"], "--tasks must be 1000 to 1e+06, not 10"),
        (["--store", "sqlite:x.db"], "--store takes only postgresql://"),
        (["--store", "mysql:x"], "no store for 'mysql:x'"),
    ],
)
def test_bench_rejects_invalid_arguments_with_a_message(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["bench", "--quick", "--folder", str(tmp_path), *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_bench_reports_that_it_requires_linux(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert main(["bench"]) == 2
    assert "bench requires Linux" in capsys.readouterr().err


def test_a_missing_package_is_named_with_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["bench"]) == 2
    assert "pip install 'taskmachine[bench]'" in capsys.readouterr().err


def test_bench_runs_on_one_core_with_a_warning(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    chosen = ["--quick", "--no-peers", "--only", "memory", "--measure", "get"]
    ended = subprocess.run(
        [*COMMAND, *chosen, "--folder", str(tmp_path)],
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert ended.returncode == 0, ended.stderr
    assert "warning: with only one core" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    chosen = ["--no-peers", "--only", "memory", "--measure", "get", "--seconds", "30"]
    process = subprocess.Popen(
        [*COMMAND, *chosen, "--folder", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + WITHIN_S
        while len(children := descendants(process.pid)) < 3:  # the floor, a server, a client
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(WITHIN_S) == 128 + number
    finally:
        process.kill()
        process.wait()
    assert_gone(*children)
    assert list((tmp_path / "runs").iterdir()) == []


def test_commands_of_the_page_are_understood() -> None:
    [block] = blocks_of("docs/explanation/performance.md", "sh")
    install, *commands = block.text.splitlines()
    assert install == "pip install 'taskmachine[bench]'"
    assert commands
    shown = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True).stdout
    for command in commands:
        program, name, *words = shlex.split(command)
        assert (program, name) == ("taskmachine", "bench")
        for option, value in pairwise([*words, ""]):
            if option.startswith("--"):
                assert f"{option} " in shown, command
            if option == "--measure":
                assert value in MEASURES
            if option == "--only":
                names = [*(one.name for one in ours()), *PEERS]
                assert any(value in name for name in names)


def test_the_page_names_every_measure_and_contestant() -> None:
    text = page("docs/explanation/performance.md")
    for measure in MEASURES:
        assert f"| `{measure}` |" in text
    for requirement in (MCP_1, FASTMCP_3, FASTMCP_4):
        assert "`{}` {}".format(*requirement.split("==")) in text
    assert "`{}` {}".format(*TYPESCRIPT.rsplit("@", 1)) in text


def descendants(pid: int) -> list[int]:
    """Return the descendants of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:  # it has ended
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found
