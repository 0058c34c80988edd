"""Tools of a process whose background work fails and is not restarted."""

from typing import Any, Final

from taskmachine.adapters.runtime import runtime
from taskmachine.adapters.stores import supervision
from taskmachine.adapters.tools.registry import Tools

TOOLS: Final = Tools()


async def broken(*_: Any) -> int:
    raise OSError("the disk is gone")


supervision.MAX_RESTARTS = 0  # type: ignore[misc]
runtime.sweep = broken  # type: ignore[attr-defined, assignment]
