"""Validation errors as one line: up to five problems, each with its place."""

from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

__all__ = ["problems_of", "wrong_members"]

_MOST: Final = 5
_MOST_LISTED: Final = 1_000  # listing takes a microsecond for each
_LONGEST_KEY: Final = 40
_LONGEST_WORDS: Final = 200

_WORDS: Final = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "missing_keyword_only_argument": "is missing",
    "extra_forbidden": "is unknown",
    "unexpected_keyword_argument": "is unknown",
}


def problems_of(error: ValidationError, root: str, value: Any) -> str:
    """Return the problems of a value that `root` names in the message."""
    if error.error_count() > _MOST_LISTED:
        return f"{root}: {error.error_count()} values in it are not valid"
    found = dict.fromkeys(
        f"{root}{_place(problem['loc'], value, problem['type'])} "
        f"{_words(problem['type'], problem['msg'])}"
        for problem in _listed(error)
    )
    return "; ".join([*found][:_MOST])


def wrong_members(error: ValidationError) -> set[str]:
    """Return the members of an object that have problems, if these can be listed."""
    if error.error_count() > _MOST_LISTED:
        return set()
    return {str(problem["loc"][0]) for problem in _listed(error) if problem["loc"]}


def _listed(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False, include_input=False)


def _words(kind: str, message: str) -> str:
    words = _WORDS.get(kind)
    if words is not None:
        return words
    if kind in ("value_error", "assertion_error"):
        words = f"is refused: {message.partition(', ')[2]}"
    elif message.startswith("Input should "):
        words = f"must {message.removeprefix('Input should ')}"
    else:
        words = f"is refused: {message}"
    return " ".join(words.split())[:_LONGEST_WORDS]


def _place(path: tuple[str | int, ...], value: Any, kind: str) -> str:
    """Return the path without the names of union members, which pydantic mixes in."""
    steps = ""
    for i, key in enumerate(path):
        is_absent = kind in _WORDS and i == len(path) - 1
        if isinstance(value, dict) and (key in value or is_absent):
            value = value.get(key)
        elif isinstance(value, list | tuple) and isinstance(key, int) and key < len(value):
            value = value[key]
        elif not is_absent:
            continue
        steps += _step(key)
    return steps


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    if len(key) > _LONGEST_KEY:
        key = key[:_LONGEST_KEY] + "…"
    return f".{key}" if key.isidentifier() else f"[{key!r}]"
