"""Typed questions: confirmations, choices, and replies of a model."""

import enum
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pytest

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import (
    Accepted,
    NotAccepted,
    Request,
    choose,
    confirm,
    form,
    url,
)
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.tools.sampling import SamplingResult, UnfitReply, sampling
from taskmachine.adapters.tools.sync_context import SyncContext
from taskmachine.protocol import operations
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import ConfigurationError, Reply, State
from tests.adapters.engines.test_local import (
    is_asking,
    is_waiting,
    run_virtually,
    started,
    until,
)
from tests.adapters.tools.test_tools import Notes, result_of


class Env(enum.Enum):
    STAGING = "staging"
    PRODUCTION = "production"


class Level(enum.Enum):
    LOW = enum.auto()
    HIGH = enum.auto()


@dataclass
class Colour:
    name: str
    red: int = 0


def accepted(value: Any) -> Reply:
    return Reply(encode_json({"action": "accept", "content": {"value": value}}))


def said(text: str, **more: Any) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"role": "assistant", "model": "m-1", "content": content, **more}


def field_of(request: Request[Any]) -> dict[str, Any]:
    schema = request.params["requestedSchema"]
    assert schema["required"] == ["value"]
    field: dict[str, Any] = schema["properties"]["value"]
    return field


# --- the context -----------------------------------------------------------------------------

RED = Reply(encode_json({"action": "accept", "content": {"name": "red"}}))
REPLIES = {
    "colour": RED,
    "go": accepted(True),
    "env": accepted("production"),
    "idea": Reply(encode_json(said('{"name": "blue"}'))),
}


def test_a_coroutine_and_a_function_ask_the_same_way() -> None:
    expected = [Accepted(Colour("red"), {"name": "red"}), True, Env.PRODUCTION, Colour("blue")]
    got: list[Any] = []

    async def tool(ctx: Context) -> None:
        got.append(await ctx.ask("colour", "Which colour?", Colour))
        got.append(await ctx.confirm("go", "Paint?"))
        got.append(await ctx.choose("env", "Where?", Env))
        got.append((await ctx.ask("idea", sampling("A colour?", 50, Colour))).value)

    def plain(ctx: SyncContext) -> None:
        got.append(ctx.ask("colour", "Which colour?", Colour))
        got.append(ctx.confirm("go", "Paint?"))
        got.append(ctx.choose("env", "Where?", Env))
        got.append(ctx.ask("idea", sampling("A colour?", 50, Colour)).value)

    asked = []
    for function in (tool, plain):
        got.clear()
        notes = Notes(REPLIES)
        result_of(function, notes=notes)
        assert got == expected
        asked.append(notes.asked)
    assert asked[0] == asked[1]


def test_typed_questions_can_be_asked_together_and_are_the_same_requests() -> None:
    async def tool(ctx: Context) -> None:
        answers = await ctx.ask_all(
            {
                "colour": form("Which colour?", Colour),
                "go": confirm("Paint?"),
                "env": choose("Where?", Env),
                "idea": sampling("A colour?", 50, Colour),
            }
        )
        assert answers["colour"].value == Colour("red")
        assert (answers["go"], answers["env"]) == (True, Env.PRODUCTION)
        assert answers["idea"].value == Colour("blue")
        assert (await ctx.ask("colour", "Which colour?", Colour)).action == "accept"
        await ctx.confirm("go", "Paint?")
        await ctx.choose("env", "Where?", Env)

    notes = Notes(REPLIES)
    result_of(tool, notes=notes)
    assert notes.asked[4:] == notes.asked[:3]


def test_a_message_without_a_type_is_refused() -> None:
    async def tool(ctx: Context) -> None:
        with pytest.raises(ConfigurationError, match="a form cannot show None: use text"):
            await ctx.ask("go", "Deploy?")  # type: ignore[call-overload]

    notes = Notes()
    result_of(tool, notes=notes)
    assert notes.asked == []


# --- confirmations and choices ---------------------------------------------------------------


def test_a_confirmation_is_true_only_for_an_accepted_yes() -> None:
    request = confirm("Deploy?")
    assert field_of(request) == {"type": "boolean", "title": "Answer", "default": True}
    assert request.read({"action": "accept", "content": {"value": True}}) is True
    for result in (
        {"action": "accept", "content": {"value": False}},
        {"action": "accept", "content": {"value": "yes"}},
        {"action": "accept", "content": {}},
        {"action": "accept"},
        {"action": "decline"},
        {"action": "cancel", "content": {"value": True}},
    ):
        assert request.read(result) is False


@pytest.mark.parametrize(
    ("options", "shown", "text", "value"),
    [
        (["a", "b"], {"enum": ["a", "b"]}, "b", "b"),
        (("a", "b"), {"enum": ["a", "b"]}, "b", "b"),
        (
            {"a": "Apple", "b": "Banana"},
            {"oneOf": [{"const": "a", "title": "Apple"}, {"const": "b", "title": "Banana"}]},
            "b",
            "b",
        ),
        (Literal["a", "b"], {"enum": ["a", "b"]}, "b", "b"),
        (Env, {"enum": ["staging", "production"]}, "staging", Env.STAGING),
        (Level, {"enum": ["LOW", "HIGH"]}, "HIGH", Level.HIGH),
    ],
    ids=["list", "tuple", "titles", "literal", "enum", "enum of numbers"],
)
def test_a_choice_returns_the_option_or_none(
    options: Any, shown: Any, text: str, value: Any
) -> None:
    request = choose("Which?", options)
    assert field_of(request) == {"type": "string", "title": "Answer", **shown}
    assert request.read({"action": "accept", "content": {"value": text}}) is value
    for result in (
        {"action": "accept", "content": {"value": "c"}},
        {"action": "accept", "content": {}},
        {"action": "decline"},
        {"action": "cancel"},
    ):
        assert request.read(result) is None


@pytest.mark.parametrize(
    "options", [[], {}, "ab", [1, 2], Literal[1], {1: "One"}, [["a"]], {"a", "b"}, 7, int, None]
)
def test_what_cannot_be_chosen_from_is_refused(options: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"choose\('Which\?', ...\) needs texts to choose"):
        choose("Which?", options)


def test_a_visited_page_has_no_value() -> None:
    request = url("Pay", "https://pay.example/1", "1")
    assert request.read({"action": "accept"}) == Accepted(None)
    assert request.read({"action": "decline"}) == NotAccepted("decline")


# --- models ----------------------------------------------------------------------------------


def test_a_text_is_the_message_of_a_user() -> None:
    message = {"role": "user", "content": {"type": "text", "text": "A colour?"}}
    assert sampling("A colour?", 50).params == {"messages": [message], "maxTokens": 50}


def test_a_reply_has_its_text_model_reason_and_content() -> None:
    blocks = [
        {"type": "text", "text": "Bl"},
        {"type": "image", "data": "AA==", "mimeType": "image/png"},
        {"type": "text", "text": "ue"},
    ]
    reply = sampling("A colour?", 50).read(said("", content=blocks, stopReason="endTurn"))
    assert reply == SamplingResult("Blue", None, "m-1", "endTurn", blocks)
    assert sampling("A colour?", 50).read(said("Blue")).content == [said("Blue")["content"]]


def test_the_system_prompt_asks_for_json_of_the_type() -> None:
    wish = (
        'Reply only with JSON that fits this JSON Schema: {"properties":{"name":{"type":"string"},'
        '"red":{"default":0,"type":"integer"}},"required":["name"],"type":"object"}'
    )
    assert sampling("?", 50, Colour).params["systemPrompt"] == wish
    brief = sampling("?", 50, Colour, systemPrompt="Be brief.").params
    assert brief["systemPrompt"] == f"Be brief.\n\n{wish}"


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "red", "red": 255}',
        '\n {"name": "red", "red": 255} ',
        '```json\n{"name": "red", "red": 255}\n```',
        '```\n{"name": "red",\n "red": 255}\n```\n',
    ],
)
def test_a_reply_is_read_as_json_of_the_type(text: str) -> None:
    assert sampling("?", 50, Colour).read(said(text)).value == Colour("red", 255)
    assert sampling("?", 50, list[Literal["a"]]).read(said('["a"]')).value == ["a"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Blue!", "it is not JSON: JSON is malformed: invalid character (byte 0)"),
        ("", "it is not JSON: Input data was truncated"),
        ('{"red": 1}', "reply.name is missing"),
        ("[]", "reply must be an object"),
        (str([[]] * 2_000), "reply must be an object"),
        ('{"red": "much"}', "reply.name is missing; reply.red must be a valid integer, "
         "unable to parse string as an integer"),
    ],
)  # fmt: skip
def test_a_reply_that_does_not_fit_is_an_error_with_its_text(text: str, reason: str) -> None:
    with pytest.raises(UnfitReply) as unfit:
        sampling("?", 50, Colour).read(said(text))
    assert str(unfit.value) == f"the model's reply does not fit: {reason}"
    assert unfit.value.text == text


@pytest.mark.parametrize(
    "content", [None, 7, "Blue", [7], ["Blue"], {}, {"type": "text"}, {"type": "text", "text": 7}]
)
def test_a_malformed_reply_is_an_error(content: Any) -> None:
    with pytest.raises(UnfitReply, match="its content is malformed"):
        sampling("?", 50).read(said("", content=content))


def test_a_type_without_json_is_refused_before_the_model_is_asked() -> None:
    with pytest.raises(ConfigurationError, match="cannot be JSON"):
        sampling("?", 50, Notes)


# --- tasks -----------------------------------------------------------------------------------


def test_a_stored_answer_is_read_through_its_type_again_after_a_restart() -> None:
    got: list[Any] = []
    tools = Tools()

    @tools.task()
    async def paint(ctx: Context) -> str:
        got.append(await ctx.ask("colour", "Which colour?", Colour))
        return "painted" if await ctx.confirm("go", "Paint?") else "kept"

    async def main() -> None:
        async with started(tools) as (world, runtime):
            task = await until(runtime, await world.create(runtime, "paint"), is_waiting)
            await runtime.service.perform("alice", operations.Answer(task.id, {"colour": RED}))
            await until(runtime, task, partial(is_asking, "go"))
        runtime = await world.start()  # the next process on the same store
        await runtime.service.perform("alice", operations.Answer(task.id, {"go": accepted(True)}))
        ended = await runtime.service.collect("alice", task.id)
        assert ended.outcome is not None
        assert b"painted" in (ended.outcome.result or b"")
        assert [question.key for question in ended.questions] == ["colour", "go"]
        await runtime.stop()

    run_virtually(main())
    assert got == [Accepted(Colour("red"), {"name": "red"})] * 2


def test_a_type_that_changed_between_two_runs_is_another_question() -> None:
    tools = Tools()
    types: list[Any] = [Colour, Env]

    @tools.task()
    async def paint(ctx: Context) -> None:
        await ctx.ask("colour", "Which?", types.pop(0), park=True)

    async def main() -> None:
        async with started(tools) as (world, runtime):
            task = await until(runtime, await world.create(runtime, "paint"), is_waiting)
            await runtime.service.perform("alice", operations.Answer(task.id, {"colour": RED}))
            ended = await runtime.service.collect("alice", task.id)
            assert ended.state is State.FAILED
            assert "question key 'colour' already names another request" in str(ended.message)

    run_virtually(main())
