"""The options of a tool, and what `tools/list` shows of it beside its schemas."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Any, Final, Literal, TypedDict

from taskmachine.adapters.tools.blame import blaming
from taskmachine.adapters.tools.questions import Request
from taskmachine.adapters.tools.retries import Backoff, Failures
from taskmachine.protocol.dialects.dialect import TaskSupport
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.statemachine import ConfigurationError

__all__ = ["Options", "Priority", "check_name", "check_options", "details_of"]

Priority = Literal["low", "normal", "high"]
"""Orders the tasks of one owner; it does not affect other owners."""


class Options(TypedDict, total=False):
    """The options of a tool, see `Tools.task`."""

    description: str | None
    title: str | None
    annotations: Mapping[str, Any] | None
    icons: Sequence[Mapping[str, Any]] | None
    meta: Mapping[str, Any] | None
    tags: Sequence[str] | Set[str] | None
    support: TaskSupport
    timeout: float
    version: str
    accepts: Sequence[str]
    repeatable: bool
    retries: int
    backoff: Backoff
    retry_on: Failures
    give_up_on: Failures
    poll_interval: float | None
    immediate: str | None
    priority: Priority
    first: Mapping[str, Request[Any]] | None
    parks: bool
    schema: JSONObject | None


_TEXT: Final = (str, "a text")
_SECONDS: Final = ((int, float), "a number of seconds")
_OBJECT: Final = (Mapping, "an object")
_SWITCH: Final = (bool, "True or False")
_OPTIONS: Final[Mapping[str, tuple[Any, str]]] = {
    "description": _TEXT,
    "title": _TEXT,
    "annotations": (object, ""),
    "icons": (list | tuple, "a list of objects"),
    "meta": _OBJECT,
    "tags": (list | tuple | set | frozenset, 'several texts, as in ["admin"]'),
    "support": _TEXT,
    "timeout": _SECONDS,
    "version": (object, ""),
    "accepts": (list | tuple | set | frozenset, 'several versions, as in ["1"]'),
    "repeatable": _SWITCH,
    "retries": (object, ""),
    "backoff": (object, ""),
    "retry_on": (object, ""),
    "give_up_on": (object, ""),
    "poll_interval": _SECONDS,
    "immediate": _TEXT,
    "priority": _TEXT,
    "first": _OBJECT,
    "parks": _SWITCH,
    "schema": _OBJECT,
}

TAGS: Final = "taskmachine/tags"

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # as the specification recommends
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_ICON: Final = ("src", "mimeType", "sizes", "theme")


def check_name(name: Any) -> str:
    """Return the name of a tool, or raise ConfigurationError."""
    if name == "<lambda>":
        raise ConfigurationError('a lambda has no name; use name="..."')
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r:.140} cannot be the name of a tool;"
            " use 1 to 128 letters, digits, '_', '-' and '.'"
        )
    return name


def details_of(
    title: str | None,
    annotations: Mapping[str, Any] | None,
    icons: Iterable[Mapping[str, Any]] | None,
    meta: Mapping[str, Any] | None,
    tags: Iterable[str] | None,
) -> JSONObject:
    """Return the optional members of a tool's definition."""
    shown = {**(meta or {}), **({TAGS: sorted(tags)} if tags else {})}
    if not all(isinstance(text, str) for text in (*shown, *shown.get(TAGS, ()))):
        raise ConfigurationError("tags, and the keys of meta, must be texts")
    with blaming("annotations"):
        hints = _members(annotations or {}, (*_HINTS, "title"))
        for name in _HINTS:
            if not isinstance(hints.get(name, True), bool):
                raise ConfigurationError(f"{name} must be True or False, got {hints[name]!r:.40}")
    with blaming("icons"):
        pictures = [_icon(icon) for icon in icons or ()]
    details = {"title": title, "annotations": hints, "icons": pictures, "_meta": shown}
    details = {name: value for name, value in details.items() if value}
    try:
        encode_json(details)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"title, icons or meta cannot be JSON: {error}") from None
    return details


def check_options(options: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if an option is not known, or of another type."""
    _check_known(options, _OPTIONS)
    for name, value in options.items():
        types, words = _OPTIONS[name]
        if value is not None and not isinstance(value, types):
            raise ConfigurationError(f"{name} must be {words}, got {type(value).__name__}")


def _check_known(names: Iterable[str], known: Collection[str]) -> None:
    """Raise ConfigurationError if a name is not known, with the nearest one that is."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"use {', '.join(known)}"
            raise ConfigurationError(f"'{name}' is not known; {hint}")


def _icon(icon: Any) -> JSONObject:
    members = _members(icon, _ICON)
    if not isinstance(members.get("src"), str):
        raise ConfigurationError('each icon needs src, as in {"src": "https://example.org/a.png"}')
    return members


def _members(given: Any, known: Collection[str]) -> JSONObject:
    """Return the members by their names on the wire; `read_only_hint` is `readOnlyHint`."""
    if hasattr(given, "model_dump"):  # a model of the official SDK
        given = given.model_dump(mode="json", by_alias=True, exclude_none=True)
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"must be an object, got {type(given).__name__}")
    members = {re.sub("_(.)", lambda m: m[1].upper(), name): given[name] for name in given}
    _check_known(members, known)
    return members
