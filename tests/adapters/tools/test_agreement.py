"""Schemas and readers accept the same values."""

from datetime import date, datetime
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
)
from uuid import UUID

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from taskmachine.adapters.tools.signatures import Signature, signature_of
from tests.adapters.tools.signatures import (
    Circle,
    Left,
    Level,
    Movie,
    Partly,
    Percent,
    Right,
    Size,
    Square,
    Tree,
    taking,
    wrong,
)
from tests.adapters.tools.test_signatures import SCHEMAS
from tests.json_schemas import values_of
from tests.strategies import json_values

# --- what the schema says is what is read ----------------------------------------------------

AGREEING: list[Any] = [hint for hint, _ in SCHEMAS if hint not in (frozenset,)] + [
    Circle | Square | Movie | Tree | None,
    Left | Right,
    list[Circle | Square | Size],
    dict[str, tuple[int, Percent | Literal["a", 1, True]]],
    Movie,
    Partly,
    Tree,
    Level | bool | Size,
    Annotated[int | str | list[int], Meta(min_length=1)],
    Annotated[float, Meta(ge=0.5, lt=3)],
]
SOME: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, 1.0, 2.5, -1, "", "a", "red", "$", [], [1], [1, "a"], {}]
)


@st.composite
def mutated(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> Any:
    """A value in which something may be changed, taken away or added."""
    return _mutate(draw, draw(values), draw(st.integers(0, 3)))


def _mutate(draw: st.DrawFn, value: Any, times: int) -> Any:
    for _ in range(times):
        if isinstance(value, dict | list) and value and draw(st.booleans()):
            keys = list(value) if isinstance(value, dict) else range(len(value))
            key = draw(st.sampled_from(keys))
            value = value.copy()
            if draw(st.integers(0, 3)):
                value[key] = _mutate(draw, value[key], 1)
            else:
                del value[key]
        elif isinstance(value, dict) and draw(st.booleans()):
            name = draw(st.sampled_from(["a", "kind", "width", "next", "year", "parent"]))
            value = {**value, name: draw(SOME)}
        elif isinstance(value, list) and draw(st.booleans()):
            value = [*value, draw(SOME)]
        else:
            value = draw(SOME | json_values)
    return value


def accepts(signature: Signature, arguments: Any) -> bool:
    words = wrong(signature.read, arguments)
    assert not words or words.startswith("arguments")
    assert len(words) < 3000
    return not words


@cache
def judges(index: int) -> tuple[Signature, Any, st.SearchStrategy[Any]]:
    """A signature, an independent validator of its schema, and values that are mostly close."""
    signature = signature_of(taking(AGREEING[index]), ())
    schema = signature.input_schema
    jsonschema_rs.meta.validate(schema)
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    pairs = st.tuples(SOME, SOME).map(list)
    values = values_of(schema) | st.fixed_dictionaries({"x": pairs | SOME | json_values})
    return signature, validator, mutated(values)


@pytest.mark.parametrize("index", range(len(AGREEING)))
@given(data=st.data())
def test_the_schema_and_the_reader_agree(index: int, data: st.DataObject) -> None:
    signature, validator, values = judges(index)
    arguments = data.draw(values)
    assert accepts(signature, arguments) == validator.is_valid(arguments)
    if accepts(signature, arguments):
        got = signature.read(arguments)
        written = signature.write(got)
        assert validator.is_valid(written)
        assert signature.read(written) == got


DATES = [
    "2020-01-01T00:00:00Z", "2020-01-01t00:00:00z", "2020-01-01 00:00:00Z", "2020-01-01T00:00:00",
    "2020-01-01T00:00:00.123456789Z", "2020-01-01T00:00:60Z", "2020-01-01T00:00:00+0100",
    "2020-01-01T00:00:00+01:00", "2020-01-01T00:00Z", "2020-02-30T00:00:00Z", "2020-02-29",
    "2020-01-01T24:00:00Z", "2020-01-01T00:00:00.Z", "2020-01-01Z", "20200101", "2020-1-1",
    "2020-02-30", "2020-W01-1", " 2020-01-01", "2020-01-01\n", "1577836800", "",
    "12345678-1234-1234-1234-123456789abc", "12345678123412341234123456789abc",
    "12345678-1234-1234-1234-123456789ABC", "12345678-1234-1234-1234-123456789abg",
    "{12345678-1234-1234-1234-123456789abc}", "1234567-81234-1234-1234-123456789abc",
    "12345678-1234-1234-12341-23456789abc", "urn:uuid:12345678-1234-1234-1234-123456789abc",
]  # fmt: skip


@pytest.mark.parametrize("hint", [datetime, date, UUID])
@pytest.mark.parametrize("text", DATES)
def test_formats_agree(hint: Any, text: str) -> None:
    signature = signature_of(taking(hint), ())
    validator = jsonschema_rs.Draft202012Validator(signature.input_schema, validate_formats=True)
    assert accepts(signature, {"x": text}) == validator.is_valid({"x": text})


@pytest.mark.parametrize("number", [0, 0.1, 0.3, 0.35, 1.1, 7, 1e15, -0.2, 1e-7])
@pytest.mark.parametrize("step", [0.1, 0.01, 2, 3.5])
def test_multiples_agree(number: float, step: float) -> None:
    signature = signature_of(taking(Annotated[float, Meta(multiple_of=step)]), ())
    validator = jsonschema_rs.Draft202012Validator(signature.input_schema)
    assert accepts(signature, {"x": number}) == validator.is_valid({"x": number})
