"""Scripted answers to the questions of tools."""

from collections.abc import Awaitable, Mapping
from typing import Any

from taskmachine.adapters.client.remote_task import Question
from taskmachine.adapters.tools.form_answers import fits
from taskmachine.adapters.tools.registry import CallError
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["Script"]


class Script:
    """Answers questions by their keys, and records what it cannot answer."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers
        self.asked: list[Question] = []
        self.problem: str | None = None

    async def answer(self, question: Question) -> JSONObject:
        """Return the scripted answer; CallError without one, which the tool gets as `Refused`."""
        self.asked.append(question)
        try:
            if question.key not in self._answers:
                raise LookupError(f"has no answer: answers={{{question.key!r}: ...}}")
            value = self._answers[question.key]
            if callable(value):
                value = value(question)
                value = await value if isinstance(value, Awaitable) else value
            return _result(question, value)
        except Exception as error:  # an error in a script is an error of the test
            words = str(error) if isinstance(error, LookupError) else f"{error!r}"
            self.problem = f"the question {question.key!r} ({question.message!r}) {words}"
            raise CallError(INTERNAL_ERROR, self.problem) from error


def _result(question: Question, value: Any) -> JSONObject:
    if isinstance(value, Mapping) and value.keys() & {"action", "role"}:
        return dict(value)
    if value is None:
        return question.decline()
    if question.method == "sampling/createMessage":
        content = {"type": "text", "text": _text(value)}
        return {"role": "assistant", "content": content, "model": "script"}
    schema = question.params.get("requestedSchema", {})
    content = _json(value)
    if not isinstance(content, dict):
        fields = list(schema.get("properties", {}))
        if len(fields) != 1:
            raise LookupError(f"has the fields {', '.join(fields)}, but the answer is {value!r}")
        content = {fields[0]: content}
    if not fits(schema, content):
        raise LookupError(f"has an answer that does not fit: {content!r}")
    return question.accept(**content)


def _text(value: Any) -> str:
    from pydantic_core import to_json

    return value if isinstance(value, str) else to_json(_json(value)).decode()


def _json(value: Any) -> Any:
    # Here, as pydantic takes a while to import.
    from taskmachine.adapters.tools.type_adapters import adapter_of

    return adapter_of(type(value)).dump_python(value, mode="json", exclude_none=True)
