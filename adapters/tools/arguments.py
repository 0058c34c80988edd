"""The arguments of a function: their schema, and their conversion for the call."""

import contextlib
import inspect
from collections.abc import Sequence
from inspect import Parameter
from typing import Any, Final

import attrs
from pydantic import TypeAdapter, ValidationError

from taskmachine.adapters.tools.blame import blaming
from taskmachine.adapters.tools.json_schemas import ambiguity_of, schema_of
from taskmachine.adapters.tools.problems import problems_of, wrong_members
from taskmachine.adapters.tools.type_adapters import check_constraints, prepare, refusing, shown
from taskmachine.protocol.jsonrpc import json_type
from taskmachine.protocol.jsonvalue import JSONObject, decode_json
from taskmachine.statemachine import ConfigurationError

__all__ = ["Arguments", "arguments_of"]

MAX_ATTEMPTS: Final = 100_000
"""Pydantic tries each class of a union: with classes that contain it, classes^depth times."""


@attrs.frozen(eq=False)
class Arguments:
    """The arguments of a function."""

    schema: JSONObject
    _adapter: TypeAdapter[Any]
    _context: str | None
    _ambiguity: int

    def read(self, arguments: Any) -> dict[str, Any]:
        """Return keyword arguments for the call; ValueError lists up to five problems.

        Some hosts send arrays and objects as JSON text: a text that is wrong as it is gets parsed.
        """
        if type(arguments) is not dict:
            raise ValueError(f"arguments must be an object, got {json_type(arguments)}")
        if self._context in arguments:  # not through **kwargs
            raise ValueError(f"arguments.{self._context} is unknown")
        try:
            return self._converted(arguments)
        except ValidationError as error:
            parsed = _parsed(arguments, error)
            if parsed == arguments:
                raise ValueError(problems_of(error, "arguments", arguments)) from None
        try:
            return self._converted(parsed)
        except ValidationError as error:
            raise ValueError(problems_of(error, "arguments", parsed)) from None

    def _converted(self, arguments: JSONObject) -> dict[str, Any]:
        if self._ambiguity > 1 and _attempts(arguments, self._ambiguity) > MAX_ATTEMPTS:
            raise ValueError("arguments are nested too deeply for a union without a discriminator")
        values: dict[str, Any] = self._adapter.validator.validate_python(arguments)
        return values


def arguments_of(parameters: Sequence[Parameter], context: str | None) -> Arguments:
    """Return the arguments of a function without the one that takes the context."""
    for parameter in parameters:
        with blaming(f"parameter '{parameter.name}'"):
            prepare(parameter.annotation)
            check_constraints(parameter.annotation, parameter.default)
    try:
        adapter, schema = _read(parameters, "arguments")
    except ConfigurationError:
        for parameter in parameters:
            with blaming(f"parameter '{parameter.name}'"):
                _read([parameter], shown(parameter.annotation))
        raise
    return Arguments(schema, adapter, context, ambiguity_of(schema))


def _read(parameters: Sequence[Parameter], place: str) -> tuple[TypeAdapter[Any], JSONObject]:
    with refusing(place):
        adapter = TypeAdapter[Any](_collector(parameters))
    return adapter, schema_of(adapter, place)


def _collector(parameters: Sequence[Parameter]) -> Any:
    """Return a function with these parameters that returns its arguments.

    A model would not take each name: `copy`, `schema` and `_x` mean something to it.
    """

    def collect(**values: Any) -> dict[str, Any]:
        return values

    collect.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            parameter
            if parameter.kind is Parameter.VAR_KEYWORD
            else parameter.replace(kind=Parameter.KEYWORD_ONLY)
            for parameter in parameters
        ]
    )
    collect.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return collect


def _parsed(arguments: JSONObject, error: ValidationError) -> JSONObject:
    """Return the arguments, those that are wrong as a text parsed as JSON."""
    parsed = dict(arguments)
    for name in wrong_members(error):
        if isinstance(arguments.get(name), str):
            with contextlib.suppress(ValueError):
                value = decode_json(arguments[name].encode())
                if value is None or isinstance(value, list | dict):
                    parsed[name] = value
    return parsed


def _attempts(value: Any, ambiguity: int, factor: int = 1) -> int:
    """Return how often pydantic reads an object at most."""
    if isinstance(value, dict):
        factor *= ambiguity
        value = value.values()
    elif not isinstance(value, list):
        return 0
    return factor + sum(_attempts(part, ambiguity, factor) for part in value)
