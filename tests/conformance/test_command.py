"""`taskmachine check` as a user runs it: real processes, real sockets, a real pytest."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from taskmachine.adapters.cli.main import main
from tests.oracle import REPOSITORY

BIN: Final = Path(sys.executable).parent
SERVER: Final = f"{BIN / 'taskmachine'} serve --stdio --store memory:"
QUICK: Final = ("--budget", "4s", "--examples", "1", "--generation", "2025-11-25")


def check(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command; no traceback ever."""
    ran = subprocess.run(
        [str(BIN / "taskmachine"), "check", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        check=False,
    )
    assert "Traceback" not in ran.stdout + ran.stderr
    return ran


@pytest.mark.slow
@pytest.mark.bugs
def test_a_run_writes_every_report(tmp_path: Path) -> None:
    names = ("--json", "--junit", "--html", "--write-profile")
    wanted = [word for name in names for word in (name, f"report{name}")]
    ran = check(SERVER, *QUICK, *wanted, "--replays", "faults", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"\d+ of \d+ requirements exercised in", ran.stdout)
    assert all((tmp_path / f"report{name}").stat().st_size > 100 for name in names)
    again = check(SERVER, *QUICK, "--profile", "report--write-profile", cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "specify exactly one target"),
        (["a", "--client", "b"], "specify exactly one target"),
        ([""], "specify exactly one target"),
        (["'"], "cannot read the command"),
        (["no-such-program"], "cannot start 'no-such-program'"),
        (["http://127.0.0.1:9/mcp"], "cannot connect to the target"),
        (["ftp://127.0.0.1/mcp"], "is not an http:// or https:// URL"),
        (["http://127.0.0.1:9/mcp", "--header", "nonsense"], "must have the form"),
        (["http://127.0.0.1:9/mcp", *["--bearer", "t"] * 3], "at most twice"),
        ([SERVER, "--bearer", "t"], "require a URL"),
        ([SERVER, "--only", "no-such"], "unknown requirement 'no-such'"),
        ([SERVER, "--examples", "-1"], "cannot be negative"),
        ([SERVER, "--tool", "a=1"], "must have the form NAME="),
        ([SERVER, "--tool", "a={"], "are not JSON"),
        ([SERVER, "--profile", "no-such-file"], "cannot read the profile"),
        ([SERVER, "--baseline", "no-such-file"], "cannot read no-such-file"),
        ([SERVER, "--replay", "no-such-file"], "cannot read no-such-file"),
        ([SERVER, "--budget", "soon"], "is not a duration"),
        ([SERVER, "--budget", "0"], "must be positive"),
    ],
)  # fmt: skip
def test_wrong_use_is_explained(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["check", *arguments])
    except SystemExit as exit:  # raised by argparse
        status = int(exit.code or 0)
    told = capsys.readouterr()
    assert status == 2
    assert words in told.err
    assert told.out == ""


def test_a_profile_with_a_wrong_role_says_which_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "profile.toml"
    profile.write_text('[sleeps]\ntool = "nap"\n')
    assert main(["check", SERVER, "--profile", str(profile)]) == 2
    assert "unknown role 'sleeps'; the roles are completes, slow" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.bugs
def test_pytest_has_a_test_for_each_requirement(tmp_path: Path) -> None:
    command = [str(BIN / "pytest"), "-q", "-p", "no:cacheprovider", "--mcp-target", SERVER]
    ran = subprocess.run(
        [*command, "--mcp-args", shlex.join(QUICK)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    passed = re.search(r"(\d+) passed, (\d+) skipped", ran.stdout)
    assert passed is not None
    assert sum(map(int, passed.groups())) > 250


def test_the_commands_of_the_page_are_understood(tmp_path: Path) -> None:
    from taskmachine.adapters.conformance.command_line import read_arguments

    page = (REPOSITORY / "docs" / "howto" / "check.md").read_text()
    shown = re.findall(r"^\$ taskmachine check (.*)$", page, re.MULTILINE)
    assert len(shown) > 5
    for line in shown:
        read_arguments(shlex.split(line.replace("--help", "--list")))
