"""The cycle on the store of the Python SDK; runs in the SDK's own environment."""

import asyncio
import json
import sys
import time

from mcp.shared.experimental.tasks.in_memory_task_store import (
    InMemoryTaskStore,
)
from mcp.types import (
    CallToolResult,
    TaskMetadata,
    TextContent,
)

RESULT = CallToolResult(content=[TextContent(type="text", text="done")])


async def cycle(store: InMemoryTaskStore) -> None:
    task = await store.create_task(TaskMetadata(ttl=3_600_000))
    await store.store_result(task.taskId, RESULT)
    await store.update_task(task.taskId, status="completed")
    await store.get_task(task.taskId)


async def measure(store: InMemoryTaskStore, n: int) -> float:
    start = time.perf_counter()
    for _ in range(n):
        await cycle(store)
    return (time.perf_counter() - start) / n * 1e6


async def main(retained: int) -> None:
    empty = min([await measure(InMemoryTaskStore(), 20) for _ in range(50)])
    full = InMemoryTaskStore()
    for _ in range(retained):  # through `_tasks`, since `create_task` scans all tasks
        apart = InMemoryTaskStore()
        await cycle(apart)
        full._tasks.update(apart._tasks)
    print(json.dumps({"empty": empty, "full": min([await measure(full, 2) for _ in range(5)])}))


asyncio.run(main(int(sys.argv[1])))
