"""The public names as programs use them: checked by mypy and pyright, never executed.

A name that type checkers see as `Any`, or not at all, makes an `assert_type` below fail.
"""

from collections.abc import Sequence
from typing import Any, assert_type

import taskmachine
from taskmachine import (
    DUTIES,
    TABLE,
    Answer,
    Call,
    CallError,
    ConfigurationError,
    Context,
    Create,
    Event,
    IllegalTransition,
    LimitExceeded,
    Limits,
    NotFound,
    Outcome,
    Runtime,
    RuntimeConfig,
    State,
    SyncContext,
    Task,
    TaskmachineError,
    Times,
    ToolError,
    ToolResult,
    Tools,
    check,
    connect,
    engines,
    fastmcp,
    form,
    lifecycle,
    mcp,
    mcp1,
    open_runtime,
    sampling,
    serve,
    server,
    start_runtime,
    stores,
    telemetry,
    testing,
    url,
)
from taskmachine import client as clients
from taskmachine.conformance import Options

assert_type(taskmachine.__version__, str)

# --- tools ------------------------------------------------------------------------------------

tools = Tools()


@tools.task(support="required", timeout=60)
async def deploy(version: str, ctx: Context) -> str:
    await ctx.progress(1, 2, "built")
    answer = await ctx.ask("go", form("Deploy now?", {"type": "object"}))
    assert_type(answer, Answer)
    assert_type(await ctx.ask("pay", url("Pay first", "https://pay.example/1", "1")), Answer)
    assert_type(await ctx.ask("say", sampling([], max_tokens=10)), dict[str, Any])
    if answer.action != "accept":
        raise ToolError("nobody agreed")
    return f"{version} is live"


@tools.task()
def count(ctx: SyncContext, to: int = 3) -> ToolResult:
    if to < 0:
        raise CallError(-32602, "it cannot be negative")
    return ToolResult([{"type": "text", "text": str(to)}])


# --- servers and runtimes ---------------------------------------------------------------------

if __name__ == "__main__":
    serve(tools, http="127.0.0.1:8000", store="sqlite:tasks.db")
    tools.run()


async def run() -> None:
    config = RuntimeConfig(times=Times(), limits=Limits(concurrency=8), engine=engines.for_replicas)
    async with open_runtime("sqlite:tasks.db", tools, config) as runtime:
        assert_type(runtime, Runtime)
        task = await runtime.create("alice", Create(Call("tools/call", "deploy")))
        assert_type(task, Task)
        assert_type(await runtime.service.collect("alice", task.id), Task)
        await server.serve_http(runtime, server.Settings(), ready=print)
        await server.serve_stdio(runtime)
    store = await stores.open_store("memory:")
    assert_type(store, stores.Store)
    memory: stores.Store = stores.MemoryStore(b"s" * 32)
    assert_type(await start_runtime(memory, tools), Runtime)


async def call() -> None:
    async def answer(question: clients.Question) -> dict[str, Any]:
        fields: Sequence[clients.Field] = clients.fields_of(question.params)
        if not fields:
            raise clients.Declined
        return question.accept(name="Ada")

    async with connect(
        "http://127.0.0.1:8000/mcp", answer=answer, receive=clients.Receiver()
    ) as session:
        assert_type(session, clients.Session)
        task = await session.call("deploy", {"version": "1.2"})
        assert_type(task, clients.RemoteTask)
        async for update in task:
            assert_type(update, clients.Update)
        assert_type(await task.result(), dict[str, Any])


async def judge() -> None:
    report = await check("node server.js", generation="2026-07-28", options=Options(budget_s=10))
    assert_type(report.exit_status(strict=True), int)


# --- the state machine ------------------------------------------------------------------------


def move(task: Task) -> Task:
    assert_type(TABLE[0].source, State)
    assert_type(DUTIES[task.state].is_live, bool)
    assert_type(TABLE[0].event, Event)
    try:
        return lifecycle.complete(task, now=1, outcome=Outcome.of_result(b"{}")).task
    except (IllegalTransition, NotFound, LimitExceeded, ConfigurationError) as error:
        wrong: TaskmachineError = error
        raise wrong from None


# --- namespaces -------------------------------------------------------------------------------

assert_type(mcp.Tasks(store="memory:"), mcp.Tasks)
assert_type(mcp.ClientTasks(), mcp.ClientTasks)
assert_type(fastmcp.Tasks(store="memory:"), fastmcp.Tasks)
assert_type(telemetry.OpenTelemetry(), telemetry.OpenTelemetry)
assert_type(server.make_application(server.Settings(), tools), server.Application)
enable = mcp1.enable_tasks
loop: type[testing.VirtualLoop] = testing.VirtualLoop


class TestStore(testing.PersistentStoreContract): ...


class TestEngine(testing.EngineContract): ...


engine: engines.MakeEngine = engines.LocalEngine
