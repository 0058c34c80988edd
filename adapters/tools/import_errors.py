"""Describe what went wrong in a user's module, in one line that begins with its file and line."""

import linecache
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator
from typing import Final

from taskmachine.statemachine import ConfigurationError

__all__ = ["describe"]

_INSTALLED: Final = tuple(
    f"{sysconfig.get_path(kind)}{os.sep}" for kind in ("stdlib", "purelib", "platlib")
)


def describe(error: BaseException, otherwise: str) -> str:
    """Return file, line, error and source line: `shop.py:12: NameError: ..., in: f(x)`.

    The line is the last one of the user's code, or else the last one of an installed package.
    Without any line the text begins with `otherwise`.
    """
    words = " ".join(str(error).split())
    if not isinstance(error, ConfigurationError):
        words = f"{type(error).__name__}: {words}".removesuffix(": ")
    if isinstance(error, SyntaxError) and os.path.isfile(error.filename or ""):
        words = f"SyntaxError: {error.msg}"
        file, line = str(error.filename), error.lineno or 1
    else:
        places = list(_places(error))
        if re.match(r".+\.py:\d+: ", words):  # it names its place
            return words
        if not places:
            return f"{otherwise}: {words}"
        own = [place for place in places if not place[0].startswith(_INSTALLED)]
        file, line = (own or places)[-1]
    source = linecache.getline(file, line).strip()
    return f"{_shown(file)}:{line}: {words}" + (f", in: {source}" if source else "")


def _places(error: BaseException) -> Iterator[tuple[str, int]]:
    """Yield files and lines of the traceback, without those of this package and of importlib."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        is_ours = frame.f_globals.get("__name__", "").partition(".")[0] == "taskmachine"
        file = frame.f_code.co_filename
        if not is_ours and not file.startswith("<") and "importlib" not in file.split(os.sep):
            yield file, line


def _shown(file: str) -> str:
    relative = os.path.relpath(file)
    return file if relative.startswith(os.pardir) else relative
