"""JSON Schemas of a target, which may be anything, and what breaks them."""

from typing import Any

import jsonschema_rs

__all__ = ["certain_fault", "fault"]


def fault(schema: Any, value: Any) -> str | None:
    """What is wrong with a value, in words; None if nothing, or if the schema is of no use."""
    for error in _errors(schema, value):
        return str(error.message)
    return None


def certain_fault(schema: Any, value: Any) -> str | None:
    """The same, but only what nobody can mend: no value at all, or an object for a scalar.

    A number in a string, or a member too much, are taken by many on purpose.
    """
    for error in _errors(schema, value):
        kind = type(error.kind).__name__
        if kind == "Required" or (kind == "Type" and isinstance(error.instance, dict)):
            return str(error.message)
    return None


def _errors(schema: Any, value: Any) -> list[jsonschema_rs.ValidationError]:
    if not isinstance(schema, dict):
        return []
    try:
        return list(jsonschema_rs.validator_for(schema, retriever=_refuse).iter_errors(value))
    except ValueError:  # no schema, or one with references to elsewhere
        return []


def _refuse(uri: str) -> Any:
    raise ValueError(uri)
