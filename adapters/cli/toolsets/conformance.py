"""The tools that the official conformance suite calls: `taskmachine serve --tools conformance`.

The suite defines the names, arguments and questions.  Tools that it calls without a task are
`forbidden` as tasks, so that they stay plain calls for clients that support tasks.
"""

import asyncio
import json
from typing import Any, Final, Literal

from taskmachine.adapters.tools.content import ToolResult
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.errors import CannotAsk
from taskmachine.adapters.tools.questions import Answer, Request, form
from taskmachine.adapters.tools.registry import CallError, ToolError, Tools
from taskmachine.adapters.tools.sampling import SamplingResult, sampling
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["TOOLS"]

TOOLS: Final = Tools()


def _object(required: bool = True, /, **properties: JSONObject) -> JSONObject:
    schema: JSONObject = {"type": "object", "properties": properties}
    return {**schema, "required": list(properties)} if required else schema


def _prompt(text: str, max_tokens: int = 100) -> Request[SamplingResult[None]]:
    return sampling(text, max_tokens)


_STRING: Final[JSONObject] = {"type": "string"}
_BOOLEAN: Final[JSONObject] = {"type": "boolean"}
_NAME: Final = form("What is your name?", _object(name=_STRING))
_ROOTS: Final = Request[JSONObject]("roots/list", {})


# --- results of plain calls -------------------------------------------------------------------

_TEXT: Final[JSONObject] = {"type": "text", "text": "This is text, and nothing else."}
_IMAGE: Final[JSONObject] = {  # one red pixel
    "type": "image",
    "mimeType": "image/png",
    "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAA"
    "AElFTkSuQmCC",
}
_AUDIO: Final[JSONObject] = {  # a header without samples
    "type": "audio",
    "mimeType": "audio/wav",
    "data": "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=",
}
_RESOURCE: Final[JSONObject] = {
    "type": "resource",
    "resource": {"uri": "test://embedded", "mimeType": "text/plain", "text": "Embedded."},
}


@TOOLS.task(support="forbidden")
async def test_simple_text() -> ToolResult:
    """Returns a text."""
    return ToolResult([_TEXT])


@TOOLS.task(support="forbidden")
async def test_image_content() -> ToolResult:
    """Returns an image."""
    return ToolResult([_IMAGE])


@TOOLS.task(support="forbidden")
async def test_audio_content() -> ToolResult:
    """Returns a sound."""
    return ToolResult([_AUDIO])


@TOOLS.task(support="forbidden")
async def test_embedded_resource() -> ToolResult:
    """Returns a resource with its content."""
    return ToolResult([_RESOURCE])


@TOOLS.task(support="forbidden")
async def test_multiple_content_types() -> ToolResult:
    """Returns a text, an image and a resource."""
    return ToolResult([_TEXT, _IMAGE, _RESOURCE])


@TOOLS.task(support="forbidden")
async def test_error_handling() -> str:
    """Fails with an error result."""
    raise ToolError("This tool always fails.")


@TOOLS.task(support="forbidden")
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports progress three times."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100)
        await asyncio.sleep(0.02)
    return "Done."


@TOOLS.task(support="forbidden")
async def test_reconnection() -> str:
    """Takes so long that the response is sent on a stream, which a client can resume."""
    await asyncio.sleep(1)
    return "Still here."


@TOOLS.task(support="forbidden")
async def test_logging_tool() -> str:
    """Sends no log messages: this server does not support logging."""
    return "Nothing was logged."


@TOOLS.task(
    support="forbidden",
    schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "address", **_object(False, street=_STRING)}},
        "properties": {
            "name": _STRING,
            "address": {"$ref": "#/$defs/address"},
            "contact": {"enum": ["phone", "email"]},
            "phone": _STRING,
            "email": _STRING,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contact": {"const": "phone"}}, "required": ["contact"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema_2020_12_tool(
    name: str = "",
    address: dict[str, str] | None = None,
    contact: Literal["phone", "email"] = "email",
    phone: str = "",
    email: str = "",
) -> str:
    """Has a schema that uses keywords of JSON Schema 2020-12."""
    return f"{name} is reached by {contact}."


@TOOLS.task(
    support="forbidden",
    schema=_object(region={"type": "string", "x-mcp-header": "Region"}),
)
async def test_parameter_header(region: str) -> str:
    """Has a parameter that clients also send as a header."""
    return f"In {region}."


# --- questions of a plain call ---------------------------------------------------------------


def _shown(answer: Answer[Any]) -> str:
    return f"action={answer.action}, content={json.dumps(answer.content)}"


@TOOLS.task(support="forbidden")
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the model of the client."""
    said = await ctx.ask("prompt", _prompt(prompt))
    return f"LLM response: {said.text}"


@TOOLS.task(support="forbidden")
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks a person for a name and an address."""
    answer = await ctx.ask("user", form(message, _object(username=_STRING, email=_STRING)))
    return f"User response: {_shown(answer)}"


@TOOLS.task(support="forbidden")
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks with a form whose fields all have defaults."""
    schema = _object(
        False,
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        verified={"type": "boolean", "default": True},
    )
    return f"Elicitation completed: {_shown(await ctx.ask('user', form('Correct?', schema)))}"


def _titled(*values: str) -> list[JSONObject]:
    return [{"const": value, "title": value.title()} for value in values]


@TOOLS.task(support="forbidden")
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks with a form that has every kind of enumeration."""
    options = ["option1", "option2", "option3"]
    values = ("value1", "value2", "value3")
    schema = _object(
        False,
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": _titled(*values)},
        legacyEnum={
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti={"type": "array", "items": {"type": "string", "enum": options}},
        titledMulti={"type": "array", "items": {"anyOf": _titled(*values)}},
    )
    return f"Elicitation completed: {_shown(await ctx.ask('choice', form('Choose.', schema)))}"


@TOOLS.task(support="forbidden")
async def test_missing_capability(ctx: Context) -> str:
    """Requires the sampling capability of the client."""
    await ctx.ask("prompt", _prompt("Say something."))
    return "There was an answer."


@TOOLS.task(support="forbidden")
async def test_streaming_elicitation(ctx: Context) -> str:
    """Reports progress, then asks."""
    await ctx.progress(1, 2)
    return _shown(await ctx.ask("user_name", _NAME))


@TOOLS.task(support="forbidden")
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Asks a person."""
    answer = await ctx.ask("user_name", _NAME)
    return f"Hello, {answer.content.get('name', 'stranger')}!"


@TOOLS.task(support="forbidden")
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Asks the model."""
    said = await ctx.ask("capital_question", _prompt("What is the capital of France?"))
    return said.text


@TOOLS.task(support="forbidden")
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Asks for the folders of the client."""
    return json.dumps(await ctx.ask("client_roots", _ROOTS))


@TOOLS.task(support="forbidden")
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Asks, and has the client keep the request state."""
    return _shown(await ctx.ask("confirm", form("Please confirm.", _object(ok=_BOOLEAN))))


@TOOLS.task(support="forbidden")
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Asks; the server rejects a request state that the client has changed."""
    return _shown(await ctx.ask("confirm", form("Please confirm.", _object(ok=_BOOLEAN))))


@TOOLS.task(support="forbidden")
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Makes one request of every kind at once."""
    greeting = _prompt("Write a greeting.", 50)
    answers = await ctx.ask_all({"user_name": _NAME, "greeting": greeting, "client_roots": _ROOTS})
    return f"{len(answers)} answers."


@TOOLS.task(support="forbidden")
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Asks a second time when it knows the first answer."""
    name = await ctx.ask("step1", _NAME)
    color = await ctx.ask("step2", form("And your favourite colour?", _object(color=_STRING)))
    return f"{_shown(name)}; {_shown(color)}"


@TOOLS.task(support="forbidden")
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Asks a person, or the model if the client does not support elicitation."""
    answer: Any
    try:
        answer = await ctx.ask("elicit_input", _NAME)
    except CannotAsk:
        answer = await ctx.ask("sample_input", _prompt("What is the user called?"))
    return f"Got {answer}."


# --- tasks -----------------------------------------------------------------------------------


@TOOLS.task(support="forbidden")
async def greet(name: str) -> str:
    """Says hello."""
    return f"Hello, {name}!"


@TOOLS.task()
async def slow_compute(seconds: float, ctx: Context, label: str = "") -> str:
    """Takes the given number of seconds."""
    await ctx.progress(0, seconds, "computing")
    await asyncio.sleep(seconds)
    return f"{label or 'It'} took {seconds:g} s."


@TOOLS.task(support="required")
async def failing_job() -> str:
    """Ends with a result that is an error."""
    await asyncio.sleep(0.1)
    raise ToolError("This job always fails.")


@TOOLS.task()
async def protocol_error_job() -> str:
    """Ends without a result."""
    raise CallError(INTERNAL_ERROR, "This job always breaks.")


@TOOLS.task()
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Asks before it pretends to delete a file."""
    answer = await ctx.ask("confirm", form(f"Delete {filename}?", _object(confirm=_BOOLEAN)))
    is_sure = answer.action == "accept" and answer.content.get("confirm") is True
    return f"{filename} was {'deleted' if is_sure else 'kept'}."


@TOOLS.task()
async def multi_input(ctx: Context) -> str:
    """Asks two things at once."""
    sure = form("Are you sure?", _object(confirm=_BOOLEAN))
    answers = await ctx.ask_all({"name": _NAME, "confirm": sure})
    return "; ".join(f"{key}: {_shown(answer)}" for key, answer in answers.items())


@TOOLS.task(support="required", first={"user_name": _NAME})
async def test_tool_with_task(ctx: Context) -> str:
    """Asks before there is a task, and uses the answer in it."""
    answer = await ctx.ask("user_name", _NAME)
    return f"Hello, {answer.content.get('name', 'stranger')}!"
