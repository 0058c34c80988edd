"""Read the arguments of a tool as people type them, by the tool's input schema."""

import sys
from collections.abc import Iterable
from typing import Any, Final

from taskmachine.adapters.cli.connecting import read_file
from taskmachine.adapters.cli.nearest import did_you_mean
from taskmachine.adapters.cli.schemas import TYPES, Schema
from taskmachine.protocol.jsonrpc import json_type
from taskmachine.protocol.jsonvalue import JSONObject, decode_json
from taskmachine.statemachine import ConfigurationError

__all__ = ["read_arguments", "read_whole"]

MAX_SHOWN: Final = 40
"""Maximum number of characters of a value in an error."""


def read_arguments(tool: JSONObject, words: Iterable[str], whole: JSONObject | None) -> JSONObject:
    """Return the arguments of a call.

    `words` are `key=value`, `key:=JSON` or `key=@file`; they are checked against the schema, and
    override those of `whole`, which only the server checks.
    """
    schema = Schema.of(tool.get("inputSchema"))
    arguments = dict(whole or {})
    arguments |= dict(_read(word, tool["name"], schema) for word in words)
    missing = [name for name in schema.required if name not in arguments]
    if whole is None and missing:
        members = schema.members
        forms = [f"{name}={_form(members[name])}" for name in missing if name in members]
        raise ConfigurationError(
            f"{tool['name']} needs {', '.join(missing)}: add {' '.join(forms)}"
        )
    return arguments


_JSON_HINTS: Final = {
    "array": ": write JSON, as in '[1, 2]'",
    "object": """: write JSON, as in '{"a": 1}'""",
}


def read_whole(given: str) -> JSONObject:
    """Return the arguments in the value of `--args`."""
    if given == "-":
        text = sys.stdin.read()
    else:
        text = read_file(given[1:]) if given.startswith("@") else given
    arguments = _json(text, "--args")
    if not isinstance(arguments, dict):
        raise ConfigurationError("--args must be a JSON object")
    return arguments


def _read(word: str, tool: str, schema: Schema) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    is_json = name.endswith(":")
    name = name.removesuffix(":")
    if not equals or not name:
        raise ConfigurationError(f"'{word}' is not an argument of a tool: write KEY=VALUE")
    members = schema.members
    if name not in members and not schema.takes_others:
        known = f": it takes {', '.join(members)}" if members else ": it takes none"
        hint = did_you_mean(name, members) or known
        raise ConfigurationError(f"{tool} has no argument '{name}'{hint}")
    if not text.isascii() and text != text.encode(errors="replace").decode():
        raise ConfigurationError(f"{name} is not text in UTF-8")
    if text.startswith("@"):
        text = read_file(text[1:])
    if is_json:
        return name, _json(text, f"{name}:=")
    return name, _value(name, text, members.get(name) or Schema.of({}))


def _value(name: str, text: str, schema: Schema) -> Any:
    types = schema.types()
    if "string" in types and types != TYPES:
        return text
    try:
        value = decode_json(text.encode())
    except ValueError:
        value = text
    if not types & _types_of(value):
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
        hint = _JSON_HINTS.get(next(iter(types)), "") if len(types) == 1 else ""
        raise ConfigurationError(f"{name} must be of type {schema.kind()}, got '{shown}'{hint}")
    return value


def _types_of(value: Any) -> set[str]:
    is_whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    return {json_type(value), *(["integer"] if is_whole else [])}


def _json(text: str, where: str) -> Any:
    try:
        return decode_json(text.encode())
    except ValueError as error:
        raise ConfigurationError(f"{where} is not valid JSON: {error}") from None


def _form(schema: Schema) -> str:
    types = schema.types()
    return "TEXT" if "string" in types else "JSON" if len(types) > 1 else min(types).upper()
