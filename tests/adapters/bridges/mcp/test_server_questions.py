"""Tools of the SDK ask their client through a task, with the SDK's own client."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import mcp_types as types
import pytest
from mcp.client import Client
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import BaseModel

from taskmachine.adapters.bridges.mcp import Tasks, elicitation
from taskmachine.adapters.bridges.mcp.client import Tasks as ClientTasks
from tests.adapters.bridges.mcp.serving import SERVER, accepting, bounded, over_http, seen


class Person(BaseModel):
    name: str


async def called(tool: Callable[..., Any], **client: Any) -> CallToolResult:
    """Return the result of the tool for a client that answers questions automatically."""
    server = MCPServer("asks", extensions=[Tasks(support="required")], **SERVER)
    server.tool(name="it")(tool)
    error: MCPError | None = None
    async with Client(server, extensions=[ClientTasks()], **client) as caller:
        try:
            result = await caller.call_tool("it", {})
        except MCPError as raised:  # the client would wrap it
            error = raised
    if error is not None:
        raise error
    assert isinstance(result, CallToolResult)
    return result


def text(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


@bounded
async def test_a_form_and_the_same_form_once_more() -> None:
    async def it(ctx: Context) -> str:
        first = await ctx.elicit("Who?", Person)
        again = await ctx.elicit("Who?", Person)
        assert first.action == again.action == "accept"
        return f"{first.data.name} and {again.data.name}"

    asked: list[Any] = []
    answer = accepting({"name": "Ada"}, asked)
    assert text(await called(it, elicitation_callback=answer)) == "Ada and Ada"
    assert len(asked) == 2, "each is a question of its own"


@pytest.mark.parametrize("action", ["decline", "cancel"])
@bounded
async def test_client_can_decline_or_cancel_a_question(action: Any) -> None:
    async def it(ctx: Context) -> str:
        return (await ctx.elicit("Who?", Person)).action

    async def refuse(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action=action)

    assert text(await called(it, elicitation_callback=refuse)) == action


@bounded
async def test_a_link() -> None:
    async def it(ctx: Context) -> str:
        answer = await ctx.elicit_url("Sign in", "https://login.example/", "e1")
        return answer.action

    asked: list[Any] = []

    async def visit(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept")

    assert text(await called(it, elicitation_callback=visit)) == "accept"
    assert asked[0].url == "https://login.example/"


@bounded
async def test_the_model_of_the_client() -> None:
    async def it(ctx: Context) -> str:
        words = types.TextContent(type="text", text="A word?")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated, but supported
            said = await ctx.session.create_message(
                [types.SamplingMessage(role="user", content=words)], max_tokens=5
            )
        assert isinstance(said.content, types.TextContent)
        return said.content.text

    async def sample(context: Any, params: Any) -> types.CreateMessageResult:
        assert params.max_tokens == 5
        words = types.TextContent(type="text", text="tasks")
        return types.CreateMessageResult(role="assistant", content=words, model="m")

    assert text(await called(it, sampling_callback=sample)) == "tasks"


async def who(ctx: Context) -> Elicit[Person]:
    return Elicit("Who?", Person)


@bounded
async def test_a_parameter_that_the_sdk_asks_for() -> None:
    async def it(person: Annotated[Person, Resolve(who)]) -> str:
        return f"Hello, {person.name}!"

    asked: list[Any] = []
    answer = accepting({"name": "Ada"}, asked)
    assert text(await called(it, elicitation_callback=answer)) == "Hello, Ada!"
    assert len(asked) == 1


@bounded
async def test_tool_can_return_its_input_requests_and_resume_with_the_answers() -> None:
    async def it(ctx: Context) -> CallToolResult | InputRequiredResult:
        if ctx.input_responses is None:
            form = types.ElicitRequestFormParams(
                message="Who?", requested_schema={"type": "object", "properties": {}}
            )
            request = types.ElicitRequest(params=form)
            return InputRequiredResult(input_requests={"q": request}, request_state="round one")
        answer = ctx.input_responses["q"]
        assert isinstance(answer, types.ElicitResult)
        words = f"{answer.action} in {ctx.request_state}"
        return CallToolResult(content=[types.TextContent(type="text", text=words)])

    answer = accepting({}, [])
    assert text(await called(it, elicitation_callback=answer)) == "accept in round one"


@bounded
async def test_asking_a_client_that_does_not_answer_is_an_error_in_plain_words() -> None:
    async def it(ctx: Context) -> str:
        await ctx.elicit("Who?", Person)
        raise AssertionError("it must not ask")

    with pytest.raises(MCPError, match="did not declare support for 'elicitation/create'"):
        await called(it)


@bounded
async def test_a_tool_may_do_without_the_answer() -> None:
    async def it(ctx: Context) -> str:
        capabilities = ctx.session.client_capabilities
        assert capabilities is not None
        assert capabilities.elicitation is None
        try:
            await ctx.elicit("Who?", Person)
        except MCPError:
            return "Hello, stranger!"
        raise AssertionError("it must not ask")

    assert text(await called(it)) == "Hello, stranger!"


@bounded
async def test_log_messages_and_pings_from_a_tool_task_are_discarded() -> None:
    async def it(ctx: Context) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated, but supported
            await ctx.info("so far")
            await ctx.error("so bad")
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_ping()
        await ctx.notify_tools_changed()
        return "done"

    assert text(await called(it)) == "done"


def test_a_tool_that_is_run_again_gets_the_answers_that_are_there(tmp_path: Path) -> None:
    runs: list[str] = []

    def server() -> MCPServer:
        made = MCPServer("s", extensions=[Tasks(f"sqlite:{tmp_path / 'tasks.db'}")], **SERVER)

        @made.tool()
        async def greet(ctx: Context) -> str:
            runs.append("begun")
            capabilities = ctx.session.client_capabilities
            assert capabilities is not None
            assert capabilities.elicitation is not None, "as the record says"
            first = await ctx.elicit("First name?", Person)
            last = await ctx.elicit("Last name?", Person)
            assert first.action == last.action == "accept"
            return f"{first.data.name} {last.data.name}"

        return made

    task_ids: list[str] = []

    @bounded
    async def before() -> None:
        async with over_http(server()) as caller:
            task_id = await caller.create("greet", {})
            await answer(caller, task_id, "First name?", "Ada")
            while await asked(caller, task_id) != "Last name?":
                pass
            task_ids.append(task_id)

    @bounded
    async def after() -> None:
        async with over_http(server()) as caller:
            [task_id] = task_ids
            assert await asked(caller, task_id) == "Last name?", "and not the first one again"
            await answer(caller, task_id, "Last name?", "Lovelace")
            shown = await seen(caller, task_id, "completed")
            assert shown["result"]["structuredContent"] == {"result": "Ada Lovelace"}

    async def asked(caller: Any, task_id: str) -> str:
        shown = await seen(caller, task_id, "input_required")
        [request] = shown["inputRequests"].values()
        return str(request["params"]["message"])

    async def answer(caller: Any, task_id: str, message: str, name: str) -> None:
        shown = await seen(caller, task_id, "input_required")
        [(key, request)] = shown["inputRequests"].items()
        assert request["params"]["message"] == message
        responses = {key: {"action": "accept", "content": {"name": name}}}
        await caller.call("tasks/update", {"taskId": task_id, "inputResponses": responses})

    before()
    after()
    assert runs == ["begun", "begun"]


@bounded
async def test_first_questions_are_asked_before_the_task_and_not_repeated() -> None:
    tasks = Tasks()
    server = MCPServer("s", extensions=[tasks], **SERVER)

    @server.tool()
    @tasks.tool(support="required", first=[elicitation("Who?", Person)])
    async def greet(ctx: Context) -> str:
        first = await ctx.elicit("Who?", Person)
        assert first.action == "accept"
        return f"Hello, {first.data.name}!"

    async with over_http(server) as caller:
        call = {"name": "greet", "arguments": {}}
        paused = (await caller.call("tools/call", call))["result"]
        assert paused["resultType"] == "input_required"
        [key] = paused["inputRequests"]
        responses = {key: {"action": "accept", "content": {"name": "Ada"}}}
        again = {"inputResponses": responses, "requestState": paused["requestState"]}
        created = (await caller.call("tools/call", {**call, **again}))["result"]
        assert created["resultType"] == "task"
        shown = await seen(caller, created["taskId"], "completed")
        assert shown["result"]["structuredContent"] == {"result": "Hello, Ada!"}
