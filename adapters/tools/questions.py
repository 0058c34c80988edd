"""Questions to the user, each with the type of its answer."""

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    overload,
)
from urllib.parse import urlsplit

import attrs

from taskmachine.adapters.tools.form_answers import fits, one_field
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.statemachine import ConfigurationError, Question

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = [
    "Accepted",
    "Answer",
    "NotAccepted",
    "Request",
    "choose",
    "confirm",
    "form",
    "questions_of",
    "url",
]

log: Final = logging.getLogger("taskmachine")

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_S = TypeVar("_S", bound=str)


@attrs.frozen
class Accepted(Generic[_T_co]):
    """The user accepted: `value` is the answer in its type, `content` its JSON."""

    value: _T_co
    content: JSONObject = attrs.field(factory=dict)
    action: Literal["accept"] = "accept"


@attrs.frozen
class NotAccepted:
    """The user declined or dismissed the question, or the content does not fit the form."""

    action: Literal["decline", "cancel"]
    content: JSONObject = attrs.field(factory=dict)
    value: None = None


Answer: TypeAlias = Accepted[_T] | NotAccepted
"""The user's answer.  Check `answer.action == "accept"` or `answer.value is not None`."""


def _as_sent(result: JSONObject) -> Any:
    return result


@attrs.frozen
class Request(Generic[_T_co]):
    """A question, generic in the type of its answer: see `form`, `url` and `sampling`."""

    method: str
    params: JSONObject
    _reader: Callable[[JSONObject], _T_co] = attrs.field(default=_as_sent, eq=False, repr=False)

    def read(self, result: JSONObject) -> _T_co:
        """Return the answer in a result.  Content that does not fit its form is a `cancel`."""
        schema = self.params.get("requestedSchema")
        if schema is not None and result.get("action") == "accept":
            content = result.get("content") or {}
            if isinstance(content, dict):  # some clients send null for a field that is empty
                content = {name: value for name, value in content.items() if value is not None}
            result = {**result, "content": content}
            if not fits(schema, content):  # 2025-11-25:elicitation-server-validates
                log.warning("an answer does not fit its form; treating it as cancelled")
                result = {"action": "cancel"}
        return self._reader(result)


def questions_of(requests: Mapping[str, Request[Any]]) -> tuple[Question, ...]:
    """Return the questions as a task record stores them."""
    return tuple(
        Question(key, request.method, encode_json(request.params))
        for key, request in requests.items()
    )


@overload
def form(message: str, answer_type: "TypeForm[_T]") -> Request[Answer[_T]]: ...


@overload
def form(message: str, answer_type: JSONObject) -> Request[Answer[JSONObject]]: ...


def form(message: str, answer_type: Any) -> Request[Any]:
    """Ask the user to fill in a form.

    Its fields are those of a pydantic model, dataclass, attrs class or TypedDict; any other type,
    such as `bool`, `date` or `Literal["a", "b"]`, makes a form of one field.  An answer that the
    type refuses counts as `cancel`.  `ConfigurationError` if a form cannot show a field.

    A form may also be written by hand, as the JSON Schema of an object with flat, primitive
    properties.
    """
    if isinstance(answer_type, dict):
        return _form(message, answer_type, lambda result: _answer(result, _as_sent))
    from taskmachine.adapters.tools.forms import form_of  # pydantic takes 60 ms to import

    typed = form_of(answer_type)
    return _form(message, typed.schema, lambda result: _answer(result, typed.read))


def confirm(message: str) -> Request[bool]:
    """Ask for a yes or no; False if the user declines."""
    schema = one_field({"type": "boolean", "default": True})
    return _form(
        message, schema, lambda result: result["action"] == "accept" and result["content"]["value"]
    )


@overload
def choose(message: str, options: "TypeForm[_T]") -> Request[_T | None]: ...


@overload
def choose(message: str, options: Sequence[_S] | Mapping[_S, str]) -> Request[_S | None]: ...


def choose(message: str, options: Any) -> Request[Any]:
    """Ask for one of some texts, of a Literal, or of the members of an Enum.

    A mapping has the text to return and the title to show.  None if the user declines.
    """
    values = _values(options)
    if not values:
        raise ConfigurationError(
            f"choose({message!r:.60}, ...) needs texts to choose from: a list of texts, a dict of"
            " text and title, an Enum, or a Literal of texts"
        )
    field: JSONObject = {"type": "string"}
    if isinstance(options, Mapping):
        field["oneOf"] = [{"const": text, "title": title} for text, title in options.items()]
    else:
        field["enum"] = list(values)
    return _form(
        message,
        one_field(field),
        lambda r: values[r["content"]["value"]] if r["action"] == "accept" else None,
    )


def _values(options: Any) -> dict[Any, Any]:
    """Return the options by the text that stands for each on the wire; empty if they are unfit."""
    if isinstance(options, type) and issubclass(options, Enum):
        return {m.value if isinstance(m.value, str) else m.name: m for m in options}
    texts = get_args(options) or options
    # Not a set: its order differs between processes, and a question must stay the same.
    is_ordered = isinstance(texts, Sequence | Mapping) and not isinstance(texts, str)
    is_fit = is_ordered and all(isinstance(text, str) for text in texts)
    return {text: text for text in texts} if is_fit else {}


def url(message: str, address: str, elicitation_id: str) -> Request[Answer[None]]:
    """Ask the user to visit a page; ValueError unless the address is an absolute URL."""
    if not urlsplit(address).scheme or not address.isprintable() or " " in address:
        # 2025-11-25:elicitation-url-valid
        raise ValueError(f"address must be an absolute URL, got {address!r:.80}")
    return Request(
        "elicitation/create",
        {"mode": "url", "message": message, "url": address, "elicitationId": elicitation_id},
        lambda result: _answer(result, lambda _: None),
    )


def _form(message: str, schema: JSONObject, reader: Callable[[JSONObject], _T]) -> Request[_T]:
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return Request("elicitation/create", params, reader)


def _answer(result: JSONObject, read: Callable[[JSONObject], _T]) -> Answer[_T]:
    if result["action"] != "accept":
        return NotAccepted(result["action"])
    content = result.get("content") or {}
    try:
        return Accepted(read(content), content)
    except ValueError as error:  # raised by the type of the form
        log.warning("an answer does not fit its form (%s); treating it as cancelled", error)
        return NotAccepted("cancel")
