"""`taskmachine completion`, in a real bash; zsh and fish where they are installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from taskmachine.adapters.cli.main import COMMANDS, main

PRESS_TAB = """
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_shtab_taskmachine
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", "bash"]) == 0
    path = tmp_path / "completion.bash"
    path.write_text(capsys.readouterr().out)
    return path


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([""], set(COMMANDS)),
        (["ta"], {"table", "tasks"}),
        (["tasks", ""], {"list", "show", "history", "cancel", "rerun", "purge"}),
        (["tasks", "list", "--st"], {"--store", "--state"}),
        (["table", "--format", "m"], {"markdown", "mermaid"}),
        (["call", "http://h/mcp", "count", "--no"], {"--no-input"}),
        (["serve", "--config", "ser"], {"server.toml"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_tab_in_bash_offers_what_fits(words: list[str], offered: set[str], script: Path) -> None:
    (script.parent / "server.toml").touch()
    ended = subprocess.run(
        ["bash", "-c", PRESS_TAB, "bash", script, "taskmachine", *words],
        cwd=script.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(ended.stdout.split()) == offered
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("shell", "mark"), [("zsh", "#compdef taskmachine"), ("fish", "complete ")]
)
def test_other_shells_have_a_script(
    shell: str, mark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    assert mark in script.read_text()
    assert "input_required" in script.read_text()
    if shutil.which(shell):
        subprocess.run([shell, "-n", script], check=True)
