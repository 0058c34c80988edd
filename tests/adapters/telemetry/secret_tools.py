"""Tools with a secret in all their texts, for `taskmachine serve --tools`."""

from typing import Any

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import CallError, ToolError, Tools

TOOLS = Tools()


@TOOLS.task()
async def tell(secret: str, ctx: Context) -> str:
    await ctx.status(f"status {secret}")
    await ctx.progress(1, 2, f"progress {secret}")
    asked = {"type": "object", "properties": {"name": {"type": "string", "title": secret}}}
    answer = await ctx.ask("name", form(f"question {secret}", asked))
    return f"result {secret} {answer.content['name']}"


@TOOLS.task()
async def crash(secret: str) -> str:
    raise RuntimeError(f"raised {secret}")


@TOOLS.task()
async def refuse(secret: str) -> str:
    raise CallError(-32050, f"refused {secret}", {"data": secret})


@TOOLS.task()
async def fail(secret: str) -> str:
    raise ToolError(f"failed {secret}")


@TOOLS.task()
async def return_nonsense(secret: str) -> Any:
    return {"nonsense": object(), "secret": secret}
