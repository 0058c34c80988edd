"""Message classes to JSON objects and back, by `cattrs`, without coercion.

A message class is a frozen attrs class whose fields are spelled as in the specification.

- No default: required.  Default None: optional, omitted when None; null counts as absent.
- A field called `extra` keeps every unknown member, so nothing is lost.
- Metadata `wire` gives the name on the wire if it is not a Python name.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, NewType, get_args, get_origin

import attrs
from cattrs import Converter, transform_error
from cattrs.cols import list_structure_factory, mapping_structure_factory
from cattrs.fns import identity
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from taskmachine.protocol.jsonrpc import json_type
from taskmachine.protocol.jsonvalue import Encoded, JSONObject

__all__ = ["MAX_SAFE_INTEGER", "Milliseconds", "Shapes", "WrongShape", "wire"]

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON implementation keeps exact."""

Milliseconds = NewType("Milliseconds", int)
"""A duration on the wire: an integer from 0 to `MAX_SAFE_INTEGER`; 60000.0 is one, 0.5 is not."""


def wire(name: str, *, required: bool = False) -> Any:
    """Return a field whose name on the wire is not a Python name."""
    default = attrs.NOTHING if required else None
    return attrs.field(default=default, metadata={"wire": name})


class WrongShape(ValueError):
    """A value has the wrong JSON type."""

    def __init__(self, wanted: str, got: Any) -> None:
        super().__init__(f"must be {wanted}, got {json_type(got)}")


class Shapes:
    """The converters of one dialect: a fast one, and one that reports what is wrong and where."""

    def __init__(self) -> None:
        self._fast = _converter(detailed=False)
        self._exact = _converter(detailed=True)

    def choose(self, union: Any, pick: Callable[[JSONObject], type]) -> None:
        """Register how to select the class of a union; `pick` may raise WrongShape."""
        for converter in (self._fast, self._exact):
            _choose(converter, union, pick)

    def decode(self, value: Any, shape: Any, root: str) -> Any:
        """Return `value` as an instance of `shape`; ValueError names the first wrong member.

        The detailed converter runs only on bad input, which makes good messages three times faster.
        """
        try:
            return self._fast.structure(value, shape)
        except (ValueError, KeyError):
            pass
        try:
            return self._exact.structure(value, shape)
        except Exception as error:  # noqa: BLE001  cattrs groups any exception of its hooks
            words, _, place = transform_error(error, root, _words)[0].rpartition(" @ ")
            raise ValueError(f"{place} {words}") from None

    def encode(self, value: Any) -> JSONObject:
        """Return the JSON object of a message."""
        result: JSONObject = self._fast.unstructure(value)
        return result


def _words(error: BaseException, _: type | None) -> str:
    return "is required" if isinstance(error, KeyError) else str(error)


def _choose(converter: Converter, union: Any, pick: Callable[[JSONObject], type]) -> None:
    def structure(value: Any, _: Any) -> Any:
        return converter.structure(value, pick(_object(value)))

    converter.register_structure_hook(union, structure)


def _converter(*, detailed: bool) -> Converter:
    converter = Converter(detailed_validation=detailed)
    for kind, check in _SCALARS.items():
        converter.register_structure_hook(kind, check)
    for origin, factory in _GENERICS.items():
        converter.register_structure_hook_factory(_has_origin(origin), factory)
    for kinds, check in _COMPOSITES:
        converter.register_structure_hook_func(kinds.__contains__, check)
    converter.register_structure_hook_factory(attrs.has, _structure_message)
    converter.register_unstructure_hook_factory(attrs.has, _unstructure_message)
    return converter


# --- scalars ---------------------------------------------------------------------------------


def _string(value: Any, _: Any) -> str:
    if type(value) is not str:
        raise WrongShape("a string", value)
    return value


def _optional_string(value: Any, kind: Any) -> str | None:
    return None if value is None else _string(value, kind)


def _boolean(value: Any, _: Any) -> bool:
    if type(value) is not bool:
        raise WrongShape("a boolean", value)
    return value


def _integer(value: Any, _: Any) -> int:
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise WrongShape("an integer", value)
    return value


def _number(value: Any, _: Any) -> float:
    if type(value) not in (int, float):
        raise WrongShape("a number", value)
    return value  # type: ignore[no-any-return]


def _milliseconds(value: Any, kind: Any) -> int:
    ms = _integer(value, kind)
    if not 0 <= ms <= MAX_SAFE_INTEGER:
        raise ValueError(f"must be from 0 to {MAX_SAFE_INTEGER}")
    return ms


def _id(value: Any, kind: Any) -> str | int | None:
    if type(value) in (str, int) or (value is None and kind != str | int):
        return value  # type: ignore[no-any-return]
    raise WrongShape("a string or an integer", value)


_SCALARS: Final[dict[Any, Callable[[Any, Any], Any]]] = {
    str: _string,
    bool: _boolean,
    int: _integer,
    float: _number,
    Milliseconds: _milliseconds,
}

# --- containers ------------------------------------------------------------------------------


def _object(value: Any) -> JSONObject:
    if type(value) is not dict:
        raise WrongShape("an object", value)
    return value


def _json_object(value: Any, kind: Any) -> JSONObject | None:
    if type(value) is dict:  # first, as it is the most frequent
        return value
    if value is None and type(None) in get_args(kind):
        return None
    raise WrongShape("an object", value)


def _literal(kind: Any) -> Callable[[Any, Any], Any]:
    allowed = get_args(kind)
    # Sorted, as `typing` shares equal literals whatever order they were written in.
    words = " or ".join(map(repr, sorted(allowed)))

    def structure(value: Any, _: Any) -> Any:
        if type(value) is not str:
            raise WrongShape("a string", value)
        if value not in allowed:
            raise ValueError(f"must be {words}, got {value!r}")
        return value

    return structure


def _list(kind: Any, converter: Any) -> Callable[[Any, Any], Any]:
    inner = list_structure_factory(kind, converter)

    def structure(value: Any, kind: Any) -> Any:
        if type(value) is not list:
            raise WrongShape("an array", value)
        return inner(value, kind)

    return structure


def _mapping(kind: Any, converter: Any) -> Callable[[Any, Any], Any]:
    inner = mapping_structure_factory(kind, converter)
    return lambda value, kind: inner(_object(value), kind)


_OBJECTS: Final = (
    JSONObject,
    JSONObject | None,
    JSONObject | Encoded,
    JSONObject | Encoded | None,
)

_COMPOSITES: Final[tuple[tuple[tuple[Any, ...], Callable[[Any, Any], Any]], ...]] = (
    ((str | int, str | int | None), _id),
    (_OBJECTS, _json_object),
    ((str | None,), _optional_string),
)

_GENERICS: Final[dict[Any, Any]] = {Literal: _literal, list: _list, dict: _mapping}


def _has_origin(origin: Any) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) is origin


def _structure_message(cls: Any, converter: Any) -> Callable[[Any, Any], Any]:
    fields = attrs.fields(cls)
    inner: Callable[[Any, Any], Any] = make_dict_structure_fn(
        cls,
        converter,
        _cattrs_detailed_validation=converter.detailed_validation,
        **{field.name: _naming(field) for field in fields},
    )
    known = {_wire_name(field) for field in fields if field.name != "extra"}
    keeps_extra = any(field.name == "extra" for field in fields)

    def structure(value: Any, kind: Any) -> Any:
        if type(value) is not dict:
            raise WrongShape("an object", value)
        made = inner(value, kind)
        if keeps_extra and not value.keys() <= known:
            return attrs.evolve(made, extra={k: v for k, v in value.items() if k not in known})
        return made

    return structure


def _unstructure_message(cls: Any, converter: Any) -> Callable[[Any], JSONObject]:
    fields = attrs.fields(cls)
    inner: Callable[[Any], JSONObject] = make_dict_unstructure_fn(
        cls, converter, **{field.name: _naming(field) for field in fields}
    )
    if not any(field.name == "extra" for field in fields):
        return inner
    return lambda value: {**value.extra, **inner(value)}


def _wire_name(field: "attrs.Attribute[Any]") -> str:
    name: str = field.metadata.get("wire", field.name)
    return name


def _naming(field: "attrs.Attribute[Any]") -> Any:
    return override(
        rename=field.metadata.get("wire"),
        omit=True if field.name == "extra" else None,
        omit_if_default=field.default is None,
        unstruct_hook=None if _holds_messages(field.type) else identity,
    )


def _holds_messages(kind: Any) -> bool:
    return attrs.has(kind) or any(map(_holds_messages, get_args(kind)))
