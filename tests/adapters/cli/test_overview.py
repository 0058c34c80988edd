"""What `taskmachine` prints without a command, and the examples in every help."""

import shlex
import subprocess
import sys

import pytest

from taskmachine.adapters.cli.main import COMMANDS, main, parser_of
from taskmachine.adapters.cli.operators import with_ids_last
from taskmachine.adapters.cli.overview import EXAMPLES, GROUPS
from taskmachine.adapters.cli.parser import read_options

SUMMARIES = {name: said for group in GROUPS.values() for name, (said, _) in group.items()}
GROUPED = ("tasks", "store")


def test_every_command_is_shown_by_purpose_with_an_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert SUMMARIES.keys() == COMMANDS.keys(), "add the command to GROUPS in cli/overview.py"
    assert main([]) == 0
    shown = capsys.readouterr().out
    for name, examples in EXAMPLES.items():
        assert f"\n  {name} " in shown
        assert f"$ {examples[0]}" in shown
    with pytest.raises(SystemExit) as leaving:
        main(["--help"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_description_of_the_command(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    shown = capsys.readouterr().out
    summary = SUMMARIES[name]
    if name != "check":  # its description names the specification, too
        assert f"{summary[0].upper()}{summary[1:]}." in " ".join(shown.split())
    assert "\nexamples:\n" + "".join(f"  {line}\n" for line in EXAMPLES[name]) in shown


@pytest.mark.parametrize(
    "example", [line for lines in EXAMPLES.values() for line in lines], ids=lambda line: line
)
def test_every_example_is_understood(example: str) -> None:
    words = shlex.split(example.replace("<(", "").replace(")", ""), comments=True)
    words = words[words.index("taskmachine") + 1 :]
    if ">" in words:
        words = words[: words.index(">")]
    assert read_options(parser_of(), with_ids_last(words)).run


@pytest.mark.parametrize("width", ["80", "100", "250"])
def test_help_fits_the_terminal(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setattr("taskmachine.adapters.cli.main.PAGE_WIDTH", int(width))
    for name in COMMANDS:
        with pytest.raises(SystemExit):
            main([name, "--help"])
    main([])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= min(int(width), 100), "longer lines are hard to read"
    assert "\x1b" not in "".join(lines), "no colour without a terminal"


def test_the_module_is_the_same_command() -> None:
    for arguments in ([], ["serve", "--help"]):
        ended = subprocess.run(
            [sys.executable, "-m", "taskmachine", *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "usage: taskmachine " in ended.stdout
        assert ended.stderr == ""


def test_the_overview_imports_no_command() -> None:
    code = (
        "import sys; from taskmachine.adapters.cli.main import main; main([]);"
        "print([name for name in sys.modules if 'cli.serve' in name or 'client' in name])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("\n[]\n")
