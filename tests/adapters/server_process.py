"""A server in a separate process: `python -m tests.adapters.server_process URL`.

Prints a line for each event and exits when its standard input closes.
"""

import asyncio
import sys

from taskmachine.adapters.runtime.runtime import open_runtime
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Call

OWNER = "alice"

tools = Tools()


def say(*words: object) -> None:
    print(*words, flush=True)


@tools.task()
async def hold(ctx: Context) -> str:
    """Runs until it is stopped."""
    ctx.on_cancel(lambda: say("stopped", ctx.task_id))
    await ctx.status("holding")
    say("running", ctx.task_id)
    await asyncio.Event().wait()
    return "never"


@tools.task()
async def pass_on(name: str, ctx: Context) -> str:
    """Runs until its worker is lost, and ends in another process."""
    say("passing", ctx.task_id)
    if name == sys.argv[2]:
        await asyncio.Event().wait()
    return f"not by {name}"


async def serve(url: str) -> None:
    async with open_runtime(url, tools) as runtime:
        say("ready")
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        async for line in reader:
            match line.decode().split():
                case ["create", tool, *arguments]:
                    body = "".join(arguments) or "{}"
                    call = Call("tools/call", tool, body.encode())
                    say("created", (await runtime.create(OWNER, Create(call))).id)
                case ["collect", task_id]:
                    task = await runtime.service.collect(OWNER, task_id)
                    assert task.outcome is not None
                    say("ended", task_id, task.state, task.outcome.cause)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
