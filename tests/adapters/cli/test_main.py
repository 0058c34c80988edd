"""The command in a terminal and in scripts."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from taskmachine.adapters.cli.main import main
from taskmachine.adapters.rendering.table import print_table
from taskmachine.protocol import DIALECTS, dialect
from taskmachine.statemachine import ConfigurationError
from tests.oracle import ILLEGAL, LIFECYCLES, MOVES, SPEC

COMMAND = str(Path(sys.executable).with_name("taskmachine"))
LEGAL = {
    (source, event, dest)
    for source, row in MOVES.items()
    for event, dest in row.items()
    if dest != ILLEGAL
}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["table", *arguments]) == 0
    return capsys.readouterr().out


def test_json_has_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "--format", "json"))
    rows = document["rows"]
    assert {(row["source"], row["event"], row["dest"]) for row in rows} == LEGAL
    assert len(rows) == 26
    duties = {row.pop("state"): row for row in document["duties"]}
    assert duties == SPEC["table"]["duties"]
    assert document["dialect"] is None
    assert sorted(document["terminal"]) == ["cancelled", "completed", "failed"]


@pytest.mark.parametrize("name", DIALECTS)
def test_json_of_a_dialect_has_its_edges(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(run(capsys, "--format", "json", "--dialect", name))
    edges = {(row["source"], row["dest"]) for row in document["rows"]}
    shown = {(a, b) for a, b in edges if a != b and "[*]" not in (a, b)}
    assert shown == LIFECYCLES[name].edges
    assert document["dialect"] == name
    assert "duties" not in document
    assert set(document["terminal"]) == LIFECYCLES[name].terminal
    begins = {row["dest"] for row in document["rows"] if row["source"] == "[*]"}
    assert begins == LIFECYCLES[name].initial


def test_text_fits_a_hundred_columns(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], *(["--dialect", name] for name in DIALECTS)):
        lines = run(capsys, *arguments).splitlines()
        assert max(map(len, lines)) <= 100
        assert not any("…" in line for line in lines)
    assert "\x1b" not in "".join(lines), "no colour without a terminal"


def test_text_has_every_row_and_every_pair(capsys: pytest.CaptureFixture[str]) -> None:
    output = run(capsys)
    for source, event, dest in LEGAL:
        assert re.search(rf"^{source} +{event} +{dest}\b", output, re.MULTILINE)
    grid = output[output.index("Every pair") :]
    assert grid.count("·") == 70


def test_text_is_coloured_in_a_terminal() -> None:
    screen = io.StringIO()
    print_table(
        Console(file=screen, force_terminal=True, width=100), dialect("2025-11-25").messages
    )
    assert "\x1b[32mcompleted" in screen.getvalue()


def test_markdown_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "--format", "markdown").splitlines()
    assert lines[:2] == ["| source | event | destination |", "|---|---|---|"]
    assert "| completed | **purge** | removed |" in lines
    duties = lines[29:]
    assert duties[0] == "| state | queue | worker | progress | questions | waiters |"
    assert "| input_required | - | keeps | flows | open | wait |" in duties
    assert len(lines) == 28 + 1 + 8


def test_mermaid_draws_every_move(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "--format", "mermaid").splitlines()
    assert lines[0] == "stateDiagram-v2"
    drawn: set[tuple[str, str, str]] = set()
    for line in lines[1:]:
        match = re.fullmatch(r"    (\S+) --> (\S+): (.+)", line)
        assert match
        drawn |= {(match[1], event, match[2]) for event in match[3].split(", ")}
    outside = {"new": "[*]", "removed": "[*]"}
    assert drawn == {(outside.get(a, a), event, outside.get(b, b)) for a, event, b in LEGAL}


@pytest.mark.parametrize("name", [None, *DIALECTS])
def test_svg_is_a_picture_of_every_state(
    name: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [] if name is None else ["--dialect", name]
    picture = ElementTree.fromstring(run(capsys, "--format", "svg", *arguments))
    texts = {node.text for node in picture.iter() if node.tag.endswith("text")}
    if name is None:
        assert set(SPEC["table"]["states"]) <= texts
    else:
        assert {status for edge in LIFECYCLES[name].edges for status in edge} <= texts
    assert {"ask", "cancel"} <= texts


def test_an_unknown_dialect_is_a_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "--dialect", "2024-11-05"]) == 2
    assert capsys.readouterr().err == (
        "taskmachine: error: unknown dialect '2024-11-05', "
        "known are: 2025-11-25, 2026-07-28, erlmcp\n"
    )
    with pytest.raises(ConfigurationError):
        main(["--debug", "table", "--dialect", "2024-11-05"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serv"], "unknown command 'serv': did you mean 'serve'? (taskmachine --help)"),
        (["Tasks"], "unknown command 'Tasks': did you mean 'tasks'? (taskmachine --help)"),
        (["no-such"], "unknown command 'no-such' (taskmachine --help)"),
        (["\x1b[2J"], r"unknown command '\x1b[2J' (taskmachine --help)"),
        (["--no-such"], "unknown option '--no-such' (taskmachine --help)"),
        (["table", "--format", "pdf"], "invalid choice: 'pdf'"),
        (
            ["table", "--frmat=svg"],
            "unknown option '--frmat': did you mean '--format'? (taskmachine table --help)",
        ),
        (["table", "x"], "unexpected argument 'x' (taskmachine table --help)"),
        (
            ["tasks", "list", "--limt", "3"],
            "did you mean '--limit'? (taskmachine tasks list --help)",
        ),
        (["call", "server"], "required: TOOL (taskmachine call --help)"),
    ],
)
def test_usage_error_is_one_line_and_leaves_with_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    assert leaving.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("taskmachine: error: ")
    assert words in err
    assert err.count("\n") == 1


def test_error_is_red_in_a_terminal_only_where_colours_are_wanted() -> None:
    def seen(**variables: str) -> str:
        shown, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", **variables}
        subprocess.run([COMMAND, "serv"], stderr=theirs, env=environment, check=False)
        os.close(theirs)
        text = os.read(shown, 1_000).decode()
        os.close(shown)
        return text

    assert "\x1b[1;31merror: \x1b[0munknown command 'serv'" in seen()
    assert "\x1b[1;31m" not in seen(NO_COLOR="1")


def test_the_installed_command() -> None:
    done = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"taskmachine \d+\.\d+\.\d+\n", done.stdout)


def test_closed_output_pipe_is_not_an_error() -> None:
    script = f"{COMMAND} table --format svg | head -n 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
