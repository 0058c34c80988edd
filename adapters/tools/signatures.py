"""The signature of a tool: its schemas, and the conversion of arguments and results."""

from collections.abc import Callable
from typing import Any

import attrs

from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["Signature"]


def _unchanged(value: Any) -> Any:
    return value


@attrs.frozen(eq=False)
class Signature:
    """The schemas of a tool, and its conversions; by default JSON stays as it is."""

    input_schema: JSONObject
    output_schema: JSONObject | None = None
    context_parameter: str | None = None
    """The name of the parameter that takes the context, which the schema omits."""
    read: Callable[[Any], dict[str, Any]] = _unchanged
    """Returns keyword arguments for the call; ValueError lists up to five problems."""
    write: Callable[[Any], JSONObject] = _unchanged
    """Returns the result of a call; ValueError if the returned value cannot be one."""
