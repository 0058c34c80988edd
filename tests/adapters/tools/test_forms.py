"""Forms from types: judged by the official SDK's models, filled in by our own clients."""

import enum
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypedDict
from uuid import UUID

import attrs
import mcp_types._v2025_11_25 as official_2025
import mcp_types._v2026_07_28 as official_2026
import pytest
from hypothesis import given
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    RootModel,
    SecretStr,
    TypeAdapter,
    create_model,
    model_validator,
)

from taskmachine.adapters.client.forms import fields_of as client_fields
from taskmachine.adapters.console.fields import fields_of as console_fields
from taskmachine.adapters.console.fields import read_field
from taskmachine.adapters.tools.questions import Accepted, NotAccepted, form
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import ConfigurationError
from tests.adapters.tools.test_form_answers import values
from tests.oracle import REPOSITORY, judge


class Env(enum.StrEnum):
    STAGING = "staging"
    PRODUCTION = "production"


class Size(enum.IntEnum):
    SMALL = 1


Titled = (
    Annotated[Literal["s"], Field(title="Small")] | Annotated[Literal["l"], Field(title="Large")]
)
TITLED: Final[Any] = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
TEXT: Final = {"type": "string"}
ENV: Final = {"type": "string", "enum": ["staging", "production"]}

FIELDS: Final[list[tuple[Any, JSONObject, str, Any]]] = [
    (str, TEXT, "Ada", "Ada"),
    (Annotated[str, Field(min_length=1, max_length=3)], {**TEXT, "minLength": 1, "maxLength": 3},
     "Ada", "Ada"),
    (Annotated[str, Field(title="Your name", description="As in your passport.")],
     {**TEXT, "title": "Your name", "description": "As in your passport."}, "Ada", "Ada"),
    (Annotated[str, Field(pattern="^A")], TEXT, "Ada", "Ada"),
    (Annotated[str, Field(json_schema_extra={"format": "email"})], {**TEXT, "format": "email"},
     "a@b.example", "a@b.example"),
    (Annotated[str, Field(json_schema_extra={"oneOf": TITLED})], {**TEXT, "oneOf": TITLED},
     "Small", "s"),
    (HttpUrl, {**TEXT, "minLength": 1, "maxLength": 2083, "format": "uri"}, "https://x.example/",
     HttpUrl("https://x.example/")),
    (date, {**TEXT, "format": "date"}, "2026-07-28", date(2026, 7, 28)),
    (datetime, {**TEXT, "format": "date-time"}, "2026-07-28T12:00:00Z",
     datetime(2026, 7, 28, 12, tzinfo=UTC)),
    (time, TEXT, "12:30", time(12, 30)),
    (timedelta, TEXT, "PT90S", timedelta(seconds=90)),
    (UUID, TEXT, str(UUID(int=7)), UUID(int=7)),
    (Path, TEXT, "/srv", Path("/srv")),
    (bytes, TEXT, "raw", b"raw"),
    (int, {"type": "integer"}, "7", 7),
    (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}, "7", 7),
    (Annotated[int, Field(gt=1, lt=9)], {"type": "integer", "minimum": 2, "maximum": 8}, "7", 7),
    (float, {"type": "number"}, "0.5", 0.5),
    (Annotated[float, Field(gt=0, lt=1)], {"type": "number", "minimum": 0, "maximum": 1}, "0.5",
     0.5),
    (Annotated[Decimal, Field(ge=0)], {"type": "number", "minimum": 0}, "0.1", Decimal("0.1")),
    (bool, {"type": "boolean"}, "yes", True),
    (Literal[True], {"type": "boolean"}, "yes", True),
    (Literal["a", "b"], {**TEXT, "enum": ["a", "b"]}, "b", "b"),
    (Literal["a"], {**TEXT, "enum": ["a"]}, "a", "a"),
    (Env, ENV, "staging", Env.STAGING),
    (Titled, {**TEXT, "oneOf": TITLED}, "Large", "l"),
    (list[Env], {"type": "array", "items": ENV}, "production, staging",
     [Env.PRODUCTION, Env.STAGING]),
    (Annotated[set[Literal["a", "b"]], Field(min_length=1, max_length=2)],
     {"type": "array", "items": {**TEXT, "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
     "a", {"a"}),
    (list[Titled], {"type": "array", "items": {"anyOf": TITLED}}, "Large", ["l"]),
]  # fmt: skip
"""An annotation, its form field, the input of a person, and its value."""

every_field = pytest.mark.parametrize(
    ("hint", "shown", "typed", "value"), FIELDS, ids=[str(row[0]) for row in FIELDS]
)


def schema_of(answer_type: Any) -> JSONObject:
    schema: JSONObject = form("?", answer_type).params["requestedSchema"]
    return schema


def asking(hint: Any) -> Any:
    """A model with one field."""
    return create_model("Asked", it=(hint, ...))


def answered(answer_type: Any, content: Any) -> Any:
    return form("?", answer_type).read({"action": "accept", "content": content})


@every_field
def test_a_field_is_shown_with_what_forms_have(
    hint: Any, shown: JSONObject, typed: str, value: Any
) -> None:
    schema = schema_of(create_model("Asked", where_to=(hint, ...)))
    assert schema == {
        "type": "object",
        "properties": {"where_to": {"title": "Where To", **shown}},
        "required": ["where_to"],
    }


@every_field
def test_both_revisions_of_the_official_models_take_every_field(
    hint: Any, shown: JSONObject, typed: str, value: Any
) -> None:
    params = form("?", create_model("Asked", it=(hint, ...), maybe=(hint | None, None))).params
    for official, revision in ((official_2025, "2025-11-25"), (official_2026, "2026-07-28")):
        read = official.ElicitRequestFormParams.model_validate(params)
        field = TypeAdapter(official.PrimitiveSchemaDefinition)
        for shown in read.requested_schema.properties.values():
            model = field.validate_python(shown)
            again = model.model_dump(by_alias=True, exclude_none=True, mode="json")
            assert again == shown, "nothing is unknown to the model"
            judge(revision, "PrimitiveSchemaDefinition").validate(shown)


@every_field
def test_clients_fill_in_every_field(hint: Any, shown: JSONObject, typed: str, value: Any) -> None:
    [field] = client_fields(form("?", asking(hint)).params)
    answer = answered(asking(hint), {"it": field.read(typed)})
    assert answer.value.it == value
    assert type(answer.value.it) is type(value)


@every_field
def test_the_console_has_a_widget_for_every_field(
    hint: Any, shown: JSONObject, typed: str, value: Any
) -> None:
    [field] = console_fields(schema_of(asking(hint)))
    assert field.kind != "json"
    values = {title: text for text, title in field.options}
    typed_values = [values.get(word, word) for word in typed.split(", ")]
    answer = answered(asking(hint), {"it": read_field(field, typed_values)})
    assert answer.value.it == value


# --- classes ---------------------------------------------------------------------------------


class Model(BaseModel):
    """The docstring is for programmers."""

    place: Env
    days: Annotated[int, Field(ge=1)] = 3
    note: str | None = None
    gifts: list[Literal["box", "card"]] = Field(default_factory=list)


@dataclass
class DataClass:
    place: Env
    days: Annotated[int, Field(ge=1)] = 3
    note: str | None = None
    gifts: list[Literal["box", "card"]] = field(default_factory=list)


@attrs.frozen
class Attrs:
    place: Env
    days: Annotated[int, Field(ge=1)] = 3
    note: str | None = None
    gifts: list[Literal["box", "card"]] = attrs.field(factory=list)


@pytest.mark.parametrize("cls", [Model, DataClass, Attrs])
def test_a_model_dataclass_and_attrs_class_make_the_same_form(cls: Any) -> None:
    assert schema_of(cls) == {
        "type": "object",
        "properties": {
            "place": {**ENV, "title": "Place"},
            "days": {"type": "integer", "minimum": 1, "title": "Days", "default": 3},
            "note": {"type": "string", "title": "Note"},
            "gifts": {
                "type": "array",
                "items": {"type": "string", "enum": ["box", "card"]},
                "title": "Gifts",
            },
        },
        "required": ["place"],
    }
    answer = answered(cls, {"place": "staging", "note": None, "unknown": 1})
    assert answer.value == cls(place=Env.STAGING)
    answer = answered(cls, {"place": "staging", "days": 4, "note": "n", "gifts": ["card"]})
    assert answer.value == cls(place=Env.STAGING, days=4, note="n", gifts=["card"])


class Partial(TypedDict, total=False):
    days: int


def test_a_typed_dict_is_a_form_too() -> None:
    assert "required" not in schema_of(Partial)
    assert answered(Partial, {"days": 2}).value == {"days": 2}
    assert answered(Partial, {}).value == {}


def test_an_optional_field_may_be_left_empty_without_a_default() -> None:
    size: Any = Literal["s", None]
    asked = create_model("Asked", nick=(str | None, ...), size=(size, ...))
    assert "required" not in schema_of(asked)
    assert answered(asked, {}).value == asked(nick=None, size=None)
    assert answered(asked, {"nick": None}).value == asked(nick=None, size=None)


@pytest.mark.parametrize(
    ("hint", "default", "shown"),
    [
        (Env, Env.STAGING, "staging"),
        (date, date(2026, 1, 2), "2026-01-02"),
        (Decimal, Decimal("1.5"), 1.5),
        (set[Literal["a"]], {"a"}, ["a"]),
        (str | None, None, None),
        (Annotated[str, Field(min_length=1)], "", None),  # the user could not leave it as it is
    ],
)
def test_a_default_is_shown_if_it_is_a_possible_answer(hint: Any, default: Any, shown: Any) -> None:
    asked = create_model("Asked", it=(hint, default))
    schema = schema_of(asked)
    assert schema["properties"]["it"].get("default") == shown
    assert "required" not in schema
    assert answered(asked, {}).value.it == default


@pytest.mark.parametrize(
    ("hint", "shown", "content", "value"),
    [
        (bool, {"type": "boolean"}, True, True),
        (int, {"type": "integer"}, 7, 7),
        (Annotated[int, Field(ge=1, title="How many?")],
         {"type": "integer", "minimum": 1, "title": "How many?"}, 7, 7),
        (Env, ENV, "staging", Env.STAGING),
        (Literal["a", "b"], {**TEXT, "enum": ["a", "b"]}, "a", "a"),
        (list[Env], {"type": "array", "items": ENV}, ["staging"], [Env.STAGING]),
        (RootModel[int], {"type": "integer"}, 7, RootModel[int](7)),
    ],
)  # fmt: skip
def test_any_other_type_is_a_form_of_one_field(
    hint: Any, shown: JSONObject, content: Any, value: Any
) -> None:
    schema = schema_of(hint)
    assert schema["properties"] == {"value": {"title": "Answer", **shown}}
    assert schema["required"] == ["value"]
    assert answered(hint, {"value": content}) == Accepted(value, {"value": content})
    assert answered(hint, {}) == NotAccepted("cancel")


def test_a_single_optional_value_may_be_left_empty() -> None:
    assert "required" not in schema_of(int | None)
    assert answered(int | None, {}) == Accepted(None)


# --- refusals --------------------------------------------------------------------------------


class Inner(BaseModel):
    x: int


class Pair(NamedTuple):
    x: int


class Node(BaseModel):
    name: str
    next: "Node | None" = None


class Opaque:
    pass


FLAT: Final = "forms are flat; move its fields up, or ask for it in another question"
LIST: Final = "a list must be of choices; use list[Literal[...]] or a list of an Enum"
ONE: Final = "a field has one type; use one of them, or text"
TEXTS: Final = "choices must be texts, as in Literal['1', '2']"
ANY: Final = "use text, a number, bool, a date, a Literal, an Enum, or a list of choices"


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Inner, FLAT),
        (Inner | None, FLAT),
        (dict[str, int], FLAT),
        (list[Inner], LIST),
        (list[str], LIST),
        (list[list[Env]], LIST),
        (set[int], LIST),
        (tuple[int, str], LIST),
        (Pair, LIST),
        (list[Size], TEXTS),
        (int | str, ONE),
        (int | str | None, ONE),
        (Inner | Model, ONE),
        (Env | Literal["other"], ONE),
        (Size, TEXTS),
        (Literal[1, 2], TEXTS),
        (Literal["a", 1], TEXTS),
        (None, ANY),
        (Any, ANY),
        (SecretStr, "forms must not ask for secrets; ask with url(...)"),
    ],
    ids=str,
)
def test_what_a_form_cannot_show_is_refused_with_its_place_and_what_to_use(
    hint: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        form("?", create_model("Asked", fine=(int, ...), it=(hint, ...)))
    assert str(refused.value) == f"a form cannot show Asked.it: {words}"


@pytest.mark.parametrize(
    ("answer_type", "words"),
    [
        (Node, "a form cannot show Node.next: forms are flat"),
        (list[Inner], f"a form cannot show list[{__name__}.Inner]: a list must be of choices"),
        (dict[str, int], "a form cannot show dict[str, int]: forms are flat"),
        (None, "a form cannot show None: use text, a number"),
        (Opaque, "Opaque cannot be JSON; use JSON types, a pydantic model, a dataclass or"),
        (7, "7 cannot be JSON; use JSON types"),
        (Model(place=Env.STAGING), " cannot be JSON; use JSON types"),
        ("Model", "'Model' cannot be JSON: "),
    ],
)
def test_a_type_without_a_form_is_refused(answer_type: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        form("?", answer_type)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


# --- answers that do not fit -----------------------------------------------------------------


def _not_a_friday(day: date) -> date:
    if day.weekday() == 4:
        raise ValueError("not on a Friday")
    return day


class Picky(BaseModel):
    model_config = ConfigDict(strict=True)

    age: Annotated[int, Field(ge=18, multiple_of=2)]
    name: Annotated[str, Field(min_length=2, max_length=5, pattern="^[A-Z]")]
    env: Env = Env.STAGING
    share: Annotated[float, Field(gt=0)] = 1
    day: Annotated[date, AfterValidator(_not_a_friday)] = date(2026, 7, 27)
    sure: bool = False
    gifts: list[Literal["box", "card"]] = Field(default=[], max_length=1)

    @model_validator(mode="after")
    def production_needs_to_be_sure(self) -> "Picky":
        if self.env is Env.PRODUCTION and not self.sure:
            raise ValueError("be sure")
        return self


FITS: Final = {"age": 20, "name": "Ada"}


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"age": 20},
        {**FITS, "age": "20"},
        {**FITS, "age": True},
        {**FITS, "age": 20.5},
        {**FITS, "age": None},
        {**FITS, "age": 16},
        {**FITS, "age": 21},  # only the type knows
        {**FITS, "name": "A"},
        {**FITS, "name": "Augusta"},
        {**FITS, "name": "ada"},  # only the type knows
        {**FITS, "name": ["Ada"]},
        {**FITS, "name": {"first": "Ada"}},
        {**FITS, "env": "test"},
        {**FITS, "env": ["staging"]},
        {**FITS, "env": "production"},  # only the model's validator knows
        {**FITS, "share": 0},  # only the type knows
        {**FITS, "share": "1"},
        {**FITS, "day": "tomorrow"},
        {**FITS, "day": 20_000},
        {**FITS, "day": "2026-07-31"},  # only the field's validator knows
        {**FITS, "sure": "yes"},
        {**FITS, "sure": 1},
        {**FITS, "gifts": "box"},
        {**FITS, "gifts": ["bow"]},
        {**FITS, "gifts": ["box", "card"]},
        [],
        "Ada",
        None,
    ],
)
def test_an_answer_that_the_type_refuses_counts_as_a_cancel(content: Any) -> None:
    assert answered(Picky, FITS) == Accepted(Picky(age=20, name="Ada"), FITS)
    assert answered(Picky, content) == NotAccepted("cancel")


@given(values)
def test_no_content_makes_reading_it_fail(content: Any) -> None:
    answer = answered(Picky, content)
    assert isinstance(answer, NotAccepted) or isinstance(answer.value, Picky)


def test_the_log_names_what_was_refused_without_its_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answered(Picky, {**FITS, "name": "secret"[:5]})
    answered(Picky, {**FITS, "env": "production"})
    assert [record.getMessage() for record in caplog.records] == [
        "an answer does not fit its form (name.string_pattern_mismatch); treating it as cancelled",
        "an answer does not fit its form (value_error); treating it as cancelled",
    ]


# --- the same question -----------------------------------------------------------------------

PROGRAM: Final = """
from tests.adapters.tools.test_forms import Model, Picky, form, json
print(json.dumps([form("?", t).params for t in (Model, Picky, bool)]))
"""


def test_the_same_question_has_the_same_bytes_in_every_process() -> None:
    """A tool that runs again asks with the bytes that are stored, or it would be refused."""
    seen = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            check=True,
        )
        seen.add(ended.stdout.strip())
    here = json.dumps([form("?", t).params for t in (Model, Picky, bool)])
    assert seen == {here.encode()}
