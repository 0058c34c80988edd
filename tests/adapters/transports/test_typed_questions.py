"""Typed questions over real sockets, in both revisions, in tasks and in plain calls."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, model_validator

from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.remote_task import Question
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.tools.sampling import sampling
from taskmachine.adapters.tools.sync_context import SyncContext
from tests.adapters.transports.wire import in_both, serving

Env = Literal["staging", "production"]


class Confirm(BaseModel):
    sure: bool
    reason: Annotated[str, Field(min_length=3)] | None = None

    @model_validator(mode="after")
    def reason_is_needed(self) -> "Confirm":
        if self.sure and self.reason is None:
            raise ValueError("say why")
        return self


GO = form("Deploy now?", Confirm)


def tools_that_ask(runs: list[str], **options: Any) -> Tools:
    tools = Tools()

    @tools.task(**options)
    async def deploy(ctx: Context) -> str:
        runs.append("deploy")
        answer = await ctx.ask("go", "Deploy now?", Confirm)
        if answer.value is None:
            return answer.action
        env = await ctx.choose("env", "Where?", Env)
        if not await ctx.confirm("sure", f"To {env}?"):
            return "kept"
        named = await ctx.ask("name", sampling("A name?", 20, list[str]))
        return f"{named.value[0]} in {env}: {answer.value.reason}"

    @tools.task(**options)
    def deploy_in_thread(ctx: SyncContext) -> str:
        runs.append("deploy")
        answer = ctx.ask("go", "Deploy now?", Confirm)
        if answer.value is None:
            return answer.action
        env = ctx.choose("env", "Where?", Env)
        if not ctx.confirm("sure", f"To {env}?"):
            return "kept"
        named = ctx.ask("name", sampling("A name?", 20, list[str]))
        return f"{named.value[0]} in {env}: {answer.value.reason}"

    return tools


def answering(**changes: Any) -> tuple[list[str], Any]:
    asked: list[str] = []
    answers = {
        "Deploy now?": {"sure": True, "reason": "It is tested."},
        "Where?": {"value": "production"},
        "To production?": {"value": True},
        **changes,
    }

    async def answer(question: Question) -> dict[str, Any]:
        asked.append(question.message)
        if question.method == "sampling/createMessage":
            content = {"type": "text", "text": '["Ada"]'}
            return {"role": "assistant", "model": "m", "content": content}
        return question.accept(**answers[question.message])

    return asked, answer


async def called(url: str, tool: str, revision: str, answer: Any) -> str:
    async with connect(url, generation=revision, answer=answer, sampling=True) as session:
        result = await (await session.call(tool)).result()
    text: str = result["content"][0]["text"]
    return text


ALL = ["Deploy now?", "Where?", "To production?", ""]


@in_both
@pytest.mark.parametrize("support", ["required", "forbidden"])
@pytest.mark.parametrize("tool", ["deploy", "deploy_in_thread"])
async def test_a_tool_gets_typed_answers(revision: str, support: str, tool: str) -> None:
    asked, answer = answering()
    async with serving(tools_that_ask([], support=support)) as url:
        text = await called(url, tool, revision, answer)
    assert text == "Ada in production: It is tested."
    assert asked == ALL


@in_both
async def test_an_answer_that_the_model_refuses_is_a_cancel(revision: str) -> None:
    for content in ({"sure": True}, {"sure": True, "reason": "No"}, {"sure": "yes"}, {}):
        asked, answer = answering(**{"Deploy now?": content})
        async with serving(tools_that_ask([])) as url:
            assert await called(url, "deploy", revision, answer) == "cancel"
        assert asked == ["Deploy now?"]


@in_both
async def test_a_tool_that_parks_reads_its_stored_answers_again(revision: str) -> None:
    runs: list[str] = []
    asked, answer = answering()
    async with serving(tools_that_ask(runs, parks=True)) as url:
        text = await called(url, "deploy", revision, answer)
    assert text == "Ada in production: It is tested."
    assert asked == ALL
    assert len(runs) == 5


@in_both
async def test_a_typed_question_is_asked_before_there_is_a_task(revision: str) -> None:
    asked, answer = answering()
    tools = tools_that_ask([], support="required", first={"go": GO})
    async with serving(tools) as url:
        text = await called(url, "deploy", revision, answer)
    assert text == "Ada in production: It is tested."
    assert asked == ALL
