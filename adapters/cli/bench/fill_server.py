"""Our server with the additional tool `fill`, which stores ended tasks faster than by requests.

`python -m taskmachine.adapters.cli.bench.fill_server STORE FILE`, with settings in TOML.
"""

import asyncio
import gc
import sys
from typing import Final

from taskmachine.adapters.cli.bench.requester import FILL, TEXT, TOOL
from taskmachine.adapters.cli.bench.tools import TOOLS
from taskmachine.adapters.runtime.runtime import (
    Runtime,
    RuntimeConfig,
    new_id,
    open_runtime,
    system_clock,
)
from taskmachine.adapters.server.application import serve_http
from taskmachine.adapters.server.foreground import announce, run_until_signalled
from taskmachine.adapters.stores import Store
from taskmachine.adapters.transports.settings import Settings, load_settings
from taskmachine.statemachine import Call, Outcome, lifecycle

__all__ = ["fill"]

BATCH: Final = 500
SHOWN: Final = 100
TTL_MS: Final = 86_400_000


async def fill(store: Store, count: int) -> str:
    """Add ended tasks for the owner of the newest one; return some of their ids."""
    [newest] = await store.browse(None, 1)
    now = system_clock()
    ids: list[str] = []
    for begin in range(0, count, BATCH):
        size = min(BATCH, count - begin)
        made = [_adopt(store, newest.owner, now - count + begin + number) for number in range(size)]
        ids += (await asyncio.gather(*made))[:1]
    gc.collect()
    return " ".join(ids[-SHOWN:])


async def _adopt(store: Store, owner: str, at: int) -> str:
    """Share no values between tasks, so that each uses as much memory as a task by a request."""
    task_id = new_id()
    call = Call("tools/call", TOOL, b'{"n":%d}' % at)
    result = f'{{"content":[{{"type":"text","text":"{TEXT}"}}]}}'.encode()
    made = lifecycle.submit(task_id, owner, call, at, ttl_ms=TTL_MS)
    begun = lifecycle.start(made.task, at, worker=task_id)
    ended = lifecycle.complete(begun.task, at, Outcome.of_result(result))
    await store.adopt(ended.task, (made.entry, begun.entry, ended.entry))
    return task_id


async def _serve(settings: Settings) -> None:
    opened: list[Runtime] = []

    async def filling(count: int) -> str:
        return await fill(opened[0].service.store, count)

    TOOLS.task(name=FILL, support="forbidden", timeout=3_600)(filling)
    async with open_runtime(
        settings.store, TOOLS, RuntimeConfig(limits=settings.limits)
    ) as runtime:
        opened.append(runtime)
        await serve_http(runtime, settings, ready=announce)


if __name__ == "__main__":
    store, file = sys.argv[1:]
    flags = {"store": store, "http": "127.0.0.1:0"}
    run_until_signalled(_serve(load_settings(file, {}, flags)))
