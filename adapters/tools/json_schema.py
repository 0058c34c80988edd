"""Python annotations as JSON Schema (2020-12), with readers that accept exactly what it allows.

Objects are closed: an unknown member is an error.  Classes are read and written by the fields that
their constructors take.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import quote

import attrs
import msgspec

from taskmachine.adapters.tools.json_kinds import (
    SCALARS,
    UNKNOWN,
    Kind,
    Seen,
    Wrong,
    array,
    enumeration,
    limited,
    mapping,
    tuple_of,
    union,
)
from taskmachine.adapters.tools.plain_json import fields_of, to_json
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import ConfigurationError

__all__ = ["Field", "Types", "blaming", "is_object", "resolve"]


@attrs.frozen
class Field:
    """A member of an object, or a parameter of a function."""

    name: str
    hint: Any  # an annotation, a kind, or None without one
    is_required: bool
    default: Any = MISSING


class Types:
    """The types of one schema, with shared definitions."""

    def __init__(self) -> None:
        self._names: dict[type, str] = {}
        self._uses: Counter[str] = Counter()
        self._definitions: dict[str, Kind] = {}

    def document(self, kind: Kind) -> JSONObject:
        """Return the whole schema; a class is inlined, as MCP requires `type` at the top level."""
        definitions = {name: made.schema for name, made in self._definitions.items()}
        schema = dict(kind.schema)
        ref = schema.pop("$ref", None)
        for name in [name for name in definitions if _ref(name) == ref]:
            schema = {**definitions[name], **schema}
            if self._uses[name] == 1:
                del definitions[name]
        return {**schema, "$defs": definitions} if definitions else schema

    def kind(self, hint: Any) -> Kind:
        """Return the kind of a resolved annotation, or raise ConfigurationError."""
        origin, args = get_origin(hint), get_args(hint)
        container = origin or hint
        if origin is Annotated:
            return self._annotated(*args)
        if origin in (Required, NotRequired):
            return self.kind(args[0])
        if origin in (Union, UnionType):
            return union([self.kind(arg) for arg in args])
        if origin is Literal:
            return _enumeration(args)
        if container in (list, Sequence):
            return array(self.kind(*args or (Any,)), list)
        if container in (set, frozenset):
            return array(self._hashable(*args or (Any,)), container)
        if container is tuple and origin and args[1:] != (...,):
            return tuple_of([self.kind(arg) for arg in args])
        if container is tuple:
            return array(self.kind((*args, Any)[0]), tuple)
        if container in (dict, Mapping):
            return self._dict(*args or (str, Any))
        if isinstance(hint, NewType):
            return self.kind(hint.__supertype__)
        if isinstance(hint, type | None):
            return self._plain(hint)
        if hasattr(hint, "__value__"):  # type X = ...
            return self.kind(hint.__value__)
        raise _unfit(hint)

    def _plain(self, cls: Any) -> Kind:
        if cls in SCALARS:
            return SCALARS[cls]
        if issubclass(cls, Enum) and len(cls):
            return _enumeration(cls)
        if not is_object(cls):
            raise _unfit(cls)
        if cls not in self._names:
            same = sum(known.__name__ == cls.__name__ for known in self._names)
            self._names[cls] = f"{cls.__name__}{same + 1 if same else ''}"
            with blaming(cls.__name__):
                self._definitions[self._names[cls]] = self._class(cls)
        return self._reference(self._names[cls])

    def _annotated(self, hint: Any, *notes: Any) -> Kind:
        kind = self.kind(hint)
        for note in notes:
            if isinstance(note, str):
                kind = kind.shows(description=note)
            elif isinstance(note, msgspec.Meta):
                try:
                    kind = limited(kind, note)
                except ValueError as error:
                    raise ConfigurationError(str(error)) from None
        return kind

    def _hashable(self, item: Any) -> Kind:
        if (get_origin(item) or item).__hash__ is None:
            raise ConfigurationError(f"{inspect.formatannotation(item)} cannot be in a set")
        return self.kind(item)

    def _dict(self, key: Any, item: Any) -> Kind:
        if self.kind(key).schema != {"type": "string"}:
            raise ConfigurationError("the keys of a JSON object must be strings")
        return mapping({}, (), self.kind(item))

    def _reference(self, name: str) -> Kind:
        self._uses[name] += 1

        def read(value: Any, seen: Seen) -> Any:
            key = id(value), name
            if key not in seen:
                try:
                    seen[key] = self._definitions[name].read(value, seen)
                except Wrong as wrong:
                    seen[key] = wrong
            if isinstance(seen[key], Wrong):
                raise seen[key].with_traceback(None)
            return seen[key]

        return Kind({"$ref": _ref(name)}, "an object", read)

    def _class(self, cls: Any) -> Kind:
        fields = list(_fields(cls))
        if fields_of(cls) is None:  # a TypedDict
            return self.object(fields)
        required = [field.name for field in fields if field.is_required]
        for given in ([field.name for field in fields], required):
            try:
                inspect.signature(cls).bind(**dict.fromkeys(given))
            except TypeError as error:  # a custom constructor or an InitVar
                raise ConfigurationError(
                    f"cannot be constructed from its fields: {error}"
                ) from None

        def make(values: JSONObject) -> Any:
            try:
                return cls(**values)
            except Exception as error:  # noqa: BLE001  validators may raise anything
                # attrs keeps more than the message in `args`.
                words = str(error.args[0]) if error.args else type(error).__name__
                raise Wrong(("", f"is refused: {words[:200]}")) from None

        return self.object(fields, make=make)

    def object(
        self,
        fields: Iterable[Field],
        rest: Kind = UNKNOWN,
        make: Callable[[JSONObject], Any] = dict,
    ) -> Kind:
        """Return the kind of objects with these fields; other members are of the kind `rest`."""
        members = {}
        required = []
        for field in fields:
            with blaming(f"'{field.name}'"):
                members[field.name] = self._field(field)
            if field.is_required:
                required.append(field.name)
        return mapping(members, required, rest, make)

    def _field(self, field: Field) -> Kind:
        if field.hint is None:
            raise ConfigurationError("has no annotation")
        kind = field.hint if isinstance(field.hint, Kind) else self.kind(field.hint)
        if field.is_required:
            return kind
        try:
            return kind.shows(default=to_json(field.default))
        except ValueError:  # the default is not JSON
            return kind


def _fields(cls: Any) -> Iterator[Field]:
    hints = resolve(cls)
    fields = fields_of(cls)
    if fields is None:
        for name, hint in hints.items():
            yield Field(name, hint, _is_required(hint, otherwise=name in cls.__required_keys__))
        return
    for field in fields:
        hint = hints.get(field.name, field.type)
        is_required = field.default is attrs.NOTHING or (
            field.default is MISSING and field.default_factory is MISSING
        )
        yield Field(getattr(field, "alias", field.name), hint, is_required, field.default)


def _is_required(hint: Any, *, otherwise: bool) -> bool:
    """Return True if a TypedDict key is required, also if its annotation is a string."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _is_required(get_args(hint)[0], otherwise=otherwise)
    return origin is Required or (otherwise and origin is not NotRequired)


def _enumeration(options: Any) -> Kind:
    values = [option.value if isinstance(option, Enum) else option for option in options]
    for value in values:
        if type(value) not in (str, int, float, bool, NoneType):
            raise _unfit(type(value))
    return enumeration(zip(values, options, strict=True))


def _ref(name: str) -> str:
    return f"#/$defs/{quote(name)}"


def _unfit(hint: Any) -> ConfigurationError:
    return ConfigurationError(f"{inspect.formatannotation(hint)} cannot be JSON")


def is_object(hint: Any) -> bool:
    """Return True if every value of a type is a JSON object."""
    if get_origin(hint) is Annotated:
        return is_object(get_args(hint)[0])
    cls = get_origin(hint) or hint
    if not isinstance(cls, type):
        return False
    return cls in (dict, Mapping) or fields_of(cls) is not None or hasattr(cls, "__required_keys__")


def resolve(holder: Any, namespace: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the annotations of an object with all strings resolved."""
    try:
        return get_type_hints(holder, namespace, include_extras=True)
    except Exception as error:  # noqa: BLE001  an annotation may be any expression
        raise ConfigurationError(f"cannot resolve an annotation: {error}") from None


@contextmanager
def blaming(place: str) -> Iterator[None]:
    """Prefix the message of a ConfigurationError with the place it comes from."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{place}: only a class can refer to itself") from None
