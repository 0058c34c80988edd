"""`taskmachine dev`: changes of the code are loaded, and tasks stay."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from taskmachine import connect
from taskmachine.adapters.engines.worker import GRACE_S
from tests.adapters.cli.programs import COMMAND, ORDER, Program, ended
from tests.processes import assert_gone
from tests.wire_faults.server_process import eventually

WORDS = ["One", "Two", "Three", "Four"]
SERVING = r"serving 3 tools on (\S+), tasks in"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(ORDER)
    return tmp_path


@contextmanager
def developing(folder: Path, *arguments: str) -> Iterator[Program]:
    """Run the command with a browser that only writes down the URLs."""
    browser = folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {folder}/visited\n')
    browser.chmod(0o700)
    command = [*COMMAND, "dev", "shop.py", "--log-level", "error", *arguments]
    program = Program(command, folder, {**os.environ, "BROWSER": str(browser)})
    try:
        yield program
        assert program.end(signal.SIGTERM) == 0
        assert "Traceback" not in program.log
    finally:
        program.process.kill()
        program.process.wait()


def change(folder: Path, old: str, new: str) -> None:
    path = folder / "shop.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


async def test_tasks_continue_while_their_code_changes(folder: Path) -> None:
    """More often than tasks may lose their worker, and without waiting for tools to end."""
    asked, answered = asyncio.Event(), asyncio.Event()
    runs = folder / "runs"

    async def answer(question: Any) -> Any:
        asked.set()
        await answered.wait()
        return question.accept()

    def is_running_again(times: int) -> bool:
        return runs.read_text() == times * "x"

    with developing(folder) as program:
        url = program.until_logged(SERVING)
        async with connect(url, answer=answer) as session:
            order = await session.call("order", {"item": "tea"})
            await asked.wait()
            pack = await session.call("pack", {})
            eventually(runs.exists, "the tool runs")
            began = time.monotonic()
            for times, word in enumerate(WORDS, 2):
                change(folder, 'return f"', f'return f"{word} ')
                program.until_logged(SERVING, times)
                eventually(partial(is_running_again, times), "the tool runs again")
            assert time.monotonic() - began < GRACE_S * len(WORDS)
            (folder / "packed").touch()
            assert (await pack.result())["content"][0]["text"] == "packed"
            answered.set()
            text = (await order.result())["content"][0]["text"]
    assert text == "Four Three Two One Ordered tea: accept."
    assert (folder / "taskmachine.db").exists()
    [visited] = (folder / "visited").read_text().splitlines()
    assert f"console: {visited}\n" in program.log


def test_a_broken_change_shows_its_error_and_waits_for_the_next(folder: Path) -> None:
    change(folder, "tools = ", "tools = = ")
    with developing(folder) as program:
        program.until_logged(r"error: shop\.py:8: SyntaxError: invalid syntax, in: tools = = Tools")
        program.until_logged("waiting for the next change")
        assert not (folder / "visited").exists()
        (folder / "notes.txt").write_text("not a Python file")
        change(folder, "tools = = ", "tools = ")
        program.until_logged(SERVING)
        eventually((folder / "visited").exists, "the console is opened")
    assert program.log.count("reloading after a change of shop.py") == 1
    assert "notes.txt" not in program.log


def test_the_next_port_is_used_unless_one_was_selected(folder: Path) -> None:
    here, there = folder / "here", folder / "there"
    for place in (here, there):
        place.mkdir()
        (place / "shop.py").write_text(ORDER)
    with developing(here, "--no-browser") as first:
        url = first.until_logged(SERVING)
        with developing(there, "--no-browser") as second:
            assert int(second.until_logged(SERVING)[17:21]) > int(url[17:21])
        with developing(there, "--http", url[7:-4]) as third:
            third.until_logged(f"cannot listen on {url[7:-4]}: Address already in use")
    assert not (here / "visited").exists()


def test_the_server_ends_with_the_command(folder: Path) -> None:
    with developing(folder, "--no-browser") as program:
        program.until_logged(SERVING)
        children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children")
        pids = [int(pid) for pid in children.read_text().split()]
        program.end(signal.SIGKILL)
        assert_gone(*pids)
        program.end = lambda number: 0  # type: ignore[method-assign]


WITHOUT = """
import sys
sys.modules["watchfiles"] = None
from taskmachine.adapters.cli.main import main
sys.exit(main(["dev", "shop.py"]))
"""


def test_a_file_that_does_not_exist_is_refused(folder: Path) -> None:
    done = ended(*COMMAND, "dev", "nowhere/shop.py", folder=folder)
    assert done.returncode == 2
    assert done.stderr == (
        f"taskmachine: error: tools 'nowhere/shop.py': there is no file {folder}/nowhere/shop.py\n"
    )


def test_a_missing_package_is_named(folder: Path) -> None:
    done = ended(sys.executable, "-c", WITHOUT, folder=folder)
    assert done.returncode == 2
    assert done.stderr == (
        "taskmachine: error: dev needs the package watchfiles: pip install 'taskmachine[dev]'\n"
    )
