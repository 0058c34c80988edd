"""Answers to requests of a target: forms from their schema, sampling with a fixed text."""

from collections.abc import Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.history import RELATED

__all__ = ["Reply", "answer", "fill_in"]

Reply = Mapping[str, Any]
"""A response without its id: `{"result": ...}` or `{"error": ...}`."""

_SAID: Final = {
    "role": "assistant",
    "content": {"type": "text", "text": "Yes."},
    "model": "taskmachine-check",
    "stopReason": "endTurn",
}
_TEXTS: Final = {
    "email": "user@example.org",
    "uri": "https://example.org/",
    "date": "2026-01-02",
    "date-time": "2026-01-02T03:04:05Z",
}


def answer(method: Any, params: Mapping[str, Any]) -> Reply:
    """Accept whatever can be accepted; repeat the related-task metadata."""
    match method:
        case "ping":
            result: dict[str, Any] = {}
        case "roots/list":
            result = {"roots": []}
        case "sampling/createMessage":
            result = {**_SAID}
        case "elicitation/create" if params.get("mode", "form") == "form":
            result = {"action": "accept", "content": fill_in(params.get("requestedSchema"))}
        case "elicitation/create":
            result = {"action": "accept"}
        case _:
            return {"error": {"code": -32601, "message": "Method not found"}}
    meta = params.get("_meta")
    if isinstance(meta, dict) and RELATED in meta:
        result["_meta"] = {RELATED: meta[RELATED]}  # 2025-11-25:related-task-on-answer
    return {"result": result}


def fill_in(schema: Any) -> dict[str, Any]:
    """Fill in the required fields of a form and those with a default."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return {
        name: _value(field)
        for name, field in properties.items()
        if isinstance(field, dict) and (name in needed or "default" in field)
    }


def _value(field: Mapping[str, Any]) -> Any:
    if "default" in field:
        return field["default"]
    options = field.get("oneOf") or field.get("anyOf")
    if isinstance(options, list) and options and isinstance(options[0], dict):
        return options[0].get("const")
    values = field.get("enum")
    if isinstance(values, list) and values:
        return values[0]
    match field.get("type"):
        case "boolean":
            return True
        case "integer" | "number":
            return _number(field)
        case "array":
            items, least = field.get("items"), field.get("minItems", 0)
            one = _value(items) if isinstance(items, dict) else "a"
            return [one] if isinstance(least, int) and least > 0 else []
        case _:
            return _text(field)


def _number(field: Mapping[str, Any]) -> Any:
    least, most = field.get("minimum"), field.get("maximum")
    if isinstance(least, int | float):
        return least
    return most if isinstance(most, int | float) and most < 1 else 1


def _text(field: Mapping[str, Any]) -> str:
    text = _TEXTS.get(str(field.get("format")), "yes")
    least, most = field.get("minLength"), field.get("maxLength")
    if isinstance(least, int):
        text = text.ljust(min(least, 10_000), "s")
    return text[:most] if isinstance(most, int) else text
