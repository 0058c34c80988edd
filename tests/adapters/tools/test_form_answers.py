"""Answers to forms, compared with an independent validator."""

from typing import Any, Final

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.adapters.runtime.plain_calls import PlainCalls
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.form_answers import fits
from taskmachine.adapters.tools.questions import Accepted, Answer, NotAccepted, form
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import Reply
from tests.adapters.memory_service import call
from tests.adapters.runtime.test_plain_calls import play
from tests.requirements import covers

FIELDS: Final[list[dict[str, Any]]] = [
    {"type": "string"},
    {"type": "string", "minLength": 2, "maxLength": 3},
    {"type": "string", "enum": ["a", "b"]},
    {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
    {"type": "integer", "minimum": 1, "maximum": 3},
    {"type": "number", "minimum": 0.5},
    {"type": "boolean"},
    {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["a"]}},
    {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
]

values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 4) | st.floats(-1, 4) | st.sampled_from("ab")
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)  # fmt: skip


@st.composite
def forms(draw: st.DrawFn) -> dict[str, Any]:
    fields = draw(st.dictionaries(st.sampled_from("xyz"), st.sampled_from(FIELDS)))
    required = draw(st.lists(st.sampled_from(sorted(fields)), unique=True)) if fields else []
    return {"type": "object", "properties": fields, "required": required}


@given(forms(), values | st.dictionaries(st.sampled_from("xyz"), values))
def test_an_answer_fits_if_the_schema_says_so(schema: dict[str, Any], content: Any) -> None:
    assert fits(schema, content) == jsonschema_rs.is_valid(schema, content)


@covers("2025-11-25:elicitation-server-validates", "2026-07-28:elicitation-server-validates")
@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ({"action": "accept", "content": {"age": 7}}, Accepted({"age": 7}, {"age": 7})),
        ({"action": "accept", "content": {"age": "seven"}}, NotAccepted("cancel")),
        ({"action": "accept", "content": {}}, NotAccepted("cancel")),
        ({"action": "accept"}, NotAccepted("cancel")),
        ({"action": "decline"}, NotAccepted("decline")),
    ],
)
def test_form_answer_that_violates_the_schema_becomes_a_cancel(
    reply: Any, answer: Answer[Any]
) -> None:
    tools, heard = Tools(), []
    age = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}

    @tools.task()
    async def ask(ctx: Context) -> str:
        heard.append(await ctx.ask("age", form("How old?", age)))
        return "asked"

    async def scene(calls: PlainCalls) -> None:
        answers = {"age": Reply(encode_json(reply))}
        await calls.run(Caller("alice"), tools["ask"], call("ask"), answers)

    play(tools, scene)
    assert heard == [answer]
