"""A store left by a server, for the tests of operators and docs/reference/cli.md."""

from collections.abc import Callable
from itertools import count

from taskmachine.adapters.runtime.claims import claim
from taskmachine.adapters.runtime.runtime import (
    RuntimeConfig,
    Surroundings,
    new_id,
    open_runtime,
    system_clock,
)
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import open_store
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import CallError, Tools
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.protocol.operations import Answer, Create
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import Call, Progress, Reply

OWNER = "alice"
OTHER = "bob"
ANSWERS = frozenset({"elicitation/create"})

RUDE = "\x1b[2Jall is well\x1b]0;owned\x07\u202e\nfake line"
"""Clears the screen, names the window, turns the text around and adds a line, if it is let."""

tools = Tools()


@tools.task()
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@tools.task()
async def convert(pages: int, ctx: Context) -> str:
    for page in range(1, pages + 1):
        await ctx.progress(page, pages, f"page {page}")
    raise CallError(-32050, f"page {pages} is damaged")


@tools.task()
async def deploy(version: str, ctx: Context) -> str:
    await ctx.progress(1, 3, "building")
    where = await ctx.ask("where", form("Deploy to which stage?", {"type": "object"}))
    await ctx.ask("go", form(f"Deploy {version} now?", {"type": "object"}), park=True)
    return str(where.content["stage"])


@tools.task()
async def shout(ctx: Context) -> str:
    await ctx.status(RUDE)
    raise CallError(-32000, RUDE, {"seen": RUDE})


def numbered(prefix: str) -> Callable[[], str]:
    """Ids that are as long as real ones, and the same in each run."""
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}".ljust(len(new_id()), "0")


async def make(
    url: str, *, rude: bool = False, name: str = "Ada", ago_ms: int = 0
) -> dict[str, str]:
    """Tasks in every state, made by a server that is gone; their ids by tool."""
    ids: dict[str, str] = {}
    world = Surroundings(lambda: system_clock() - ago_ms, new_id=numbered("task"))
    async with open_runtime(url, tools, RuntimeConfig(world=world)) as runtime:
        service = runtime.service

        async def create(owner: str, tool: str, arguments: bytes) -> None:
            call = Call("tools/call", tool, arguments, answers=ANSWERS)
            ids[tool] = (await runtime.create(owner, Create(call))).id

        if rude:
            await create(RUDE, "shout", b"{}")
            await service.collect(RUDE, ids["shout"])
        call = Call("tools/call", "greet", encode_json({"name": name}))
        ids["greet"] = (await runtime.create(OWNER, Create(call))).id
        await service.collect(OWNER, ids["greet"])
        await create(OTHER, "convert", b'{"pages": 3}')
        await service.collect(OTHER, ids["convert"])
        await create(OWNER, "deploy", b'{"version": "1.4"}')
        await asked(service, ids["deploy"], "where")
        reply = Reply(b'{"action": "accept", "content": {"stage": "live"}}')
        await service.perform(OWNER, Answer(ids["deploy"], {"where": reply}))
        await asked(service, ids["deploy"], "go")
    store = await open_store(url)
    try:  # not claimed: the server has stopped
        sealer = Sealer(await store.secret())
        service = TaskService(store, sealer, clock=world.clock, new_id=world.new_id)
        for tool, arguments in (
            ("mirror", b'{"url": "https://example.org/archive"}'),
            ("index", b'{"folder": "archive"}'),
        ):
            ids[tool] = (await service.create(OTHER, Call("tools/call", tool, arguments))).id
        held = await claim(service, ids["mirror"], world.new_id())
        assert held is not None
        await held.report(progress=Progress(42, 1000), message="copying")
    finally:
        await store.close()
    return ids


async def asked(service: TaskService, task_id: str, key: str) -> None:
    """Wait until the task has asked that."""
    task = await service.get(OWNER, task_id)
    while key not in {question.key for question in task.open_questions}:
        task = await service.wait(OWNER, task_id, after=task.version)
