"""A process that works on a SQLite store while others do the same: `hammer PATH NAME ROUNDS`.

It waits for a line on its standard input, so that all begin together.  It moves three tasks
ROUNDS times each, making them if need be, and prints what it knows afterwards.
"""

import asyncio
import json
import sys

from taskmachine.adapters.stores import Caps, Conflict
from taskmachine.adapters.stores.sqlite import SQLiteStore, open_sqlite
from taskmachine.statemachine import Call, lifecycle


async def move(store: SQLiteStore, task_id: str, name: str, rounds: int) -> int:
    """How often somebody else was faster."""
    step = lifecycle.submit(task_id, "alice", Call("tools/call", task_id, key="k"), 1, ttl_ms=9)
    await store.create(step.task, step.entry, Caps())
    conflicts = 0
    while rounds:
        task = await store.load(task_id)
        assert task is not None
        report = lifecycle.report(task, 2, message=name)
        try:
            await store.commit(report.task, [report.entry], task.version)
            rounds -= 1
        except Conflict:
            conflicts += 1
    return conflicts


async def main(path: str, name: str, rounds: int) -> None:
    store = await open_sqlite(f"sqlite:{path}")
    conflicts = await asyncio.gather(*(move(store, task, name, rounds) for task in "abc"))
    print(json.dumps({"secret": (await store.secret()).hex(), "conflicts": sum(conflicts)}))
    await store.close()


if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
