"""Tools that cannot be listed, because one has a number as its name."""

from typing import Any, Final

from taskmachine.adapters.tools.registry import Tools

TOOLS: Final = Tools()
NAME: Final[Any] = 7


@TOOLS.task(NAME)
async def tool() -> None:
    """Do nothing."""
