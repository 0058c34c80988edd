"""JSON schemas (2020-12) from type adapters, without the titles that repeat names."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaWarningKind
from pydantic_core import core_schema

from taskmachine.adapters.tools.type_adapters import refusing
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["schema_of"]


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
    return {**schema["$defs"][ref.removeprefix("#/$defs/")], **schema}


class _Compact(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JSONObject:
        return _untitled(super().model_schema(schema), schema)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JSONObject:
        return _untitled(super().dataclass_schema(schema), schema)

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JSONObject:
        return _untitled(super().typed_dict_schema(schema), schema)

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Leave out a default that is not JSON, without a warning."""


def _untitled(shown: JSONObject, schema: Mapping[str, Any]) -> JSONObject:
    if "cls" in schema and shown.get("title") == schema["cls"].__name__:
        del shown["title"]
    return shown
