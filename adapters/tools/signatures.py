"""Derive the schemas of an MCP tool from a Python function, and convert arguments and results."""

import functools
import inspect
from collections.abc import Callable
from inspect import Parameter
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import attrs

from taskmachine.adapters.tools.json_kinds import UNKNOWN, Kind, Wrong
from taskmachine.adapters.tools.json_schema import Field, Types, blaming, is_object, resolve
from taskmachine.adapters.tools.plain_json import to_json
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import ConfigurationError

__all__ = ["Signature", "signature_of"]

Parameters = dict[str, tuple[Parameter, Any]]


@attrs.frozen(eq=False)
class Signature:
    """The schemas of a function, and the conversion of its arguments and results."""

    input_schema: JSONObject
    output_schema: JSONObject | None
    context_parameter: str | None
    """The name of the parameter that takes the context, which the schema omits."""
    _arguments: Kind
    _result: Kind | None

    def read(self, arguments: JSONObject) -> dict[str, Any]:
        """Return keyword arguments for the call; ValueError lists up to five problems."""
        values: dict[str, Any] = _read(self._arguments, arguments, "arguments")
        return values

    def write(self, value: Any) -> Any:
        """Return the result as JSON; ValueError if it is not JSON or violates the schema."""
        result = value if type(value) is str and value.isascii() else to_json(value)
        if self._result is not None:
            _read(self._result, result, "result")
        return result


def _read(kind: Kind, value: Any, root: str) -> Any:
    try:
        return kind.read(value, {})
    except Wrong as wrong:
        words = "; ".join(f"{root}{place} {words}" for place, words in wrong.found)
        raise ValueError(words) from None
    except RecursionError:
        raise ValueError(f"{root} is nested too deeply") from None


def signature_of(
    function: Callable[..., Any],
    context_types: tuple[type, ...],
    result_types: tuple[type, ...] = (),
) -> Signature:
    """Return the signature of a function; ConfigurationError names an unsupported parameter.

    A function that returns one of `result_types` has no output schema.
    """
    with blaming(getattr(function, "__qualname__", repr(function))):
        parameters, returned = _annotations(function)
        contexts = [
            name
            for name, (parameter, hint) in parameters.items()
            if parameter.kind is not Parameter.VAR_KEYWORD and _takes(hint, context_types)
        ]
        if len(contexts) > 1:
            raise ConfigurationError(f"takes the context twice: {', '.join(contexts)}")
        context = contexts[0] if contexts else None
        inputs, outputs = Types(), Types()
        arguments = _arguments(inputs, parameters, context)
        result = None
        if is_object(returned) and returned not in result_types:
            with blaming("the return type"):
                result = outputs.kind(returned)
        return Signature(
            inputs.document(arguments),
            None if result is None else outputs.document(result),
            context,
            arguments,
            result,
        )


def _annotations(function: Callable[..., Any]) -> tuple[Parameters, Any]:
    """Return the parameters with their resolved annotations, and the return annotation."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(str(error)) from None
    home: Any = function  # the function in whose module the annotations are resolved
    while hasattr(home, "__wrapped__") or isinstance(home, functools.partial):
        home = home.func if isinstance(home, functools.partial) else home.__wrapped__
    namespace = getattr(home, "__globals__", None) or getattr(home.__call__, "__globals__", {})

    def resolved(annotation: Any) -> Any:
        return resolve(SimpleNamespace(__annotations__={"it": annotation}), namespace)["it"]

    parameters = {}
    for name, parameter in signature.parameters.items():
        with blaming(f"'{name}'"):
            if parameter.kind is Parameter.POSITIONAL_ONLY:
                raise ConfigurationError("is positional-only, but arguments are passed by name")
            if parameter.kind is Parameter.VAR_POSITIONAL:
                raise ConfigurationError("takes positional arguments, but they are passed by name")
            if parameter.annotation is Parameter.empty:
                raise ConfigurationError("has no annotation")
            parameters[name] = parameter, resolved(parameter.annotation)
    with blaming("the return type"):
        return parameters, resolved(signature.return_annotation)


def _takes(hint: Any, context_types: tuple[type, ...]) -> bool:
    origin = get_origin(hint)
    if origin in (Annotated, Union, UnionType):
        return any(_takes(arg, context_types) for arg in get_args(hint))
    cls = origin or hint
    return isinstance(cls, type) and issubclass(cls, context_types)


def _arguments(types: Types, parameters: Parameters, context: str | None) -> Kind:
    rest = UNKNOWN
    fields = []
    for name, (parameter, hint) in parameters.items():
        if parameter.kind is Parameter.VAR_KEYWORD:
            with blaming(f"'{name}'"):
                rest = types.kind(hint)
        elif name != context:
            is_required = parameter.default is Parameter.empty
            fields.append(Field(name, hint, is_required, parameter.default))
    if context is not None and rest is not UNKNOWN:
        # Callers must not pass a context through **kwargs.
        fields.append(Field(context, UNKNOWN, is_required=False))
    return types.object(fields, rest)
