"""Programs that tests write, start and stop."""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.wire_faults.server_process import eventually

__all__ = ["COMMAND", "ORDER", "Program", "ended"]

COMMAND: Final = [str(Path(sys.executable).with_name("taskmachine"))]

ORDER: Final = """
import asyncio
import os

from taskmachine import Context, Tools, form

print("from the module")
tools = Tools()


@tools.task()
async def greet(name: str) -> str:
    print("from the tool")
    os.system("echo from a process")
    return f"Hello, {name}!"


@tools.task()
async def order(item: str, ctx: Context) -> str:
    answer = await ctx.ask("agree", form(f"Order {item}?", {"type": "object", "properties": {}}))
    return f"Ordered {item}: {answer.action}."


@tools.task()
async def pack() -> str:
    with open("runs", "a") as runs:
        runs.write("x")
    while not os.path.exists("packed"):
        await asyncio.sleep(0.01)
    return "packed"


if __name__ == "__main__":
    tools.run()
"""


def ended(*command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, with empty input."""
    return subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )


class Program:
    """A program whose log is read while it runs."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._log = folder / "program.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stderr=log
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until_logged(self, pattern: str, times: int = 1) -> str:
        """Return the first group of the last match."""

        def found() -> list[str]:
            matches = re.findall(pattern, self.log)
            assert len(matches) >= times or self.process.poll() is None, self.log
            return matches if len(matches) >= times else []

        matches: list[str] = eventually(found, f"{times} x {pattern!r} in the log")
        return matches[-1]

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)
