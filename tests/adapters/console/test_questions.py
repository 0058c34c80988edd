"""Forms from schemas, and answers from forms."""

from typing import Any

import pytest

from taskmachine.adapters.console.fields import fields_of, read_field
from taskmachine.adapters.console.questions import InvalidAnswer, question_view, read_answer
from taskmachine.protocol.jsonvalue import decode_json, encode_json
from taskmachine.statemachine import Question, Reply, State
from tests.adapters.console.console_server import ALICE, console_server
from tests.adapters.memory_service import FORM, run


def field(schema: Any, *, is_required: bool = True) -> Any:
    [made] = fields_of({"properties": {"f": schema}, "required": ["f"] if is_required else []})
    return made


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"type": "string"}, ["a"], "a"),
        ({"type": "string"}, [""], ""),
        ({"type": "string", "format": "email"}, ["a@b.c"], "a@b.c"),
        ({"type": "string", "format": "date-time"}, ["x"], "x"),
        ({"type": "string", "enum": ["a", "b"]}, ["b"], "b"),
        ({"oneOf": [{"const": "a", "title": "A"}]}, ["a"], "a"),
        ({"type": "integer", "minimum": 1}, ["7"], 7),
        ({"type": "number", "maximum": 1}, ["0.5"], 0.5),
        ({"type": "boolean"}, ["true"], True),
        ({"type": "boolean"}, [], False),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1}, ["a", "b"], ["a", "b"]),
        ({"type": "object"}, ['{"a": 1}'], {"a": 1}),
        ({"type": "integer", "minimum": "x"}, ["7"], 7),
        ("nonsense", ["1"], 1),
    ],
)
def test_input_is_read_by_the_schema(schema: Any, typed: list[str], value: Any) -> None:
    assert read_field(field(schema), typed) == value


@pytest.mark.parametrize(
    ("schema", "typed", "words"),
    [
        ({"type": "string", "minLength": 2}, ["a"], "at least 2 characters"),
        ({"type": "string", "maxLength": 2}, ["abc"], "at most 2 characters"),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["a"], "2 to 3 characters"),
        ({"type": "string", "format": "date"}, [""], "fill this in"),
        ({"type": "string", "enum": ["a"]}, ["b"], "Choose one of the options"),
        ({"type": "string", "enum": ["a"]}, [], "fill this in"),
        ({"type": "integer"}, ["1.5"], "a whole number."),
        ({"type": "integer", "minimum": 1, "maximum": 5}, ["9"], "whole number from 1 to 5"),
        ({"type": "number", "minimum": 1}, ["0"], "a number of at least 1"),
        ({"type": "number", "maximum": 1}, ["2"], "a number of at most 1"),
        ({"type": "number"}, ["nan"], "a number."),
        ({"type": "array", "items": {"enum": ["a"]}, "minItems": 1}, [], "at least 1"),
        ({"type": "array", "items": {"enum": ["a"]}, "minItems": 1, "maxItems": 2}, [], "1 to 2"),
        ({"type": "object"}, ["{"], "JSON"),
    ],
)
def test_invalid_input_is_refused_with_a_message(schema: Any, typed: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_field(field(schema), typed)


def test_optional_fields_may_be_empty() -> None:
    for schema in (
        {"type": "string"},
        {"type": "integer"},
        {"type": "array", "items": {"enum": ["a"]}},
    ):
        assert read_field(field(schema, is_required=False), []) is None


def test_unusual_schemas_make_fields_for_json_or_none() -> None:
    assert fields_of(None) == fields_of({"properties": 1}) == []
    assert field({"type": "array", "items": 1}).kind == "json"
    assert field({"enum": [1, 2]}).kind == "json"
    assert field({"oneOf": [{"const": 1}]}).kind == "json"
    assert field({"type": "object", "default": {"a": 1}}).value == '{"a": 1}'
    assert field({"type": "string", "enum": ["a"], "enumNames": ["A"]}).options == [("a", "A")]
    assert field({"type": "array", "items": {"enum": ["a"]}, "default": ["a"]}).value == ["a"]


def question(method: str, params: Any) -> Question:
    return Question("q", method, encode_json(params))


def test_each_kind_is_answered_in_its_shape() -> None:
    url = question_view(question("elicitation/create", {"mode": "url", "url": "https://a.example"}))
    assert url.is_safe_url
    assert read_answer(url, "accept", {}) == Reply(b'{"action":"accept"}')
    sampling = question_view(
        question("sampling/createMessage", {"messages": [{"content": [1]}, 2]})
    )
    answer = decode_json(read_answer(sampling, "", {"reply": ["Hello"]}).body)
    assert answer["content"] == {"type": "text", "text": "Hello"}
    assert answer["role"] == "assistant"
    other = question_view(question("roots/list", []))
    assert read_answer(other, "", {"reply": ['{"roots":[]}']}) == Reply(b'{"roots":[]}')
    for text in ("", "{", "1"):
        with pytest.raises(InvalidAnswer):
            read_answer(other, "", {"reply": [text]})
    with pytest.raises(InvalidAnswer):
        read_answer(url, "delete", {})


def test_only_web_addresses_are_links() -> None:
    for url in ("javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", " https://x", ""):
        shown = question_view(question("elicitation/create", {"mode": "url", "url": url}))
        assert not shown.is_safe_url


def test_an_answer_reaches_the_tool_as_on_the_wire() -> None:
    async def main() -> None:
        async with console_server() as there:
            task = await there.asking(FORM)
            alice = await there.visitor(ALICE)
            page = f"/tasks/{task.id}"
            assert "Name?" in (await alice.get(page)).text
            nothing = await alice.send(f"{page}/answer", key="name", action="")
            assert nothing.status_code == 422
            wrong = await alice.send(f"{page}/answer", key="other", action="accept")
            assert wrong.status_code == 303
            assert (await there.service.get(ALICE, task.id)) == task
            done = await alice.send(f"{page}/answer", key="name", action="decline")
            assert (done.status_code, done.headers["location"]) == (303, f"/console{page}")
            after = await there.service.get(ALICE, task.id)
            assert after.state is State.WORKING
            assert after.questions[0].answer == Reply(b'{"action":"decline"}')
            # A second or late answer changes nothing, and the page shows the first.
            assert (
                await alice.send(f"{page}/answer", key="name", action="accept")
            ).status_code == 303
            assert (await alice.send(f"{page}/cancel")).status_code == 303
            assert (await alice.send(f"{page}/cancel")).status_code == 303
            assert (
                await alice.send(f"{page}/answer", key="name", action="accept")
            ).status_code == 303

    run(main())
