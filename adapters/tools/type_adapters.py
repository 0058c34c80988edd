"""Type adapters of pydantic that also understand attrs classes.

An attrs class may stand anywhere in an annotation, also in a field of another class.  Its instances
are made by calling the class, so its aliases, defaults, converters and validators apply.

Pydantic's protocol for classes that it does not know is a method of the class, so this module adds
that method to the attrs classes it meets.
"""

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Final, NotRequired, Required, TypeVar, get_args, get_origin

import attrs
import msgspec
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from pydantic import BaseModel, GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic.errors import (
    PydanticInvalidForJsonSchema,
    PydanticSchemaGenerationError,
    PydanticUserError,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, SchemaError, core_schema
from typing_extensions import TypedDict, get_type_hints, is_typeddict

from taskmachine.statemachine import ConfigurationError

__all__ = ["adapter_of", "check_constraints", "prepare", "refusing", "shown"]

_UNKNOWN: Final = re.compile(r"<class '([^']+)'>")
_PLAIN: Final = (int, float, bool, str, bytes, list, dict, set, frozenset, tuple, Decimal)
_LIMITS: Final = (Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf)
_HOOK: Final = "__get_pydantic_core_schema__"
_building: Final[ContextVar[frozenset[str]]] = ContextVar("building", default=frozenset())


def adapter_of(hint: Any) -> TypeAdapter[Any]:
    """Return the type adapter of a resolved annotation.

    `ConfigurationError` if the annotation has no JSON form.
    """
    # Other annotations are not cached: `int | str` is equal to `str | int`.
    return _cached(hint) if isinstance(hint, type) else _adapter_of(hint)


def _adapter_of(hint: Any) -> TypeAdapter[Any]:
    prepare(hint)
    with refusing(shown(hint)):
        return TypeAdapter(hint)


_cached: Final = lru_cache(maxsize=1024)(_adapter_of)


@contextmanager
def refusing(place: str) -> Iterator[None]:
    """Raise what pydantic finds wrong with a type as a ConfigurationError of one line."""
    try:
        yield
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema) as error:
        found = _UNKNOWN.search(str(error))
        part = f": {found[1]} is not" if found and found[1] != place else ""
        hint = "use JSON types, a pydantic model, a dataclass or an attrs class"
        raise ConfigurationError(f"{place} cannot be JSON{part}; {hint}") from None
    except SchemaError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ConfigurationError(f"{place} is not valid: {reason}") from None
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigurationError(f"{place} cannot be JSON: {reason}") from None
    except RecursionError:
        raise ConfigurationError(f"{place} refers to itself; only a class can do that") from None


def shown(hint: Any) -> str:
    """Return an annotation as an author writes it, without its notes."""
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return f"{inspect.formatannotation(bare):.80}"


def prepare(hint: Any) -> None:
    """Teach pydantic the classes in a resolved annotation that it does not know."""
    _prepare(hint, {})


def _prepare(hint: Any, seen: dict[int, Any]) -> None:
    if id(hint) in seen:
        return
    seen[id(hint)] = hint  # kept, so that its id stays its own
    if get_origin(hint) is Annotated:
        check_constraints(*get_args(hint))
    aliased = getattr(hint, "__value__", None) or getattr(hint, "__supertype__", None)
    for part in (get_origin(hint), aliased, *get_args(hint)):
        _prepare(part, seen)
    if not isinstance(hint, type):
        return
    if attrs.has(hint):
        hints = _hints(hint)
        if _HOOK not in vars(hint):
            _check_constructor(hint)
            setattr(hint, _HOOK, classmethod(_attrs_schema))
    elif _is_old_typed_dict(hint):
        hints = _hints(hint)
        if _HOOK not in vars(hint):
            setattr(hint, _HOOK, classmethod(_hook_of(_rebuilt(hint, hints))))
    elif dataclasses.is_dataclass(hint) or issubclass(hint, tuple) or is_typeddict(hint):
        hints = _hints(hint)
    elif issubclass(hint, BaseModel):
        for field in hint.model_fields.values():
            check_constraints(field.annotation, field)
        hints = {name: field.annotation for name, field in hint.model_fields.items()}
    else:
        return
    for part in hints.values():
        _prepare(part, seen)


def check_constraints(hint: Any, *notes: Any) -> None:
    """Raise ConfigurationError for notes that would make pydantic fail when it reads a value.

    Pydantic takes `min_length` of an `int`, and then raises a TypeError for each value.
    """
    cls = get_origin(hint) or hint
    for note in notes:
        if isinstance(note, msgspec.Meta):
            raise ConfigurationError(
                "msgspec.Meta is not supported; use pydantic's Field, as in"
                " Annotated[int, Field(ge=1)]"
            )
        for limit in note.metadata if isinstance(note, FieldInfo) else [note]:
            if cls in _PLAIN and isinstance(limit, _LIMITS):
                try:
                    TypeAdapter(Annotated[Any, limit]).validate_python(cls())
                except TypeError:
                    raise ConfigurationError(f"{limit} does not fit {shown(hint)}") from None
                except ValidationError:
                    pass


def _hints(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
    except Exception as error:  # noqa: BLE001  an annotation may be any expression
        raise ConfigurationError(
            f"cannot resolve the annotations of {cls.__name__}: {error}"
        ) from None


def _check_constructor(cls: Any) -> None:
    fields = [field for field in attrs.fields(cls) if field.init]
    required = [field for field in fields if field.default is attrs.NOTHING]
    for given in (fields, required):
        try:
            inspect.signature(cls).bind(**dict.fromkeys(map(_alias, given)))
        except TypeError as error:  # a constructor of its own
            raise ConfigurationError(
                f"{cls.__name__} cannot be made from its fields: {error}"
            ) from None


# --- attrs classes ---------------------------------------------------------------------------


def _attrs_schema(cls: Any, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    ref = f"{cls.__module__}.{source!r}:{id(source)}" if source is not cls else ""
    ref = ref or f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"
    if ref in _building.get():
        return core_schema.definition_reference_schema(ref)
    token = _building.set(_building.get() | {ref})
    try:
        fields = list(_fields(cls, source))
        read = _members(cls, ((f, handler.generate_schema(read)) for f, read, _ in fields))
        write = _members(cls, ((f, handler.generate_schema(write)) for f, _, write in fields))
    finally:
        _building.reset(token)

    def make(value: Any, validate: Callable[[Any], Mapping[str, Any]]) -> Any:
        if isinstance(value, cls):
            return value
        members = validate(value)
        try:
            return cls(**members)
        except Exception as error:  # noqa: BLE001  validators may raise anything
            # attrs keeps more than the message in `args`.
            words = str(error.args[0]) if error.args else type(error).__name__
            raise ValueError(words[:200]) from None

    def members_of(value: Any) -> dict[str, Any]:
        return {_alias(field): getattr(value, field.name) for field, _, _ in fields}

    return core_schema.no_info_wrap_validator_function(
        make,
        read,
        ref=ref,
        serialization=core_schema.plain_serializer_function_ser_schema(
            members_of, return_schema=write
        ),
    )


def _members(cls: type, schemas: Iterator[tuple["attrs.Attribute[Any]", CoreSchema]]) -> CoreSchema:
    members = {}
    for field, schema in schemas:
        is_required = field.default is attrs.NOTHING
        if not is_required and not isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
            schema = core_schema.with_default_schema(schema, default=field.default)
        members[_alias(field)] = core_schema.typed_dict_field(schema, required=is_required)
    return core_schema.typed_dict_schema(members, cls=cls, extra_behavior="forbid")


def _fields(cls: Any, source: Any) -> Iterator[tuple["attrs.Attribute[Any]", Any, Any]]:
    """Yield the constructor's fields, each with the types of its argument and its value."""
    hints = _hints(cls)
    parameters = getattr(cls, "__parameters__", ())
    given = dict(zip(parameters, get_args(source), strict=False))
    for field in attrs.fields(cls):
        if not field.init:
            continue
        held = _substituted(hints.get(field.name, field.type or Any), given)
        taken = cls.__init__.__annotations__.get(_alias(field)) if field.converter else None
        yield field, held if taken is None else taken, held


def _alias(field: "attrs.Attribute[Any]") -> str:
    return field.alias or field.name


def _substituted(hint: Any, given: Mapping[Any, Any]) -> Any:
    """Return a generic annotation with its type variables replaced."""
    if isinstance(hint, TypeVar):
        return given.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not given or not parameters or isinstance(hint, type):
        return hint
    return hint[tuple(given.get(parameter, parameter) for parameter in parameters)]


# --- TypedDict before Python 3.12 ------------------------------------------------------------


def _is_old_typed_dict(cls: type) -> bool:
    return sys.version_info < (3, 12) and is_typeddict(cls) and type(cls).__module__ == "typing"


def _rebuilt(cls: Any, hints: Mapping[str, Any]) -> Any:
    """Return a TypedDict as one of `typing_extensions`, the only one pydantic reads on 3.11."""
    members = {}
    for name, hint in hints.items():
        inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        is_marked = get_origin(inner) in (Required, NotRequired)
        is_required = is_marked or name in cls.__required_keys__
        members[name] = hint if is_required else NotRequired[hint]
    make: Any = TypedDict  # type checkers expect a literal
    rebuilt = make(cls.__name__, members)
    for name in ("__doc__", "__module__", "__qualname__", "__pydantic_config__"):
        if hasattr(cls, name):
            setattr(rebuilt, name, getattr(cls, name))
    return rebuilt


def _hook_of(replacement: Any) -> Callable[[Any, Any, GetCoreSchemaHandler], CoreSchema]:
    return lambda cls, source, handler: handler.generate_schema(replacement)
