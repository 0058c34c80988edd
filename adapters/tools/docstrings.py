"""Descriptions of a tool and its parameters from a docstring (Google, NumPy, Sphinx)."""

import inspect
import re
from collections.abc import Mapping
from types import MethodType
from typing import Any, Final

from taskmachine.adapters.tools.blame import home_of

__all__ = ["descriptions_of"]

_SECTION: Final = re.compile(
    r"^[ \t]*(?:(?:Args|Arguments|Parameters|Params):?[ \t]*$|:param\b)", re.MULTILINE
)


def descriptions_of(function: Any) -> tuple[str | None, Mapping[str, str]]:
    """Return the description of a tool, and those of its parameters by name.

    If the docstring describes parameters, the tool's description is the part before them.
    """
    home = home_of(function)
    description, parameters = _read(inspect.getdoc(home))
    if isinstance(home, MethodType) and home.__name__ == "__call__":  # a callable object
        description = _read(inspect.getdoc(type(home.__self__)))[0] or description
    return description, parameters


def _read(text: str | None) -> tuple[str | None, Mapping[str, str]]:
    if text is None or not _SECTION.search(text):
        return text, {}
    from docstring_parser import parse  # takes 12 ms, and few docstrings need it

    parsed = parse(text)
    words = {param.arg_name: " ".join((param.description or "").split()) for param in parsed.params}
    return (parsed.description or "").strip() or None, {k: v for k, v in words.items() if v}
