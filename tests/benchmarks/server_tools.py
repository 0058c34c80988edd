"""The tools of our server while it is measured: one, that has nothing to do."""

from typing import Final

from taskmachine.adapters.tools import Tools
from tests.benchmarks.server_dialogs import TEXT, TOOL

__all__ = ["TOOLS"]

TOOLS: Final = Tools()


async def _done() -> str:
    return TEXT


TOOLS.task(name=TOOL)(_done)
