#!/usr/bin/env python3
"""A client that shows the progress of a call, and lets a person answer the tool's questions.

    python questions.py                                starts plain_server.py itself
    python questions.py http://127.0.0.1:8000/mcp      for a running server

The end of the input (Ctrl-D) declines a question.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from taskmachine import TaskmachineError, connect
from taskmachine.client import Field, Question, fields_of

SERVER = [sys.executable, str(Path(__file__).with_name("plain_server.py"))]


async def answer(question: Question) -> dict[str, Any]:
    """Answer a question while the call continues; called once for each."""
    print("asked:", question.message, flush=True)
    try:
        typed = {field.name: await fill_in(field) for field in fields_of(question.params)}
    except EOFError:
        return question.decline()
    return question.accept(**{name: value for name, value in typed.items() if value is not None})


async def fill_in(field: Field) -> Any:
    while True:
        try:
            return field.read(await asyncio.to_thread(input, f"  {field.label}: "))
        except ValueError as error:
            print(f"  {error}")


async def main(target: str | list[str]) -> None:
    async with connect(target, answer=answer) as session:
        task = await session.call("order", {"items": 3})
        async for update in task:  # until the end
            print(f"{update.status}: {update.message or ''}", flush=True)
        result = await task.result()
        print(result["content"][0]["text"])


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if sys.argv[1:] else SERVER))
    except TaskmachineError as error:
        sys.exit(str(error))
