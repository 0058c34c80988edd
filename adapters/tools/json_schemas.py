"""JSON schemas (2020-12) from type adapters, without the titles that repeat names."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, core_schema

from taskmachine.adapters.tools.type_adapters import refusing
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["ambiguity_of", "schema_of"]


_DEFINITIONS: Final = "#/$defs/"


def schema_of(
    adapter: TypeAdapter[Any], place: str, mode: JsonSchemaMode = "validation"
) -> JSONObject:
    """Return the schema of the values that an adapter takes, or makes in mode `serialization`.

    Models spend no tokens on titles that pydantic derives from names; an author's stay.
    `ConfigurationError` names the place if a type in it has no JSON form.
    """
    with refusing(place):
        schema = adapter.json_schema(schema_generator=_Compact, mode=mode)
    for part in (schema, *schema.get("$defs", {}).values()):
        if "enum" in part:
            part.pop("title", None)
    ref = schema.pop("$ref", None)  # a class that refers to itself
    if ref is None:
        return schema
    # MCP requires `type` at the top level.
    return {**schema["$defs"][ref.removeprefix(_DEFINITIONS)], **schema}


def ambiguity_of(schema: JSONObject) -> int:
    """Return how many classes of one union, without a discriminator, contain that union."""
    definitions = schema.get("$defs", {})
    within = {name: _refs(definition) for name, definition in definitions.items()}

    def reaches(start: str, name: str) -> bool:
        seen: set[str] = set()
        ahead = {start}
        while ahead:
            seen |= ahead
            ahead = set[str]().union(*(within[ref] for ref in ahead)) - seen
        return name in seen

    return max(
        (
            sum(reaches(ref, name) for ref in choices)
            for name, definition in definitions.items()
            for choices in _choices(definition)
        ),
        default=0,
    )


def _nodes(schema: Any) -> Iterator[JSONObject]:
    if isinstance(schema, dict):
        yield schema
    parts = schema.values() if isinstance(schema, dict) else schema
    if isinstance(schema, dict | list):
        for part in parts:
            yield from _nodes(part)


def _refs(schema: Any) -> set[str]:
    found = (node.get("$ref") for node in _nodes(schema))
    return {ref.removeprefix(_DEFINITIONS) for ref in found if isinstance(ref, str)}


def _choices(schema: Any) -> Iterator[list[str]]:
    """Yield the classes of each union that has no discriminator."""
    for node in _nodes(schema):
        if isinstance(node.get("anyOf"), list):
            yield [*_refs([choice for choice in node["anyOf"] if "$ref" in choice])]


class _Compact(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JSONObject:
        return _untitled(super().model_schema(schema), schema)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JSONObject:
        return _untitled(super().dataclass_schema(schema), schema)

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JSONObject:
        return _untitled(super().typed_dict_schema(schema), schema)

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, float) and not isfinite(dft):
            raise PydanticSerializationError("not JSON")  # this leaves it out
        return super().encode_default(dft)

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Leave out a default that is not JSON, without a warning."""


def _untitled(shown: JSONObject, schema: Mapping[str, Any]) -> JSONObject:
    if "cls" in schema and shown.get("title") == schema["cls"].__name__:
        del shown["title"]
    return shown
