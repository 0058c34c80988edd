"""Read the signature of a function.

Pydantic reads the parameters, so an annotation means what it means in the official SDK and FastMCP.
"""

import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import Field

from taskmachine.adapters.tools.arguments import arguments_of
from taskmachine.adapters.tools.blame import blaming, home_of
from taskmachine.adapters.tools.results import results_of
from taskmachine.adapters.tools.signatures import Signature
from taskmachine.statemachine import ConfigurationError

__all__ = ["resolved", "signature_of"]


def signature_of(
    function: Callable[..., Any],
    context_types: tuple[type, ...],
    descriptions: Mapping[str, str] | None = None,
) -> Signature:
    """Return the signature of a function; ConfigurationError names what cannot be offered.

    `descriptions` are for parameters whose annotations have none.
    """
    _check_form(function)
    parameters, returned = _annotations(function)
    contexts = [
        name
        for name, parameter in parameters.items()
        if parameter.kind is not Parameter.VAR_KEYWORD
        and _takes(parameter.annotation, context_types)
    ]
    if len(contexts) > 1:
        raise ConfigurationError(f"takes the context twice: {', '.join(contexts)}")
    context = contexts[0] if contexts else None
    arguments = arguments_of(
        [parameter for name, parameter in parameters.items() if name != context], context
    )
    for name, words in (descriptions or {}).items():
        if name in arguments.schema["properties"]:
            arguments.schema["properties"][name].setdefault("description", words)
    with blaming("the return type"):
        results = results_of(returned)
    return Signature(arguments.schema, results.schema, context, arguments.read, results.write)


def _check_form(function: Callable[..., Any]) -> None:
    home = home_of(function)
    if inspect.isclass(function):
        raise ConfigurationError("is a class; use a function")
    if inspect.isgeneratorfunction(home) or inspect.isasyncgenfunction(home):
        raise ConfigurationError("is a generator, which would run after the call; return a list")


# --- annotations -----------------------------------------------------------------------------


def _annotations(function: Callable[..., Any]) -> tuple[dict[str, Parameter], Any]:
    """Return the parameters with their resolved annotations, and the return annotation."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(str(error)) from None
    namespace = getattr(home_of(function), "__globals__", {})
    parameters = {}
    for name, parameter in signature.parameters.items():
        with blaming(f"parameter '{name}'"):
            if parameter.kind is Parameter.POSITIONAL_ONLY:
                raise ConfigurationError("is positional-only, but arguments are passed by name")
            if parameter.kind is Parameter.VAR_POSITIONAL:
                raise ConfigurationError("takes positional arguments, but they are passed by name")
            if name in ("self", "cls") and parameter.annotation is Parameter.empty:
                raise ConfigurationError("has no object; register a bound method")
            parameters[name] = parameter.replace(
                annotation=resolved(parameter.annotation, namespace)
            )
    with blaming("the return type"):
        return parameters, resolved(signature.return_annotation, namespace)


def resolved(annotation: Any, namespace: dict[str, Any]) -> Any:
    """Return an annotation whose text, if it is one, is evaluated; Any for none."""
    if annotation is Parameter.empty:
        return Any
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        hint = get_type_hints(holder, namespace, include_extras=True)["it"]
    except NameError as error:
        raise ConfigurationError(f"{error}; define or import it at the top of the module") from None
    except Exception as error:  # noqa: BLE001  an annotation may be any expression
        raise ConfigurationError(f"cannot resolve {annotation!r:.80}: {error}") from None
    if get_origin(hint) is Annotated:  # a text is the description, as in FastMCP
        bare, *notes = get_args(hint)
        notes = [Field(description=note) if isinstance(note, str) else note for note in notes]
        return Annotated[(bare, *notes)]
    return hint


def _takes(hint: Any, context_types: tuple[type, ...]) -> bool:
    origin = get_origin(hint)
    if origin in (Annotated, Union, UnionType):
        return any(_takes(arg, context_types) for arg in get_args(hint))
    cls = origin or hint
    if not isinstance(cls, type):
        return False
    if cls.__name__ == "Context" and cls.__module__.partition(".")[0] in ("fastmcp", "mcp"):
        raise ConfigurationError(f"takes the Context of {cls.__module__}; use taskmachine.Context")
    return issubclass(cls, context_types)
