"""The public names as programs use them: checked by mypy and pyright, never executed.

A name that type checkers see as `Any`, or not at all, makes an `assert_type` below fail.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, Literal, assert_type

from pydantic import BaseModel

import taskmachine
from taskmachine import (
    DUTIES,
    TABLE,
    Audio,
    Call,
    CallError,
    ConfigurationError,
    Context,
    Create,
    Event,
    File,
    IllegalTransition,
    Image,
    LimitExceeded,
    Limits,
    NotFound,
    Outcome,
    ResourceLink,
    Runtime,
    RuntimeConfig,
    State,
    SyncContext,
    Task,
    TaskmachineError,
    Times,
    ToolError,
    Tools,
    check,
    choose,
    confirm,
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
from taskmachine.tools import (
    Accepted,
    Answer,
    Caller,
    NotAccepted,
    Retry,
    SamplingResult,
    Step,
    StepError,
    ToolResult,
    UnfitReply,
    exponential,
    retrying,
)

assert_type(taskmachine.__version__, str)

# --- tools ------------------------------------------------------------------------------------


@asynccontextmanager
async def lifespan(tools: Tools) -> AsyncIterator[str]:
    yield f"a pool for {len(tools)} tools"


tools = Tools(lifespan=lifespan)


class Confirm(BaseModel):
    sure: bool


class Env(Enum):
    STAGING = "staging"
    PRODUCTION = "production"


Size = Literal["small", "large"]


@tools.task(support="required", timeout=60)
async def deploy(version: str, ctx: Context) -> str:
    await ctx.progress(1, 2, "built")
    assert_type(ctx.caller, Caller)
    assert_type(ctx.scopes, frozenset[str])
    assert_type(ctx.claims, Mapping[str, Any])
    answer = await ctx.ask("go", "Deploy now?", Confirm)
    assert_type(answer, Answer[Confirm])
    assert_type(answer, Accepted[Confirm] | NotAccepted)
    assert_type(answer.value, Confirm | None)
    if answer.action != "accept":
        raise ToolError("not confirmed")
    assert_type(answer.value, Confirm)
    return f"{version} is live"


@tools.task()
async def narrowed(ctx: Context) -> bool:
    answer = await ctx.ask("go", form("Deploy now?", Confirm), park=True)
    if answer.value is not None:
        assert_type(answer.value.sure, bool)
    match answer:
        case Accepted(value=value):
            assert_type(value, Confirm)
        case NotAccepted(action=action):
            assert_type(action, Literal["decline", "cancel"])
    return isinstance(answer, Accepted)


@tools.task(first={"go": form("Deploy now?", Confirm), "sure": confirm("Sure?")})
async def asking(ctx: Context) -> None:
    assert_type(await ctx.ask("hand", form("By hand?", {"type": "object"})), Answer[dict[str, Any]])
    assert_type(await ctx.ask("pay", url("Pay first", "https://pay.example/1", "1")), Answer[None])
    assert_type(await ctx.ask("count", "How many?", int), Answer[int])
    assert_type(await ctx.ask("size", "Which size?", Size), Answer[Size])
    assert_type(await ctx.ask("sizes", "Which sizes?", list[Size]), Answer[list[Size]])
    assert_type(await ctx.ask("sure", confirm("Sure?")), bool)
    assert_type(await ctx.confirm("sure", "Sure?"), bool)
    assert_type(await ctx.ask("env", choose("Where?", Env)), Env | None)
    assert_type(await ctx.choose("env", "Where?", Env), Env | None)
    assert_type(await ctx.choose("size", "Which size?", Size), Size | None)
    assert_type(await ctx.choose("place", "Where?", ["staging", "production"]), str | None)
    assert_type(await ctx.choose("fruit", "Which?", {"a": "Apple", "b": "Banana"}), str | None)
    said = await ctx.ask("say", sampling("Say something", max_tokens=10))
    assert_type(said, SamplingResult[None])
    assert_type((said.text, said.model, said.stop_reason), tuple[str, str, str | None])
    try:
        idea = await ctx.ask("idea", sampling("An idea?", 50, Confirm, systemPrompt="Be brief."))
        assert_type(idea.value, Confirm)
    except UnfitReply as error:
        assert_type(error.text, str)


@tools.task()
def threaded(ctx: SyncContext) -> None:
    assert_type(ctx.ask("go", "Deploy now?", Confirm), Answer[Confirm])
    assert_type(ctx.ask("go", form("Deploy now?", Confirm)), Answer[Confirm])
    assert_type(ctx.confirm("sure", "Sure?"), bool)
    assert_type(ctx.choose("env", "Where?", Env), Env | None)
    assert_type(ctx.choose("place", "Where?", ["staging", "production"]), str | None)


async def fetch(number: int, *, page: str = "") -> Confirm:
    return Confirm(sure=number > len(page))


def weigh(number: int) -> float:
    return number / 2


@tools.task(retries=5, backoff=exponential(first=1, most=60), retry_on=(OSError, KeyError))
async def durable(ctx: Context) -> None:
    assert_type(await ctx.step("a", fetch, 1), Confirm)
    assert_type(await ctx.step("b", fetch, 1, page="x"), Confirm)
    assert_type(await ctx.step("c", weigh, 1), float)
    assert_type(await ctx.step("d", retrying(fetch, retries=3, timeout=5), 1, page="x"), Confirm)
    assert_type(await ctx.step("e", retrying(weigh, retries=3, give_up_on=OSError), 1), float)
    assert_type(await ctx.gather(ctx.step("f", weigh, 1), ctx.step("g", weigh, 2)), list[float])
    async with ctx.step("h") as step:
        assert_type(step, Step)
        if not step.is_recorded:
            step.result = 1
    assert_type((ctx.attempt, ctx.last_error, ctx.step_id), tuple[int, str | None, str | None])
    await ctx.step("i", fetch, "1")  # type: ignore[call-overload]
    await ctx.step("j", fetch, 1, pages="x")  # type: ignore[call-arg]
    await ctx.step("k", weigh)  # type: ignore[call-overload]
    await ctx.step("l", retrying(weigh, retries=3), "1")  # type: ignore[call-overload]
    await ctx.sleep("m", minutes=5)
    try:
        await ctx.sleep("n", 5)
    except StepError:
        raise Retry(after=60, reason="busy") from None


@tools.task(repeatable=False, retries=1, backoff=lambda failures: 10 * failures)
def durable_in_a_thread(ctx: SyncContext) -> None:
    assert_type(ctx.step("a", fetch, 1), Confirm)
    assert_type(ctx.step("b", weigh, 1), float)
    ctx.step("c", weigh, "1")  # type: ignore[call-overload]
    ctx.sleep("d", hours=1)


@tools.task
def count(ctx: SyncContext, to: int = 3) -> ToolResult:
    if to < 0:
        raise CallError(-32602, "it cannot be negative")
    return ToolResult([{"type": "text", "text": str(to)}])


@tools.task("draw", title="Draw", annotations={"readOnlyHint": True}, tags=["art"])
def show(color: str) -> list[str | Image | Audio | File | ResourceLink]:
    picture = Image(path=f"{color}.png")
    assert_type(picture.format, str | None)
    sound, table = Audio(data=b"", format="wav"), File(data=b"a,b", format="csv", name="table")
    return [color, picture, sound, table, ResourceLink("https://example.org", "more")]


tools.add(show, "paint", timeout=5)


async def decorated(ctx: Context, blocking: SyncContext) -> None:
    assert_type(await deploy("1.0", ctx), str)
    assert_type(count(blocking), ToolResult)
    assert_type(show("red"), list[str | Image | Audio | File | ResourceLink])


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
