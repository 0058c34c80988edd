"""A process that writes to a store concurrently with others: `concurrent_writers URL NAME ROUNDS`.

It waits for a line on its standard input, so that all begin together.  It moves three tasks
ROUNDS times each, creating them if necessary, and prints the secret and the number of conflicts.
"""

import asyncio
import json
import subprocess
import sys
from typing import Any

from taskmachine.adapters.stores import Caps, Conflict, Store, open_store
from taskmachine.statemachine import Call, lifecycle
from tests.oracle import REPOSITORY

__all__ = ["write_concurrently"]


async def move(store: Store, task_id: str, name: str, rounds: int) -> int:
    """Move a task; return how often another process was faster."""
    step = lifecycle.submit(task_id, "alice", Call("tools/call", task_id, key="k"), 1, ttl_ms=9)
    await store.create(step.task, [step.entry], Caps())
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


async def main(url: str, name: str, rounds: int) -> None:
    store = await open_store(url)
    conflicts = await asyncio.gather(*(move(store, task, name, rounds) for task in "abc"))
    print(json.dumps({"secret": (await store.secret()).hex(), "conflicts": sum(conflicts)}))
    await store.close()


def write_concurrently(url: str, count: int, rounds: int) -> list[dict[str, Any]]:
    """Run processes that begin together; return what each printed."""
    command = [sys.executable, "-m", "tests.adapters.stores.concurrent_writers", url]
    processes = [
        subprocess.Popen(
            [*command, f"process {number}", str(rounds)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    ends = [(process.communicate(), process.returncode) for process in processes]
    assert [(error, code) for (_, error), code in ends] == [("", 0)] * count
    return [json.loads(output) for (output, _), _ in ends]


if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
