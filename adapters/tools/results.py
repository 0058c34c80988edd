"""Results of tools: data that return annotations declare, and content for the model.

An object is declared and returned as it is, other data as `{"result": ...}`.  Content, None, bytes
and lists of anything declare nothing.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from math import isfinite
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import attrs
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticSerializationError, to_jsonable_python

from taskmachine.adapters.tools.content import ToolResult, block_of, is_block, is_content
from taskmachine.adapters.tools.json_schemas import schema_of
from taskmachine.adapters.tools.problems import problems_of
from taskmachine.adapters.tools.type_adapters import adapter_of, refusing, shown
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.statemachine import ConfigurationError

__all__ = ["Results", "dumped", "results_of", "to_json"]

_ANYTHING: Final = (Any, object)
_LISTS: Final = (list, tuple, Sequence)


@attrs.frozen(eq=False)
class Results:
    """The results of a function."""

    schema: JSONObject | None = None
    """The schema of the structured content, if the function declares any."""
    _adapter: TypeAdapter[Any] | None = None
    _is_wrapped: bool = False

    def write(self, value: Any) -> JSONObject:
        """Return the result of a call; ValueError if the value cannot be one."""
        if isinstance(value, ToolResult):
            return self._exactly(value)
        if self._adapter is None:
            return _undeclared(value)
        data = dumped(self._adapter, value, "result")
        structured = {"result": data} if self._is_wrapped else data
        return {"content": _text(data), "structuredContent": structured}

    def _exactly(self, returned: ToolResult) -> JSONObject:
        structured = to_json(returned.structured)
        if self._adapter is not None and not returned.is_error:
            if self._is_wrapped and not (structured and "result" in structured):
                raise ValueError("structured.result is missing")
            data = structured["result"] if self._is_wrapped else structured
            dumped(self._adapter, data, "structured")
        result: JSONObject = {"content": _blocks(returned.content)}
        if structured is not None:
            result["structuredContent"] = structured
        if returned.is_error:
            result["isError"] = True
        if returned.meta is not None:
            result["_meta"] = to_json(returned.meta)
        return result


def results_of(hint: Any) -> Results:
    """Return the results of a function with this return annotation.

    `ConfigurationError` if it has no JSON form.
    """
    if not _is_declared(hint):
        return Results()
    try:
        adapter = adapter_of(hint)
    except ConfigurationError:
        model = _model_of(hint)
        if model is None:
            raise
        adapter = adapter_of(model)
    schema = schema_of(adapter, shown(hint), "serialization")
    if schema.get("type") == "object":
        return Results(schema, adapter)
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
    return Results({**wrapped, **definitions}, adapter, is_wrapped=True)


def _model_of(hint: Any) -> Any:
    """Return a model of a class that has only annotations, as the official SDK does, or None."""
    is_read = not isinstance(hint, type) or attrs.has(hint) or is_dataclass(hint)
    is_read = is_read or issubclass(hint, BaseModel)
    hints = {} if is_read else get_type_hints(hint, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], getattr(hint, name)) if hasattr(hint, name) else hints[name]
        for name in hints
        if not name.startswith("_")
    }
    config = ConfigDict(from_attributes=True)
    with refusing(shown(hint)):
        return create_model(hint.__name__, __config__=config, **fields) if fields else None


def _is_declared(hint: Any) -> bool:
    """Return True if an annotation declares data, rather than content or nothing."""
    origin, args = get_origin(hint) or hint, get_args(hint)
    if hasattr(hint, "__value__"):  # type X = ...
        return _is_declared(hint.__value__)
    if hint is None or hint is type(None) or hint in _ANYTHING:
        return False
    if origin in _LISTS and all(arg in (*_ANYTHING, ...) for arg in args):
        return False
    return not _shows_content(hint)


def _shows_content(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return False
    if isinstance(hint, type):
        return is_content(hint) or issubclass(hint, bytes)
    return any(map(_shows_content, get_args(hint)))


# --- values ----------------------------------------------------------------------------------


def dumped(adapter: TypeAdapter[Any], value: Any, root: str) -> Any:
    """Return a value as JSON; ValueError if it does not fit its type or has no JSON form."""
    try:
        checked = adapter.validator.validate_python(value, by_alias=True, by_name=True)
        is_model = isinstance(checked, BaseModel)  # perhaps of a subclass with more fields
        serializer = checked.__pydantic_serializer__ if is_model else adapter.serializer
        data = serializer.to_python(checked, mode="json", by_alias=True, warnings="error")
    except ValidationError as error:
        raise ValueError(problems_of(error, root, value)) from None
    except (PydanticSerializationError, RecursionError) as error:
        raise _not_json(error, root) from None
    return _finite(data)


def to_json(value: Any, root: str = "result") -> Any:
    """Return a value without annotation as JSON; ValueError if it has no JSON form."""
    try:
        data = to_jsonable_python(value, by_alias=True, fallback=_members)
    except (ValueError, RecursionError) as error:
        raise _not_json(error, root) from None
    return _finite(data)


def _members(value: Any) -> Any:
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return {field.alias: getattr(value, field.name) for field in fields if field.init}
    raise ValueError(f"it is of type {type(value).__name__}")


def _not_json(error: Exception, root: str) -> ValueError:
    return ValueError(f"{root} cannot be JSON: {' '.join(str(error).split())[:200]}")


def _finite(data: Any) -> Any:
    """Refuse numbers that `encode_json` would turn into null."""
    if isinstance(data, float) and not isfinite(data):
        raise ValueError(f"the result has a number that is not finite: {data}")
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    for part in parts:
        if isinstance(part, float | dict | list):
            _finite(part)
    return data


# --- content ---------------------------------------------------------------------------------


def _undeclared(value: Any) -> JSONObject:
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Mapping):
        shown = value[0] if isinstance(value[0], list) else [value[0]]
        if all(isinstance(item, str) or is_block(item) for item in shown):
            return {"content": _blocks(shown), "structuredContent": to_json(value[1])}
    if is_content(type(value)) and hasattr(value, "structured_content"):  # the SDK's own
        result: JSONObject = value.model_dump(mode="json", by_alias=True, exclude_none=True)
        return result
    if is_block(value):
        return {"content": _blocks([value])}
    if isinstance(value, list | tuple) and any(map(is_block, value)):
        return {"content": _blocks(value)}
    data = to_json(_text_of(value) if isinstance(value, bytes) else value)
    structured = {"structuredContent": data} if isinstance(data, dict) else {}
    return {"content": _text(data), **structured}


def _blocks(values: Sequence[Any]) -> list[JSONObject]:
    blocks: list[JSONObject] = []
    for value in values:
        is_shown = is_block(value)
        blocks += [to_json(block_of(value))] if is_shown else _undeclared(value)["content"]
    return blocks


def _text(data: Any) -> list[JSONObject]:
    """Return JSON data as content: text as it is, None as nothing."""
    if data is None:
        return []
    return [{"type": "text", "text": data if isinstance(data, str) else encode_json(data).decode()}]


def _text_of(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
