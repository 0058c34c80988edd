"""Validation against JSON Schemas of a target, which may be invalid themselves."""

from typing import Any

import jsonschema_rs

__all__ = ["certain_fault", "fault"]


def fault(schema: Any, value: Any) -> str | None:
    """Return what is wrong with a value; None if nothing, or if the schema is unusable."""
    for error in _errors(schema, value):
        return str(error.message)
    return None


def certain_fault(schema: Any, value: Any) -> str | None:
    """Return the same, but only for faults that no coercion repairs.

    These are a missing value, or an object where a scalar is expected. Many implementations
    deliberately accept a number in a string or an additional member.
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
    except ValueError:  # invalid, or with external references
        return []


def _refuse(uri: str) -> Any:
    raise ValueError(uri)
