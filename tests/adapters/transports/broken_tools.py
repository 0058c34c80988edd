"""Tools that cannot be listed, because one has a number as its name."""

from typing import Any, Final

import attrs

from taskmachine.adapters.tools.registry import Tools

TOOLS: Final = Tools()
NAME: Final[Any] = 7


async def tool() -> None:
    """Do nothing."""


named = Tools()
named.add(tool)
TOOLS.add(attrs.evolve(named["tool"], name=NAME))
