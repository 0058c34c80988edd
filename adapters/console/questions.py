"""Questions of a task as forms, and the input as an answer.

An answer has the same shape as on the wire: accepted, declined or dismissed, the reply of a
model, or plain JSON for other questions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from taskmachine.adapters.console.fields import Field, fields_of, read_field
from taskmachine.adapters.console.formatting import cut, pretty
from taskmachine.adapters.rendering.values import read_value
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.statemachine import Question, Reply

__all__ = ["PREFIX", "InvalidAnswer", "QuestionView", "question_view", "read_answer"]

PREFIX: Final = "field."
"""Prefix of the names of fields, which keeps them apart from other inputs of the form."""

REPLY: Final = "reply"
"""The name of the field for an answer without a form."""

MODEL: Final = "a person at the console"

Typed = Mapping[str, Sequence[str]]


class InvalidAnswer(ValueError):
    """Some input is invalid; `words` has an error text for each field."""

    def __init__(self, words: Mapping[str, str]) -> None:
        super().__init__("; ".join(words.values()))
        self.words = words


@attrs.frozen
class QuestionView:
    """A question for a page.  `kind` is form, url, sampling or other."""

    question: Question
    kind: str
    message: str
    fields: Sequence[Field] = ()
    url: str = ""
    is_safe_url: bool = False
    """Whether its scheme is http or https."""
    spoken: Sequence[tuple[str, str]] = ()
    """Role and text of the messages that a model is to continue."""
    answer: str | None = None


def question_view(question: Question) -> QuestionView:
    """Return what a page shows of a question."""
    params = read_value(question.params)
    params = params if isinstance(params, dict) else {}
    message = cut(_text(params.get("message")))
    answer = None if question.answer is None else pretty(question.answer.body)
    if question.method == "elicitation/create" and params.get("mode") == "url":
        url = _text(params.get("url"))
        is_safe = url.lower().startswith(("https://", "http://"))
        return QuestionView(question, "url", message, url=url, is_safe_url=is_safe, answer=answer)
    if question.method == "elicitation/create":
        fields = fields_of(params.get("requestedSchema"))
        return QuestionView(question, "form", message, fields, answer=answer)
    if question.method == "sampling/createMessage":
        return QuestionView(question, "sampling", "", spoken=_spoken(params), answer=answer)
    return QuestionView(
        question, "other", f"{question.method} {pretty(question.params)}", answer=answer
    )


def read_answer(question: QuestionView, action: str, typed: Typed) -> Reply:
    """Return the answer for the input of a form; `InvalidAnswer`."""
    if question.kind in ("sampling", "other"):
        return _read_reply(question, (typed.get(REPLY) or [""])[-1])
    if action not in ("accept", "decline", "cancel"):
        raise InvalidAnswer({"": "Accept, decline or dismiss the question."})
    answer: JSONObject = {"action": action}
    if action == "accept" and question.kind == "form":
        answer["content"] = _read_content(question.fields, typed)
    return Reply(encode_json(answer))


def _read_content(fields: Sequence[Field], typed: Typed) -> JSONObject:
    content: JSONObject = {}
    words: dict[str, str] = {}
    for field in fields:
        try:
            value = read_field(field, typed.get(PREFIX + field.name, ()))
        except ValueError as error:
            words[field.name] = str(error)
        else:
            if value is not None:
                content[field.name] = value
    if words:
        raise InvalidAnswer(words)
    return content


def _read_reply(question: QuestionView, text: str) -> Reply:
    if not text.strip():
        raise InvalidAnswer({REPLY: "Please write a reply."})
    if question.kind == "sampling":
        content = {"type": "text", "text": text}
        answer = {"role": "assistant", "content": content, "model": MODEL, "stopReason": "endTurn"}
        return Reply(encode_json(answer))
    try:
        value = decode_json(text.encode())
    except ValueError as error:
        raise InvalidAnswer({REPLY: f"This must be JSON: {error}."}) from None
    if not isinstance(value, dict):
        raise InvalidAnswer({REPLY: "This must be a JSON object."})
    return Reply(encode_json(value))


def _spoken(params: JSONObject) -> list[tuple[str, str]]:
    system = _text(params.get("systemPrompt"))
    messages = params.get("messages")
    spoken = [("system", cut(system))] if system else []
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict):
            spoken.append((_text(message.get("role")) or "user", _words(message.get("content"))))
    return spoken


def _words(content: Any) -> str:
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(
        cut(block["text"])
        if isinstance(block, dict) and isinstance(block.get("text"), str)
        else pretty(encode_json(block))
        for block in blocks
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
