"""Requests to the client's model, and its replies."""

from collections.abc import Sequence
from inspect import formatannotation
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import attrs

from taskmachine.adapters.tools.questions import Request
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.statemachine import TaskmachineError

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = ["SamplingResult", "UnfitReply", "sampling"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class UnfitReply(TaskmachineError):
    """The model's reply does not fit the type that the tool asked for."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"the model's reply does not fit: {reason}")
        self.text = text


@attrs.frozen
class SamplingResult(Generic[_T_co]):
    """The reply of a model.  `value` is its text in the type that was asked for, or None."""

    text: str
    """All texts of the content."""
    value: _T_co
    model: str
    stop_reason: str | None
    content: Sequence[JSONObject]


@overload
def sampling(
    messages: str | Sequence[JSONObject], max_tokens: int, answer_type: None = None, **more: Any
) -> Request[SamplingResult[None]]: ...


@overload
def sampling(
    messages: str | Sequence[JSONObject],
    max_tokens: int,
    answer_type: "TypeForm[_T]",
    **more: Any,
) -> Request[SamplingResult[_T]]: ...


def sampling(
    messages: str | Sequence[JSONObject], max_tokens: int, answer_type: Any = None, **more: Any
) -> Request[Any]:
    """Ask the client's model; `more` are further members of the request.

    With a type, the system prompt asks for JSON with its schema, and the result has the `value`.
    `UnfitReply` is raised if the reply does not fit: ask again with another key, or give up.
    """
    if isinstance(messages, str):
        messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
    params = {"messages": list(messages), "maxTokens": max_tokens, **more}
    if answer_type is None:
        return Request("sampling/createMessage", params, _reply)
    from pydantic import ValidationError  # takes 60 ms to import

    from taskmachine.adapters.tools.json_schemas import schema_of
    from taskmachine.adapters.tools.problems import problems_of
    from taskmachine.adapters.tools.type_adapters import adapter_of

    adapter = adapter_of(answer_type)
    schema = schema_of(adapter, formatannotation(answer_type))
    wish = f"Reply only with JSON that fits this JSON Schema: {encode_json(schema).decode()}"
    params["systemPrompt"] = "\n\n".join(filter(None, [params.get("systemPrompt"), wish]))

    def read(result: JSONObject) -> SamplingResult[Any]:
        reply = _reply(result)
        text = _unfenced(reply.text)
        try:
            sent = decode_json(text.encode())
        except ValueError as error:
            raise UnfitReply(reply.text, f"it is not JSON: {error}") from None
        try:
            return attrs.evolve(reply, value=adapter.validate_json(text))
        except ValidationError as error:
            raise UnfitReply(reply.text, problems_of(error, "reply", sent)) from None

    return Request("sampling/createMessage", params, read)


def _reply(result: JSONObject) -> SamplingResult[Any]:
    content: Any = result.get("content")
    blocks: list[JSONObject] = content if isinstance(content, list) else [content]
    try:
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
    except (KeyError, TypeError):  # 2025-11-25:sampling-content-validated
        raise UnfitReply("", "its content is malformed") from None
    return SamplingResult(text, None, result.get("model", ""), result.get("stopReason"), blocks)


def _unfenced(text: str) -> str:
    """Return JSON without the block of Markdown in which models often put it."""
    text = text.strip()
    is_fenced = text.startswith("```") and text.endswith("```")
    return text[3:-3].removeprefix("json") if is_fenced else text
