"""The tools of an SDK server as tools of the runtime."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from taskmachine.adapters.bridges.mcp.host import Host
from taskmachine.adapters.bridges.mcp.selection import Selection
from taskmachine.adapters.stores import Store
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.registry import Threads, Tool, Tools
from taskmachine.adapters.tools.results import to_json
from taskmachine.adapters.tools.signatures import Signature
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["BridgedTools"]


class BridgedTool(Tool):
    """A tool whose arguments are validated, and which is called, by the SDK."""

    async def _call(self, values: dict[str, Any], context: Context, threads: Threads) -> Any:
        return await self.function(values, context)


class BridgedTools(Tools):
    """The known tools of a server that may become tasks.

    A server may add tools at any time; `look` finds them.
    """

    def __init__(self, host: Host, selection: Selection, store: Store) -> None:
        super().__init__()
        self._host = host
        self._selection = selection
        self._store = store
        self._definitions: dict[str, JSONObject] = {}

    async def look(self, name: str | None = None) -> None:
        """Fetch the list of tools, unless the tool is known."""
        if name not in self._definitions:
            self._definitions |= await self._host.tools()

    def __getitem__(self, name: str) -> Tool:
        terms = self._selection.terms(name) if name in self._definitions else None
        if terms is None:
            raise KeyError(name)
        definition = self._definitions[name]
        return BridgedTool(
            name,
            partial(self._run, name),
            Signature(
                definition["inputSchema"],
                definition.get("outputSchema"),
                write=to_json,  # 2025-11-25:result-exactly-underlying
            ),
            definition.get("description"),
            terms.support,
            terms.timeout_ms,
            terms.is_repeatable,
            terms.poll_interval_ms,
            terms.immediate,
            terms.priority,
            terms.first,
        )

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._definitions if self._selection.terms(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    async def _run(self, name: str, arguments: JSONObject, context: Context) -> Any:
        task_id = context.task_id
        assert task_id is not None, "plain calls are the SDK's own"
        task = await self._store.load(task_id)
        if task is None:
            raise Gone(f"task {task_id} is no longer there")
        return await self._host.call(name, arguments, context, task.call.answers)
