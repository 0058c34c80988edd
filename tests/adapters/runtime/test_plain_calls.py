"""Calls without a task: the same tools, the same outcomes, the same bounds."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.plain_calls import PlainCalls
from taskmachine.adapters.runtime.testing.virtual_loop import VirtualLoop
from taskmachine.adapters.runtime.tool_runs import ToolRunner
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Threads, Tools
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.errors import MissingCapability
from taskmachine.statemachine import (
    Call,
    Cause,
    LimitExceeded,
    Outcome,
    Progress,
    Question,
    Reply,
)
from tests.adapters.memory_service import call

FORM = form("Name?", {"type": "object"})
ADA = Reply(b'{"action":"accept","content":{"name":"Ada"}}')


def play(tools: Tools, scene: Any, limits: Limits | None = None) -> None:
    async def main() -> None:
        runner = ToolRunner(Threads(1), lambda error: None, lambda: None)
        await scene(PlainCalls(limits or Limits(), runner, lambda: 0))

    loop = VirtualLoop(Random(0))
    try:
        loop.run(main())
    finally:
        loop.close()


def asking_tools() -> Tools:
    tools = Tools()

    @tools.task(timeout=10)
    async def greet(ctx: Context) -> str:
        assert ctx.task_id is None
        await asyncio.sleep(6)
        await ctx.progress(2)
        await ctx.progress(1)
        await ctx.progress(1, message="so far")
        answer = await ctx.ask("name", FORM)
        await asyncio.sleep(3)
        return f"Hello, {answer.content['name']}"

    return tools


def test_a_call_that_needs_answers_is_to_be_made_again_with_them() -> None:
    tools = asking_tools()

    async def scene(calls: PlainCalls) -> None:
        asked = await calls.run(Caller("alice"), tools["greet"], call("greet"), {})
        assert not isinstance(asked, Outcome)
        assert [question.key for question in asked] == ["name"]
        outcome = await calls.run(Caller("alice"), tools["greet"], call("greet"), {"name": ADA})
        assert isinstance(outcome, Outcome)
        assert b"Hello, Ada" in (outcome.result or b"")

    play(tools, scene)


def test_plain_call_can_ask_and_its_timeout_pauses_meanwhile() -> None:
    tools = asking_tools()
    reports: list[tuple[Progress | None, str | None]] = []

    async def ask(questions: Sequence[Question]) -> Mapping[str, Reply]:
        await asyncio.sleep(1_000)
        return {question.key: ADA for question in questions}

    async def scene(calls: PlainCalls) -> None:
        outcome = await calls.run(
            Caller("alice"), tools["greet"], call("greet"), {},
            report=lambda progress, message: reports.append((progress, message)), ask=ask,
        )  # fmt: skip
        assert isinstance(outcome, Outcome)
        assert outcome.cause is Cause.RESULT
        assert reports == [(Progress(2), None), (None, "so far")], "progress never goes back"

    play(tools, scene)


def test_a_caller_that_cannot_be_asked_is_not() -> None:
    tools = asking_tools()

    async def unasked(questions: Sequence[Question]) -> Mapping[str, Reply]:
        raise AssertionError(questions)

    async def scene(calls: PlainCalls) -> None:
        call = Call("tools/call", "greet")
        with pytest.raises(MissingCapability) as missing:  # where it would be made again
            await calls.run(Caller("alice"), tools["greet"], call, {})
        assert missing.value.required == {"elicitation": {}}
        outcome = await calls.run(Caller("alice"), tools["greet"], call, {}, ask=unasked)
        assert isinstance(outcome, Outcome)
        assert "did not declare support for 'elicitation/create'" in str(outcome.message)

    play(tools, scene)


def test_plain_call_times_out_at_once_and_its_tool_is_cancelled() -> None:
    tools = Tools()
    late: list[object] = []

    @tools.task(timeout=10)
    async def slow(ctx: Context) -> None:
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            try:
                await ctx.progress(1)
            except Gone as gone:
                late.append(str(gone))
            raise

    async def scene(calls: PlainCalls) -> None:
        outcome = await calls.run(Caller("alice"), tools["slow"], call("slow"), {})
        assert isinstance(outcome, Outcome)
        assert outcome.cause is Cause.TIMED_OUT
        assert asyncio.get_running_loop().time() == pytest.approx(10)
        await asyncio.sleep(1)
        assert late == ["the call has ended"]

    play(tools, scene)


def test_the_calls_of_one_caller_are_bounded() -> None:
    tools = Tools()

    @tools.task()
    async def slow() -> None:
        await asyncio.sleep(10)

    async def scene(calls: PlainCalls) -> None:
        alice, bob = Caller("alice"), Caller("bob")
        running = asyncio.create_task(calls.run(alice, tools["slow"], call("slow"), {}))
        await asyncio.sleep(1)
        with pytest.raises(LimitExceeded, match="1 calls at the same time"):
            await calls.run(alice, tools["slow"], call("slow"), {})
        assert isinstance(await calls.run(bob, tools["slow"], call("slow"), {}), Outcome)
        await running
        assert isinstance(await calls.run(alice, tools["slow"], call("slow"), {}), Outcome)

    play(tools, scene, Limits(blocked_calls=1))
