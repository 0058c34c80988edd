"""Plain functions as tools on virtual time."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import attrs

from taskmachine.adapters.testing.loop import TestLoop
from taskmachine.adapters.tools.registry import Threads, Tool, Tools
from taskmachine.adapters.tools.sync_context import SyncContext

__all__ = ["on_virtual_time"]

_T = TypeVar("_T")


def on_virtual_time(tools: Tools, loop: TestLoop) -> Tools:
    """Return the same tools; time stands still while one works in a thread."""
    found = Tools(lifespan=tools.lifespan)
    for tool in tools.values():
        found.add(tool if tool.is_coroutine else _in_thread(tool, loop))
    return found


def _in_thread(tool: Tool, loop: TestLoop) -> Tool:
    parameter = tool.signature.context_parameter
    threads = Threads(1_000)

    async def function(**values: Any) -> Any:
        if parameter is not None:
            values[parameter] = _Context(values[parameter], loop)
        with loop.thread_works():
            return await threads.run(lambda: tool.function(**values), tool.name)

    return attrs.evolve(tool, function=function)


class _Context(SyncContext):
    def _wait(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        assert isinstance(self._loop, TestLoop)
        return super()._wait(self._loop.thread_waits(coroutine))
