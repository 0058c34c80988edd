"""Tools that cannot be listed: the name of one is no text."""

from typing import Any, Final

from taskmachine.adapters.tools.registry import Tools

TOOLS: Final = Tools()
NAME: Final[Any] = 7


@TOOLS.task(NAME)
async def tool() -> None:
    """Nobody can call it."""
