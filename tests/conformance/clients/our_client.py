"""The client of this package as the tester runs it: `our_client.py GENERATION URL`.

Or `our_client.py GENERATION COMMAND...`.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.receiving import Receiver
from taskmachine.adapters.client.remote_task import Question
from taskmachine.adapters.client.session import Session
from taskmachine.statemachine import TaskmachineError


async def answer(question: Question) -> dict[str, Any]:
    """Anything will do."""
    if question.method == "sampling/createMessage":
        text = {"type": "text", "text": "Anything."}
        return {"role": "assistant", "content": text, "model": "none"}
    return question.accept(stage="live")


def arguments_for(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the default values of a schema."""
    properties = schema.get("properties", {})
    return {name: p["default"] for name, p in properties.items() if "default" in p}


async def call(session: Session, tool: dict[str, Any]) -> None:
    """One call to its end; those who want to be cancelled are."""
    try:
        task = await session.call(tool["name"], arguments_for(tool["inputSchema"]))
        if tool["name"] == "cancel_me":
            await task.cancel()
        await task.result()
    except TaskmachineError as error:
        print(tool["name"], error, file=sys.stderr)


async def main(generation: str, target: str | Sequence[str]) -> None:
    """Call every tool once."""
    forced = None if generation == "any" else generation
    async with connect(
        target,
        generation=forced,
        answer=answer,
        sampling=True,
        receive=Receiver(),
        timeout=10,
    ) as session:
        for tool in await session.tools():
            if tool["name"] == "give_up":
                try:
                    async with asyncio.timeout(1):
                        await call(session, tool)
                except TimeoutError:
                    pass
            else:
                await call(session, tool)


if __name__ == "__main__":
    generation, *target = sys.argv[1:]
    print(os.environ.get("MCP_CONFORMANCE_SCENARIO"), file=sys.stderr)
    try:
        asyncio.run(main(generation, target[0] if target[0].startswith("http") else target))
    except TaskmachineError as error:
        sys.exit(f"error: {error}")
