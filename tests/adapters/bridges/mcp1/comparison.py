# mypy: ignore-errors
"""Run the same script on the bundled store or on ours: `comparison.py STORE SCENE...`.

Prints a JSON line per scene.  STORE is `bundled` or the URL of one of our stores.
"""

import asyncio
import json
import sys
import time
from functools import partial

import anyio
from mcp.shared.experimental.tasks.in_memory_task_store import InMemoryTaskStore
from mcp.types import TaskMetadata

from taskmachine.adapters.bridges.mcp1 import TaskmachineStore, enable_tasks
from tests.adapters.bridges.mcp1.served import Served, said, text_of

FEW, MANY, AT_A_TIME = 100, 10_000, 200
MANY_BUNDLED = 2_000  # filling it with more takes minutes


def served(store):
    if store == "bundled":
        return Served(lambda server: server.experimental.enable_tasks())
    return Served(partial(enable_tasks, url=store))


async def cancel_then_finish(store):
    """A tool returns after its task was cancelled."""
    it = served(store)
    async with it.client() as caller:
        task = await caller.create("wait")
        await caller.cancel(task.taskId)
        it.go[task.taskId].set()
        await it.ends(task.taskId, "returned")
        again = await caller.create("say")
        return [await caller.status(task.taskId), text_of(await caller.result(again.taskId))]


async def ttl_shorter_than_the_run(store):
    """A tool returns after the TTL that the client requested."""
    it = served(store)
    async with it.client() as caller:
        task = await caller.create("wait", ttl=1)
        later = time.monotonic() + 0.02
        while time.monotonic() < later:
            await caller.session.send_ping()
        await caller.list()  # this makes the bundled store look for expired tasks
        it.go[task.taskId].set()
        await it.ends(task.taskId, "returned")
        return text_of(await caller.result(task.taskId))


async def two_wait(store):
    """Two requests wait for one result; return how many get it."""
    it, results = served(store), []
    async with it.client() as caller:
        task = await caller.create("wait")

        async def collect():
            results.append(await caller.result(task.taskId))

        with anyio.move_on_after(1):
            async with anyio.create_task_group() as group:
                group.start_soon(collect)
                group.start_soon(collect)
                await caller.list()  # they were sent before, so they are waiting now
                it.go[task.taskId].set()
        return len(results)


async def twenty_sessions(store):
    """Each session creates a task; return how many the last one sees."""
    it, made = served(store), set()
    for _ in range(20):
        async with it.client() as caller:
            task = await caller.create("say")
            made.add(task.taskId)
            await caller.result(task.taskId)
            listed = {shown.taskId for shown in (await caller.list()).tasks}
    return len(listed & made)


async def many_retained(store):
    """Compare the cost of a read, and of a whole task, among many tasks and among few.

    The cost is the minimum processor time of 30 rounds, which excludes the disk and other load.
    """
    it = InMemoryTaskStore() if store == "bundled" else TaskmachineStore(store)

    async def life():
        task = await it.create_task(TaskMetadata(ttl=600_000))
        await it.store_result(task.taskId, said("done"))
        await it.update_task(task.taskId, status="completed")
        return task.taskId

    async def measured():
        reads, lives = [], []
        for _ in range(30):
            began = time.process_time()
            for _ in range(10):
                await it.get_task(task_id)
            read = time.process_time()
            await life()
            lives.append(time.process_time() - read)
            reads.append(read - began)
        return min(reads), min(lives)

    task_id = await life()
    await asyncio.gather(*(life() for _ in range(FEW)))
    few = await measured()
    rest = (MANY_BUNDLED if store == "bundled" else MANY) - FEW - 100
    for begun in range(0, rest, AT_A_TIME):
        await asyncio.gather(*(life() for _ in range(min(AT_A_TIME, rest - begun))))
    many = await measured()
    return {"read": many[0] / few[0], "life": many[1] / few[1]}


if __name__ == "__main__":
    _, store, *scenes = sys.argv
    for scene in scenes:
        print(json.dumps(anyio.run(globals()[scene], store)))
