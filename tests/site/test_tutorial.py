"""The tutorial, followed to the letter in an empty environment.

Blocks are taken from the page in their order.  Programs are saved under their titles, commands
are typed in the terminal that they name, and the shown output must appear there.
"""

import asyncio
import json
import os
import re
import shutil
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from tests.oracle import REPOSITORY
from tests.ports import free_port
from tests.site.pages import Block, blocks_of

PAGE: Final = "docs/tutorial/first-server.md"
PATIENCE_S: Final = 90.0
"""For one command: the longest installs packages."""


@attrs.define
class Terminal:
    """A shell for a typing user."""

    shell: Process
    seen: str = ""
    _read: int = 0
    _commands: int = 0

    @classmethod
    async def open(cls, folder: Path) -> "Terminal":
        # Nothing of this environment: `.venv/bin/taskmachine` must be the one that was installed.
        names = ("HOME", "PATH", "LANG", "PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_FIND_LINKS")
        shell = await asyncio.create_subprocess_exec(
            *("bash", "--noprofile", "--norc"),
            cwd=folder,
            env={name: os.environ[name] for name in names if name in os.environ},
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
        return cls(shell)

    async def type(self, text: str) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(text.encode())
        await self.shell.stdin.drain()

    async def run(self, command: str) -> None:
        """Type a command, and wait for its exit status 0; `shows` reads its output."""
        self._commands += 1
        await self.type(f"{command}\necho left {self._commands} with $?\n")
        await self._wait_for(rf"left {self._commands} with 0\n")

    async def shows(self, pattern: str) -> str:
        """Wait until the pattern appears after the last match."""
        found = await self._wait_for(pattern)
        self._read = found.end()
        return found[0]

    async def _wait_for(self, pattern: str) -> re.Match[str]:
        assert self.shell.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                while (found := re.compile(pattern).search(self.seen, self._read)) is None:
                    said = await self.shell.stdout.read(65_536)
                    assert said, f"it ended without {pattern!r}:\n{self.seen}"
                    self.seen += said.decode()
        except TimeoutError:
            raise AssertionError(f"no {pattern!r}:\n{self.seen}") from None
        return found

    async def close(self) -> None:
        """Kill the shell and all its processes, which share its session."""
        os.killpg(self.shell.pid, signal.SIGKILL)
        await self.shell.communicate()


def test_the_tutorial_leads_to_a_durable_server(tmp_path: Path) -> None:
    asyncio.run(_follow(tmp_path))


async def _follow(folder: Path) -> None:
    leftovers = shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "*.egg-info", "tests")
    shutil.copytree(REPOSITORY, folder / "taskmachine", ignore=leftovers)
    here = {"127.0.0.1:8000": f"127.0.0.1:{free_port()}"}
    terminals = {f"terminal {number}": await Terminal.open(folder) for number in (1, 2)}
    try:
        for step in _steps(list(blocks_of(PAGE))):
            await _take(step, folder, terminals, here)
    finally:
        for terminal in terminals.values():
            await terminal.close()


@attrs.frozen
class Step:
    """A block, and whether its command ends before the next block."""

    block: Block
    is_awaited: bool


def _steps(blocks: list[Block]) -> Iterator[Step]:
    """Mark the command that reads typed input; all others end before the next block."""
    typed = [block.title for block in blocks].index("typed in terminal 2")
    asking = max(
        at for at in range(typed) if blocks[at].language == "sh" and "2" in blocks[at].title
    )
    for at, block in enumerate(blocks):
        yield Step(block, at != asking)


async def _take(
    step: Step, folder: Path, terminals: dict[str, Terminal], here: dict[str, str]
) -> None:
    text = step.block.text
    for shown, actual in here.items():
        text = text.replace(shown, actual)
    match step.block.language, step.block.title:
        case "python", name:
            (folder / name).write_text(text)
        case "sh", name if step.is_awaited:
            await terminals[name].run(text.strip())
        case "sh", name:
            await terminals[name].type(text)
        case "text", "typed in terminal 2":
            await _has_no_worker(folder, here["TASK"])
            await terminals["terminal 2"].type(text)
        case "text", name:
            if shown := await terminals[name].shows(_as_pattern(text)):
                here |= _task_of(shown)
        case other:
            raise AssertionError(f"no rule for {other}")


def _as_pattern(text: str) -> str:
    """Return a pattern for shown output, with wildcards for ids, times and widths."""
    pattern = re.escape(text.strip())
    pattern = re.sub(r"\b[\w\\-]{32,}(?=\\ |$)", r"\\S{32}", pattern, flags=re.MULTILINE)
    pattern = re.sub(r"\d{4}\\-\d\d\\-\d\d\\ [\d:]+\\\.\d{3}", r"[\\d: .-]{23}", pattern)
    pattern = re.sub(r"\d+\\\.\d+s", r"\\d+\.\\d+s", pattern)
    pattern = re.sub(r"\b\d+([sm])\b", r"\\d+\1", pattern)
    pattern = re.sub("─+", "─+", pattern)
    return re.sub(r"(\\ )+", r" +", pattern).replace("\\\n", r" *\n *")


async def _has_no_worker(folder: Path, task_id: str) -> None:
    """Wait until the new server has released the task, as it has when a person types."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            show = await asyncio.create_subprocess_exec(
                *(".venv/bin/taskmachine", "tasks", "show", task_id),
                *("--store", "sqlite:shop.db", "--json"),
                cwd=folder,
                stdout=PIPE,
            )
            printed, _ = await show.communicate()
            if json.loads(printed)["worker"] is None:
                return


def _task_of(shown: str) -> dict[str, str]:
    found = re.match(r"task (\S{32})", shown)
    return {"TASK": found[1]} if found else {}
