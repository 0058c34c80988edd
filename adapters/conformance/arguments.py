"""Generate arguments for unknown tools from their input schemas.

Every value is validated before it is sent, so an unsupported schema keyword can only cost a
candidate, never produce an invalid call.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any, Final

import jsonschema_rs
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

__all__ = ["candidates", "is_valid"]

DEEPEST: Final = 6
FULL_DEPTH: Final = 2
MOST_CANDIDATES: Final = 12
MOST_VALUES: Final = 8
"""Maximum number of candidate values per field."""

LONGEST: Final = 10_000
"""Maximum length of a generated string or array."""

SMALL: Final = 1
"""Default number; safe for fields that could be a duration, a number of steps or an amount."""

LARGER: Final = 5
"""Default number for a call that should take longer."""

LARGER_MS: Final = 3_000
"""Default number for a call that should take longer, in milliseconds."""

_TEXTS: Final = {
    "email": "user@example.org",
    "idn-email": "user@example.org",
    "uri": "https://example.org/",
    "url": "https://example.org/",
    "uri-reference": "https://example.org/",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "date-time": "2026-01-02T03:04:05Z",
    "duration": "PT1S",
    "uuid": "0f9b5c1e-5f4b-4a53-9f86-0d5a3c1b2e4f",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "hostname": "example.org",
    "json-string": "{}",
    "regex": "a",
}
_MILLISECONDS: Final = re.compile(r"ms$|ms_|_ms|Ms|milli", re.ASCII)

Schema = Mapping[str, Any]


def is_valid(schema: Schema, value: Any) -> bool:
    """Return whether a value conforms; an invalid or external schema matches nothing."""
    try:
        # Remote references are not fetched: the target's author chose those addresses.
        return bool(jsonschema_rs.is_valid(dict(schema), value, offline=True))
    except (ValueError, RecursionError):
        return False


def candidates(schema: Schema) -> list[dict[str, Any]]:
    """Return candidate arguments, the most careful first: required fields and small numbers.

    Then each boolean and enumeration with its other values, larger numbers, defaults, and finally
    every optional field.
    """
    made: list[dict[str, Any]] = []
    for value in _objects(schema, schema, 0):
        if value not in made and is_valid(schema, value):
            made.append(value)
            if len(made) == MOST_CANDIDATES:
                break
    return made


def _objects(schema: Schema, root: Schema, depth: int) -> Iterator[dict[str, Any]]:
    fields = schema.get("properties")
    named: Schema = fields if isinstance(fields, dict) else {}
    needed = [name for name in _listed(schema, "required") if isinstance(name, str)]
    # Below this depth only required fields: a recursive schema has no end.
    names = [*named, *needed] if depth < FULL_DEPTH else needed
    values = {name: _fitting(name, named.get(name, {}), root, depth) for name in names}
    first = {name: options[0] for name, options in values.items() if options}
    least = {name: first[name] for name in needed if name in first}
    # A default may be slow, so numbers are kept small first.
    short = {name: value for name, value in first.items() if _is_number(value)}
    yield {**short, **least}
    others = {
        name: [{**short, **least, name: option} for option in options[1:]]
        for name, options in values.items()
    }
    choices = [name for name in values if _is_choice(_resolve(named.get(name), root))]
    numbers = [name for name in short if name not in choices]
    yield from _in_turn(others[name] for name in choices)
    yield from _in_turn(others[name] for name in numbers)
    yield least
    yield first
    yield from _in_turn(others[name] for name in others if name not in (*choices, *numbers))


def _in_turn(kinds: Iterable[list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Interleave the lists: all first elements, then all second elements."""
    for some in zip_longest(*kinds):
        yield from (one for one in some if one is not None)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _listed(schema: Schema, keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_choice(field: Schema) -> bool:
    return "enum" in field or field.get("type") == "boolean" or _is_list(field.get("oneOf"))


def _fitting(name: str, field: Any, root: Schema, depth: int) -> list[Any]:
    """Return the candidate values of a field that its own schema accepts."""
    inherited = {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}
    described = field if isinstance(field, dict) else {}
    whole = {**inherited, **described}
    made: list[Any] = []
    for value in islice(_values(field, root, depth, name), LONGEST):
        # 1 and True compare equal, but a tool treats them differently.
        if any(type(value) is type(old) and value == old for old in made):
            continue
        if is_valid(whole, value) or _refers_outside(described):
            made.append(value)
        if len(made) == MOST_VALUES:
            break
    return made


def _refers_outside(field: Schema) -> bool:
    """Return whether the field refers to a part of the schema that is not copied here."""
    target = field.get("$ref")
    return isinstance(target, str) and not target.startswith(("#/$defs/", "#/definitions/"))


def _resolve(schema: Any, root: Schema) -> Schema:
    for _ in range(DEEPEST):
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            break
        found: Any = root
        for step in schema["$ref"].removeprefix("#").split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, dict) else None
        besides = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**found, **besides} if isinstance(found, dict) else besides
    return schema if isinstance(schema, dict) else {}


def _values(schema: Any, root: Schema, depth: int, name: str) -> Iterator[Any]:
    """Yield values that probably conform, the most harmless first."""
    schema = _resolve(schema, root)
    if depth > DEEPEST:
        return
    if "const" in schema:
        yield schema["const"]
        return
    if _is_list(schema.get("enum")):
        yield from _default_first(schema)
        return
    for combined in ("anyOf", "oneOf"):
        if _is_list(schema.get(combined)):
            rest = {key: value for key, value in schema.items() if key != combined}
            parts = [{**rest, **_resolve(part, root)} for part in schema[combined]]
            for some in zip_longest(
                *(list(islice(_values(p, root, depth + 1, name), MOST_VALUES)) for p in parts),
                fillvalue=schema,
            ):
                yield from (one for one in some if one is not schema)
            return
    if _is_list(schema.get("allOf")):
        yield from _values(_merged(schema, root), root, depth + 1, name)
        return
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    for kind in kinds if _is_list(kinds) else [kinds]:
        yield from _of_kind(kind, schema, root, depth, name)


def _merged(schema: Schema, root: Schema) -> Schema:
    """Merge a schema with its `allOf` parts."""
    merged = {key: value for key, value in schema.items() if key != "allOf"}
    for part in schema["allOf"]:
        more = _resolve(part, root)
        for key in ("properties", "required"):
            old, new = merged.get(key), more.get(key)
            if isinstance(old, dict) and isinstance(new, dict):
                more = {**more, key: {**old, **new}}
            elif isinstance(old, list) and isinstance(new, list):
                more = {**more, key: [*old, *new]}
        merged |= more
    return merged


def _of_kind(kind: Any, schema: Schema, root: Schema, depth: int, name: str) -> Iterator[Any]:
    match kind:
        case "boolean":
            yield from (True, False) if schema.get("default") is True else (False, True)
        case "integer" | "number":
            yield from _numbers(schema, name, whole=kind == "integer")
        case "string":
            yield from _texts(schema)
        case "array":
            yield from _lists(schema, root, depth, name)
        case "object":
            yield from islice(_objects(schema, root, depth + 1), MOST_VALUES)
        case "null":
            yield None


def _default_first(schema: Schema) -> list[Any]:
    choices: list[Any] = schema["enum"]
    default = schema.get("default")
    return [default, *(one for one in choices if one != default)] if default in choices else choices


def _numbers(schema: Schema, name: str, *, whole: bool) -> Iterator[Any]:
    """Yield a number near one within the bounds, then numbers that may take longer."""
    low, high = _bound(schema, "inimum", max), _bound(schema, "aximum", min)
    step = schema.get("multipleOf")
    described = f"{name} {schema.get('description', '')} {schema.get('title', '')}"
    larger = LARGER_MS if _MILLISECONDS.search(described) else LARGER
    # A bound is a candidate only if no small number fits: a maximum may mean a day.
    near = [low, low + 1] if low is not None and low >= SMALL else []
    near += [high, high - 1] if high is not None and high <= SMALL else []
    near += [(low + high) / 2] if near and low is not None and high is not None else []
    for number in (SMALL, *near, larger, schema.get("default")):
        if not isinstance(number, int | float) or isinstance(number, bool):
            continue
        if isinstance(step, int | float) and step > 0:
            number = -(-number // step) * step
        yield int(number) if whole and number == number // 1 else number


def _bound(schema: Schema, end: str, tighter: Any) -> Any:
    """Return the inclusive bound at one end, or None."""
    found = [schema.get(f"{kind}{end}") for kind in ("m", "exclusiveM")]
    return tighter((bound for bound in found if _is_number(bound)), default=None)


def _texts(schema: Schema) -> Iterator[str]:
    for text in (schema.get("default"), *_listed(schema, "examples")):
        if isinstance(text, str):
            yield text
    pattern, length = schema.get("pattern"), schema.get("minLength")
    least = min(length, LONGEST) if isinstance(length, int) else 0
    most = schema.get("maxLength")
    for text in (_TEXTS.get(str(schema.get("format")), "a test"), "1", "a"):
        yield text.ljust(least, "x")[: most if isinstance(most, int) else None]
    if isinstance(pattern, str):
        yield from _matching(pattern, least)


def _matching(pattern: str, least: int) -> Iterator[str]:
    """Return the simplest string that matches a pattern, if Python's `re` can parse it."""
    try:
        texts = st.from_regex(re.compile(pattern, re.ASCII))
        yield find(
            texts,
            lambda text: len(text) >= least and text.isprintable(),
            settings=settings(
                max_examples=200,
                database=None,
                derandomize=True,
                deadline=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            ),
        )
    except (re.error, HypothesisException, OverflowError, RecursionError):
        return


def _lists(schema: Schema, root: Schema, depth: int, name: str) -> Iterator[list[Any]]:
    least = schema.get("minItems", 0)
    count = min(least, LONGEST) if isinstance(least, int) else 0
    fixed = _listed(schema, "prefixItems")
    head = [next(_values(one, root, depth + 1, name), None) for one in fixed]
    items = schema.get("items", {})
    options = list(islice(_values(items, root, depth + 1, name), max(count, MOST_VALUES)))
    if head:
        yield head
    for size in (count, max(count, 1)):
        missing = max(size - len(head), 0)
        if options or not missing:
            different = options[:missing]
            yield [*head, *different, *options[:1] * (missing - len(different))]
