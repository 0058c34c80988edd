"""Kinds of JSON values: a schema, and a reader that accepts exactly what the schema allows.

Schema and reader are made together, so they always agree.  There is no coercion: `1` is not a
string and `true` is not an integer, but `1.0` is one, as in JSON Schema.
"""

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from types import NoneType
from typing import Annotated, Any, Final
from uuid import UUID

import attrs
import msgspec

from taskmachine.adapters.tools.plain_json import shown, step, to_json
from taskmachine.protocol.jsonrpc import json_type
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = [
    "SCALARS",
    "UNKNOWN",
    "Kind",
    "Seen",
    "Wrong",
    "array",
    "enumeration",
    "limited",
    "mapping",
    "tuple_of",
    "union",
]

MOST_PROBLEMS: Final = 5

Seen = dict[tuple[int, str], Any]
"""A cache of values that classes have read; nested unions of classes would take 2^depth steps."""


class Wrong(ValueError):
    """A value has the wrong kind: pairs of a place inside the value and the problem there."""

    def __init__(self, *found: tuple[str, str]) -> None:
        super().__init__()
        self.found = found


class Mismatch(Wrong):
    """The value as a whole has another type."""

    def __init__(self, wanted: str, got: str) -> None:
        super().__init__(("", f"must be {wanted}, got {got}"))
        self.got = got


@attrs.frozen
class Kind:
    """A set of JSON values."""

    schema: Any
    words: str
    read: Callable[[Any, Seen], Any]
    """Converts a JSON value to a Python value, or raises `Wrong`."""

    def shows(self, **keywords: Any) -> "Kind":
        """Return the same kind with additional keywords in its schema."""
        return attrs.evolve(self, schema={**self.schema, **keywords})


# --- scalars ---------------------------------------------------------------------------------


def _exactly(name: str, words: str, *types: type) -> Kind:
    def read(value: Any, _: Seen) -> Any:
        if type(value) not in types:
            raise Mismatch(words, json_type(value))
        return value

    return Kind({"type": name}, words, read)


def _integer(value: Any, _: Seen) -> int:
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise Mismatch("an integer", json_type(value))
    return value


def _format(name: str, words: str, like: str, kind: Any) -> Kind:
    shape = re.compile(like, re.ASCII | re.IGNORECASE)  # msgspec alone accepts more

    def read(value: Any, _: Seen) -> Any:
        if type(value) is not str:
            raise Mismatch(words, json_type(value))
        try:
            if shape.fullmatch(value):
                return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            pass
        raise Mismatch(words, shown(value))

    return Kind({"type": "string", "format": name}, words, read)


def _refuse(_: Any, __: Seen) -> Any:
    raise Wrong(("", "is unknown"))


UNKNOWN: Final = Kind(schema=False, words="nothing", read=_refuse)
"""No value is allowed."""

_ANYTHING: Final = Kind({}, "any value", lambda value, _: value)
_AWARE: Final = Annotated[datetime, msgspec.Meta(tz=True)]

SCALARS: Final[Mapping[Any, Kind]] = {
    Any: _ANYTHING,
    object: _ANYTHING,
    None: (_NULL := _exactly("null", "null", NoneType)),
    NoneType: _NULL,
    bool: _exactly("boolean", "a boolean", bool),
    str: _exactly("string", "a string", str),
    float: _exactly("number", "a number", int, float),
    int: Kind({"type": "integer"}, "an integer", _integer),
    date: _format("date", "a date", r".*", date),
    datetime: _format("date-time", "a time with its zone", r"\S+(Z|[+-]\d\d:\d\d)", _AWARE),
    UUID: _format("uuid", "a UUID", r"[^-]{8}-.{27}", UUID),
}


def enumeration(options: Iterable[tuple[Any, Any]]) -> Kind:
    """Return the kind of some JSON scalars, each with its Python value."""
    allowed = {(type(value) is bool, value): got for value, got in options}  # to Python, 1 is True
    values = [value for _, value in allowed]
    words = " or ".join(map(shown, values))
    types = {json_type(value) for value in values}

    def read(value: Any, _: Seen) -> Any:
        try:
            return allowed[type(value) is bool, value]
        except (KeyError, TypeError):  # not in it, or an array or an object
            raise Mismatch(words, shown(value)) from None

    schema = {"type": types.pop()} if len(types) == 1 else {}
    return Kind({**schema, "enum": values}, words, read)


# --- containers ------------------------------------------------------------------------------


def _each(
    parts: Iterable[tuple[str | int, Kind, Any]], seen: Seen, found: Sequence[tuple[str, str]] = ()
) -> list[Any]:
    results, problems = [], list(found)
    for key, kind, value in parts:
        try:
            results.append(kind.read(value, seen))
        except Wrong as wrong:
            problems += [(step(key) + where, words) for where, words in wrong.found]
            if len(problems) >= MOST_PROBLEMS:
                break
    if problems:
        raise Wrong(*problems[:MOST_PROBLEMS])
    return results


def array(item: Kind, make: Callable[[list[Any]], Any]) -> Kind:
    """Return the kind of arrays of any length."""

    def read(value: Any, seen: Seen) -> Any:
        if type(value) is not list:
            raise Mismatch("an array", json_type(value))
        items = _each(((i, item, part) for i, part in enumerate(value)), seen)
        try:
            return make(items)
        except TypeError:
            raise Wrong(("", "has items that cannot be in a set")) from None

    return Kind({"type": "array", "items": item.schema}, "an array", read)


def tuple_of(kinds: Sequence[Kind]) -> Kind:
    """Return the kind of arrays with exactly these items."""
    size = len(kinds)
    items = {"prefixItems": [kind.schema for kind in kinds]} if kinds else {}

    def read(value: Any, seen: Seen) -> Any:
        if type(value) is not list:
            raise Mismatch("an array", json_type(value))
        if len(value) != size:
            raise Wrong(("", f"must have exactly {size} items, got {len(value)}"))
        return tuple(_each(zip(range(size), kinds, value, strict=True), seen))

    return Kind({"type": "array", **items, "minItems": size, "maxItems": size}, "an array", read)


def mapping(
    members: Mapping[str, Kind],
    required: Collection[str],
    rest: Kind,
    make: Callable[[JSONObject], Any] = dict,
) -> Kind:
    """Return the kind of objects with these members; other members are of the kind `rest`."""
    schema: JSONObject = {"type": "object"}
    if members:
        schema["properties"] = {name: kind.schema for name, kind in members.items()}
    if required:
        schema["required"] = list(required)
    schema["additionalProperties"] = rest.schema

    def read(value: Any, seen: Seen) -> Any:
        if type(value) is not dict:
            raise Mismatch("an object", json_type(value))
        missing = [(step(name), "is missing") for name in required if name not in value]
        parts = ((name, members.get(name, rest), item) for name, item in value.items())
        return make(dict(zip(value, _each(parts, seen, missing), strict=True)))

    return Kind(schema, "an object", read)


def union(kinds: Sequence[Kind]) -> Kind:
    """Return a kind that uses the first of `kinds` that accepts a value."""
    wanted = " or ".join(dict.fromkeys(kind.words for kind in kinds))

    def read(value: Any, seen: Seen) -> Any:
        failures = []
        for kind in kinds:
            try:
                return kind.read(value, seen)
            except Wrong as wrong:
                failures.append(wrong)
        near = [wrong.found for wrong in failures if not isinstance(wrong, Mismatch)]
        if near:  # report the kind with the fewest problems, which was probably intended
            raise Wrong(*min(near, key=len))
        raise Mismatch(wanted, next(wrong.got for wrong in failures if isinstance(wrong, Mismatch)))

    return Kind({"anyOf": [kind.schema for kind in kinds]}, wanted, read)


# --- limits ----------------------------------------------------------------------------------


def _fraction(number: float) -> Fraction:
    return Fraction(number if isinstance(number, int) else repr(number))  # 0.3 is 3 times 0.1


def _is_multiple(number: float, of: float) -> bool:
    return _fraction(number) % _fraction(of) == 0


def _is_long(value: Any, least: int) -> bool:
    return len(value) >= least


def _is_short(value: Any, most: int) -> bool:
    return len(value) <= most


def _matches(value: str, pattern: str) -> bool:
    # As in JSON Schema: `$` matches only the end of the text, and `\d` and `\w` are ASCII.
    exact = re.sub(r"(\\.|\[(?:\\.|[^\]])*\])|\$", lambda m: m[1] or r"\Z", pattern)
    return re.search(exact, value, re.ASCII) is not None


_LIMITS: Final[tuple[tuple[str, str, str, Callable[[Any, Any], bool], str], ...]] = (
    ("ge", "number", "minimum", operator.ge, "must be at least {}"),
    ("gt", "number", "exclusiveMinimum", operator.gt, "must be more than {}"),
    ("le", "number", "maximum", operator.le, "must be at most {}"),
    ("lt", "number", "exclusiveMaximum", operator.lt, "must be less than {}"),
    ("multiple_of", "number", "multipleOf", _is_multiple, "must be a multiple of {}"),
    ("min_length", "string", "minLength", _is_long, "must have at least {} characters"),
    ("min_length", "array", "minItems", _is_long, "must have at least {} items"),
    ("min_length", "object", "minProperties", _is_long, "must have at least {} members"),
    ("max_length", "string", "maxLength", _is_short, "must have at most {} characters"),
    ("max_length", "array", "maxItems", _is_short, "must have at most {} items"),
    ("max_length", "object", "maxProperties", _is_short, "must have at most {} members"),
    ("pattern", "string", "pattern", _matches, "must match {}"),
)


def limited(kind: Kind, meta: msgspec.Meta) -> Kind:
    """Return the kind with the limits of `meta`; ValueError if one does not apply to it."""
    notes = {name: getattr(meta, name) for name in ("title", "description", "examples")}
    kind = kind.shows(**{k: to_json(v, k) for k, v in notes.items() if v is not None})
    names = (*dict.fromkeys(row[0] for row in _LIMITS), "tz", "extra_json_schema")
    bounds = {name: getattr(meta, name) for name in names if getattr(meta, name) is not None}
    types = _types(kind.schema)
    rows = [row for row in _LIMITS if row[0] in bounds and row[1] in types]
    for name in bounds.keys() - {row[0] for row in rows}:
        raise ValueError(f"Meta({name}=...) does not apply to {kind.words}")

    def read(value: Any, seen: Seen) -> Any:
        result = kind.read(value, seen)
        for name, type_, _, holds, words in rows:
            if json_type(value) == type_ and not holds(value, bounds[name]):
                raise Wrong(("", words.format(bounds[name])))
        return result

    limits = {keyword: bounds[name] for name, _, keyword, _, _ in rows}
    return attrs.evolve(kind.shows(**limits), read=read)


def _types(schema: JSONObject) -> set[str]:
    if "anyOf" in schema:
        return set().union(*map(_types, schema["anyOf"]))
    name = schema.get("type", "object" if "$ref" in schema else None)
    every = {"number", "string", "array", "object"}
    return every if name is None else {"number" if name == "integer" else name}
