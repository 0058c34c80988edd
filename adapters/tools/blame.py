"""Messages of configuration errors that say where the mistake is."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taskmachine.statemachine import ConfigurationError

__all__ = ["blaming", "home_of", "line_of", "name_of"]


@contextmanager
def blaming(place: str) -> Iterator[None]:
    """Prefix the message of a ConfigurationError with the place it comes from."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None


def home_of(function: Any) -> Any:
    """Return the function that a person wrote, below decorators and partials."""
    while hasattr(function, "__wrapped__") or isinstance(function, functools.partial):
        is_partial = isinstance(function, functools.partial)
        function = function.func if is_partial else function.__wrapped__
    if isinstance(function, type) or hasattr(function, "__code__"):
        return function
    return function.__call__ if callable(function) else function


def name_of(function: Any) -> str:
    """Return the name of a function, or of the class of a callable object."""
    home = home_of(function)
    named = type(home.__self__) if getattr(home, "__name__", "") == "__call__" else home
    return str(getattr(function, "__name__", None) or named.__name__)


def line_of(function: Any) -> str:
    """Return file and line of a function, or its representation if it has no source."""
    code = getattr(home_of(function), "__code__", None)
    if code is None:
        return f"{function!r:.80}"
    path = Path(code.co_filename)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{shown}:{code.co_firstlineno}"
