#!/usr/bin/env python3
"""A server with a slow tool that reports progress and asks a person.

    python plain_server.py                    on standard input and output
    python plain_server.py 127.0.0.1:8000     over HTTP, at /mcp

Tasks are kept in `plain.db`.  Kill it during a task and start it again: the tool runs
again, answers are kept, and the caller gets the result.
"""

import asyncio
import sys
from typing import Annotated

from pydantic import BaseModel, Field

from taskmachine import Context, TaskmachineError, Tools, open_runtime
from taskmachine.server import Settings, serve_http, serve_stdio

tools = Tools()


class Delivery(BaseModel):
    to: str = Field(title="Deliver to", min_length=1)
    gift: bool = Field(default=False, title="Wrap it as a gift")


@tools.task(timeout=60, immediate="The order is being packed; the task shows the progress.")
async def order(ctx: Context, items: Annotated[int, Field(ge=1, le=100)] = 3) -> str:
    """Pack some items and send them to the recipient that a person names."""
    for number in range(1, items + 1):
        await asyncio.sleep(0.1)
        await ctx.progress(number, items + 1, f"{number} of {items} packed")
    answer = await ctx.ask("delivery", "Where does it go?", Delivery)
    if answer.value is None:
        return "Nothing was sent."
    await ctx.progress(items + 1, items + 1, "on its way")
    wrapped = ", as a gift" if answer.value.gift else ""
    return f"Sent {items} items to {answer.value.to}{wrapped}."


async def main(address: str | None = None) -> None:
    async with open_runtime("sqlite:plain.db", tools) as runtime:
        if address is None:
            await serve_stdio(runtime)
        else:
            await serve_http(runtime, Settings(http=address), ready=announce)


def announce(url: str) -> None:
    print("serving on", url, flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except KeyboardInterrupt:  # the way to stop it
        pass
    except TaskmachineError as error:
        sys.exit(str(error))
