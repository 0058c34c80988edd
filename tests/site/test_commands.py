"""Commands of pages without a test elsewhere."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.lanes import PIECES
from tests.oracle import REPOSITORY
from tests.ports import free_port
from tests.site.pages import PAGES, blocks_of, page
from tests.site.serving import PATIENCE_S, TASKMACHINE, first_line_of, served


def _lines(path: str, language: str) -> list[str]:
    text = "".join(block.text for block in blocks_of(path, language))
    return [line.partition("  #")[0].strip() for line in text.splitlines() if line.strip()]


def test_programs_of_the_tests_know_their_options() -> None:
    commands = re.findall(
        r"python -m (tests[\w.]*)(.*)", "\n".join(_lines("docs/explanation/testing.md", "sh"))
    )
    assert len(commands) > 4
    for module, rest in commands:
        if module == "tests.mutation":  # it takes no options
            assert "--" not in rest
            continue
        command = [sys.executable, "-m", module]
        if module == "tests.peers":
            command += [word for word in shlex.split(rest) if not word.startswith("--")][:1]
        shown = subprocess.run(
            [*command, "--help"], cwd=REPOSITORY, check=True, capture_output=True, text=True
        ).stdout
        for option in re.findall(r"--[\w-]+", rest):
            assert option in shown, f"{module} has no {option}"
        for name in shlex.split(rest)[1:] if module == "tests.peers" else []:
            assert name in shown.replace("\n", " "), f"there is no client {name}"


def test_the_page_names_the_pieces_of_the_second_lane() -> None:
    text = page("docs/explanation/testing.md")
    for name in PIECES:
        assert f"`{name}`" in text
    commands = _lines("docs/explanation/testing.md", "sh")
    assert {
        name for line in commands for name in re.findall(r"pytest -m (\w+)", line) if name != "slow"
    } <= set(PIECES)


def test_extras_that_pages_name_are_there() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for path in PAGES:
        for names in re.findall(r"(?:taskmachine|\.)\[([\w,]+)\]'", page(path)):
            missing = set(names.split(",")) - project["optional-dependencies"].keys()
            assert not missing, f"{path} names {missing}"


def test_page_lists_every_option_of_the_call_command() -> None:
    [usage] = blocks_of("docs/howto/client.md", "")
    shown = subprocess.run(
        [TASKMACHINE, "call", "--help"], check=True, capture_output=True, text=True
    ).stdout.partition("examples:")[0]
    for option in re.findall(r"--[\w-]+", shown):
        assert option in usage.text or option == "--help"
    for option in re.findall(r"--[\w-]+", usage.text):
        assert option in shown


def test_calls_of_the_page_are_answered(tmp_path: Path) -> None:
    first, second, third = _lines("docs/howto/client.md", "sh")
    with served(tmp_path, "--tools", "demo") as address:
        quick = first.replace("to=20", "to=2").replace("127.0.0.1:8000", address)
        assert _said(quick, tmp_path) == '{"counted":2}'
        assert "the last number" in _said(third.replace("127.0.0.1:8000", address), tmp_path)
    assert _said(second, tmp_path) == "1.4 was not deployed: not confirmed."


def _said(command: str, folder: Path) -> str:
    command = command.replace("taskmachine", TASKMACHINE)
    ended = subprocess.run(
        shlex.split(command),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_server_start_lines_match_the_page(tmp_path: Path) -> None:
    [program] = blocks_of("docs/howto/server.md", title="shop.py")
    (tmp_path / "shop.py").write_text(
        "from taskmachine import Tools\ntools = Tools()\n"
        + "".join(f"@tools.task()\ndef tool{n}() -> None: ...\n" for n in range(3))
        + program.text
    )
    (tmp_path / "server.toml").write_text('store = "sqlite:taskmachine.db"\n')
    address = f"127.0.0.1:{free_port()}"
    programs = {"python": sys.executable, "taskmachine": TASKMACHINE}
    shown = next(blocks_of("docs/howto/server.md", "text"))
    lines = shown.text.splitlines()
    for command, said in zip(lines[::2], lines[1::2], strict=True):
        _, name, *arguments = shlex.split(command.replace("127.0.0.1:8000", address))
        line = first_line_of(tmp_path, programs[name], *arguments, "--log-level", "error")
        assert line == said.replace("127.0.0.1:8000", address)
