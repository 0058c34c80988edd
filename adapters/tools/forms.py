"""Forms from types: the schema to show, and the value of the type from an answer.

A form is a flat object of texts, numbers, booleans and choices.  A limit that it cannot show, such
as a pattern, is left out; the type checks it when it reads the answer.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from inspect import formatannotation
from typing import Any, Final

import attrs
from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from taskmachine.adapters.tools.form_answers import fits, one_field
from taskmachine.adapters.tools.type_adapters import adapter_of, refusing
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.statemachine import ConfigurationError

__all__ = ["Form", "form_of"]

_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})


@attrs.frozen
class Form:
    """A form for the values of a type."""

    schema: JSONObject
    _adapter: TypeAdapter[Any]
    _is_wrapped: bool
    _nulls: Sequence[str]
    """Fields that may be left empty though the type has no default for them."""

    def read(self, content: JSONObject) -> Any:
        """Return the value of content that fits the schema; ValueError if the type refuses it."""
        shown = {name: content[name] for name in self.schema["properties"] if name in content}
        filled = {**dict.fromkeys(self._nulls), **shown}
        try:
            return self._adapter.validate_json(
                encode_json(filled["value"] if self._is_wrapped else filled)
            )
        except ValidationError as error:
            # For the log, so without the values.
            kinds = [".".join([*map(str, e["loc"]), e["type"]]) for e in error.errors()]
            raise ValueError(", ".join(kinds)) from None


class _Unshown(ValueError):
    """A form cannot show a field: the reason, and what to use instead."""


class _FormSchema(GenerateJsonSchema):
    def decimal_schema(self, schema: Any) -> JSONObject:
        number: Any = {**schema, "type": "float"}
        return self.float_schema(number)

    def encode_default(self, dft: Any) -> Any:
        return float(dft) if isinstance(dft, Decimal) else super().encode_default(dft)

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Leave out a default that is not JSON, without a warning."""


def form_of(answer_type: Any) -> Form:
    """Return the form of a type; `ConfigurationError` names the field that it cannot show."""
    # Other annotations are not cached: `A | B` is equal to `B | A`.
    return _cached(answer_type) if isinstance(answer_type, type) else _form_of(answer_type)


def _form_of(answer_type: Any) -> Form:
    adapter = adapter_of(answer_type)
    is_class = isinstance(answer_type, type)
    name = answer_type.__name__ if is_class else formatannotation(answer_type)
    with refusing(name):
        schema = adapter.json_schema(schema_generator=_FormSchema)
    types = schema.get("$defs", {})
    schema = _resolved(schema, types)
    is_wrapped = "properties" not in schema
    if is_wrapped:
        if schema.get("title") == name:
            del schema["title"]
        schema = one_field(schema)
    fields, nullable = {}, set()
    for key, found in schema["properties"].items():
        part, is_nullable = _without_null(_resolved(found, types), types)
        try:
            fields[key] = _field(key, part, types)
        except _Unshown as unshown:
            place = name if is_wrapped else f"{name}.{key}"
            raise ConfigurationError(f"a form cannot show {place}: {unshown}") from None
        if is_nullable:
            nullable.add(key)
    required = schema.get("required", [])
    shown: JSONObject = {"type": "object", "properties": fields}
    if needed := [key for key in required if key not in nullable]:
        shown["required"] = needed
    return Form(shown, adapter, is_wrapped, [key for key in required if key in nullable])


_cached: Final = lru_cache(maxsize=1024)(_form_of)


def _resolved(part: JSONObject, types: Mapping[str, JSONObject]) -> JSONObject:
    """Return a schema with the type that it refers to, but without the name of that type."""
    while "$ref" in part:
        found = dict(types[part["$ref"].removeprefix("#/$defs/")])
        found.pop("title", None)
        part = {**found, **{key: value for key, value in part.items() if key != "$ref"}}
    return part


def _without_null(part: JSONObject, types: Mapping[str, JSONObject]) -> tuple[JSONObject, bool]:
    if None in part.get("enum", ()):
        return {**part, "enum": [value for value in part["enum"] if value is not None]}, True
    if "anyOf" not in part:
        return part, False
    parts = [_resolved(option, types) for option in part["anyOf"]]
    rest = [option for option in parts if option.get("type") != "null"]
    outer = {key: value for key, value in part.items() if key != "anyOf"}
    bare = {**rest[0], **outer} if len(rest) == 1 else {**outer, "anyOf": rest}
    return bare, len(rest) < len(parts)


def _field(key: str, part: JSONObject, types: Mapping[str, JSONObject]) -> JSONObject:
    field = _kind(part, types)
    field["title"] = part.get("title") or key.replace("_", " ").title()
    if "description" in part:
        field["description"] = part["description"]
    default = part.get("default")
    if default is not None and fits({"properties": {key: field}}, {key: default}):
        field["default"] = default
    return field


def _kind(part: JSONObject, types: Mapping[str, JSONObject]) -> JSONObject:
    kind = part.get("type")
    if choices := _choices(part, types):
        return {"type": "string", **choices}
    if kind == "string":
        if part.get("writeOnly"):
            raise _Unshown("forms must not ask for secrets; ask with url(...)")
        is_known = part.get("format") in _FORMATS
        return {"type": kind, **_some(part, "minLength", "maxLength", *["format"] * is_known)}
    if kind in ("integer", "number"):
        return {"type": kind, **_bounds(part)}
    if kind == "boolean":
        return {"type": kind}
    if kind == "array":
        choices = _choices(_resolved(part.get("items") or {}, types), types)
        if choices is None:
            raise _Unshown("a list must be of choices; use list[Literal[...]] or a list of an Enum")
        items = {"anyOf": choices["oneOf"]} if "oneOf" in choices else {"type": "string", **choices}
        return {"type": kind, "items": items, **_some(part, "minItems", "maxItems")}
    if kind == "object":
        raise _Unshown("forms are flat; move its fields up, or ask for it in another question")
    if "anyOf" in part or "oneOf" in part:
        raise _Unshown("a field has one type; use one of them, or text")
    raise _Unshown("use text, a number, bool, a date, a Literal, an Enum, or a list of choices")


def _choices(part: JSONObject, types: Mapping[str, JSONObject]) -> JSONObject | None:
    """Return the keywords of a choice of texts; None if any value of the type is allowed."""
    if part.get("type") == "boolean":  # Literal[True]
        return None
    options = [_resolved(option, types) for option in part.get("oneOf") or part.get("anyOf") or ()]
    if options and all("const" in option for option in options):
        texts = [option["const"] for option in options]
        titles = [option.get("title") or str(option["const"]) for option in options]
        pairs = zip(texts, titles, strict=True)
        choices: JSONObject = {"oneOf": [{"const": text, "title": title} for text, title in pairs]}
    elif "const" in part or "enum" in part:
        texts = part.get("enum") or [part["const"]]
        choices = {"enum": texts, **_some(part, "enumNames")}
    else:
        return None
    if not all(isinstance(text, str) for text in texts):
        raise _Unshown("choices must be texts, as in Literal['1', '2']")
    return choices


def _bounds(part: JSONObject) -> JSONObject:
    """Return the limits of a number; the type refuses the bound itself if that is exclusive."""
    bounds = _some(part, "minimum", "maximum")
    is_whole = part["type"] == "integer"
    if "exclusiveMinimum" in part:
        bounds["minimum"] = part["exclusiveMinimum"] + is_whole
    if "exclusiveMaximum" in part:
        bounds["maximum"] = part["exclusiveMaximum"] - is_whole
    return bounds


def _some(part: JSONObject, *keywords: str) -> JSONObject:
    return {keyword: part[keyword] for keyword in keywords if keyword in part}
