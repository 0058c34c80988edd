"""Arguments that are made for tools fit their schemas, and there are some where there can be."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskmachine.adapters.conformance.arguments import candidates

Schema = dict[str, Any]


def a_tool(
    properties: Schema, required: list[str] | None = None, more: Schema | None = None
) -> Schema:
    needed = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": needed, **(more or {})}


TEXT = {"type": "string"}
NODE: Schema = {
    "type": "object",
    "properties": {
        "value": {"type": "integer", "minimum": 3, "multipleOf": 2},
        "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}], "default": None},
        "others": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
    "required": ["value", "next"],
}

# As zod, pydantic and hands write them.
REAL: dict[str, Schema] = {
    "nothing at all": {},
    "no parameters": {"type": "object"},
    "closed": {"type": "object", "properties": {}, "additionalProperties": False},
    "draft 7": a_tool(
        {"topic": TEXT, "deep": {"type": "boolean", "default": False}},
        more={"$schema": "http://json-schema.org/draft-07/schema#"},
    ),
    "optional of pydantic": a_tool(
        {"name": {"anyOf": [TEXT, {"type": "null"}], "default": None, "title": "Name"}}, []
    ),
    "needed, though it may be null": a_tool(
        {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}
    ),
    "enumeration by reference": a_tool(
        {"colour": {"$ref": "#/$defs/Colour"}},
        more={"$defs": {"Colour": {"enum": ["red", "green"], "type": "string"}}},
    ),
    "old definitions": a_tool(
        {"a/b": {"$ref": "#/definitions/a~1b"}}, more={"definitions": {"a/b": {"type": "integer"}}}
    ),
    "allOf around a reference": a_tool(
        {"p": {"allOf": [{"$ref": "#/$defs/P"}], "description": "Where"}},
        more={"$defs": {"P": a_tool({"x": {"type": "number"}, "y": {"type": "number"}})}},
    ),
    "contains itself": a_tool({"node": {"$ref": "#/$defs/Node"}}, more={"$defs": {"Node": NODE}}),
    "refers to itself": a_tool(
        {"first": {"type": "integer"}, "second": {"$ref": "#/properties/first"}}
    ),
    "an object of anything": a_tool({"options": {"type": "object"}}),
    "safe integers": a_tool(
        {"n": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991}}
    ),
    "between 0 and 1": a_tool(
        {"p": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}}
    ),
    "far away": a_tool({"n": {"type": "integer", "minimum": 1_000, "maximum": 1_001}}),
    "below nothing": a_tool({"n": {"type": "integer", "maximum": -7}}),
    "steps": a_tool({"n": {"type": "number", "minimum": 7, "multipleOf": 2.5}}),
    "lengths": a_tool({"code": {"type": "string", "minLength": 8, "maxLength": 8}}),
    "one letter": a_tool({"code": {"type": "string", "maxLength": 1}}),
    "a pattern": a_tool({"id": {"type": "string", "pattern": "^[A-Z]{3}-\\d{4}$"}}),
    "a pattern and a length": a_tool({"id": {"type": "string", "pattern": "^x+$", "minLength": 5}}),
    "formats": a_tool(
        {
            f: {"type": "string", "format": f}
            for f in (
                "email",
                "uri",
                "date",
                "date-time",
                "time",
                "uuid",
                "ipv4",
                "ipv6",
                "duration",
            )
        }
    ),
    "a list": a_tool({"names": {"type": "array", "items": TEXT, "minItems": 2}}),
    "a list of different ones": a_tool(
        {
            "c": {
                "type": "array",
                "items": {"enum": ["a", "b", "c"]},
                "minItems": 3,
                "uniqueItems": True,
            }
        }
    ),
    "a pair": a_tool(
        {
            "at": {
                "type": "array",
                "prefixItems": [{"type": "number"}, TEXT],
                "minItems": 2,
                "maxItems": 2,
            }
        }
    ),
    "a constant": a_tool(
        {"kind": {"const": "circle"}, "radius": {"type": "number", "exclusiveMinimum": 0}}
    ),
    "one of several": a_tool(
        {
            "shape": {
                "oneOf": [
                    a_tool({"kind": {"const": "circle"}, "r": {"type": "number"}}),
                    a_tool(
                        {"kind": {"const": "box"}, "w": {"type": "number"}, "h": {"type": "number"}}
                    ),
                ]
            }
        }
    ),
    "several types": a_tool({"value": {"type": ["integer", "null"]}}),
    "needed and not described": {"type": "object", "required": ["x"]},
    "nested": a_tool(
        {"filter": a_tool({"field": TEXT, "limit": {"type": "integer", "minimum": 1}})}
    ),
    "examples": a_tool(
        {"city": {"type": "string", "examples": ["Rome"], "enum": ["Rome", "Paris"]}}
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_a_schema_as_people_write_them_has_arguments_that_fit(name: str) -> None:
    schema = REAL[name]
    made = candidates(schema)
    assert made
    for one in made:
        jsonschema_rs.validate(schema, one)
    assert all(one not in made[:place] for place, one in enumerate(made))


@pytest.mark.parametrize(
    ("schema", "first"),
    [
        # A default may be an hour.
        (a_tool({"seconds": {"type": "number", "default": 3_600}}, []), {"seconds": 1}),
        (a_tool({"delete": {"type": "boolean"}}), {"delete": False}),
        (a_tool({"keep": {"type": "boolean", "default": True}}), {"keep": True}),
        (a_tool({"mode": {"enum": ["fast", "safe"], "default": "safe"}}), {"mode": "safe"}),
        (a_tool({"note": TEXT, "name": TEXT}, ["name"]), {"name": "a test"}),
        (a_tool({"times": {"type": "integer", "minimum": 2}}), {"times": 2}),
    ],
)
def test_the_most_careful_arguments_come_first(schema: Schema, first: dict[str, Any]) -> None:
    assert candidates(schema)[0] == first


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        (REAL["draft 7"], {"topic": "a test", "deep": True}),
        (a_tool({"mode": {"enum": ["a", "b", "c"]}}), {"mode": "c"}),
        (a_tool({"seconds": {"type": "number"}}), {"seconds": 5}),
        (a_tool({"delay_ms": {"type": "integer"}}), {"delay_ms": 3_000}),
        (a_tool({"t": {"type": "integer", "description": "in milliseconds"}}), {"t": 3_000}),
    ],
)
def test_arguments_that_vary_tool_behavior_are_among_the_first_four(
    schema: Schema, wanted: dict[str, Any]
) -> None:
    assert wanted in candidates(schema)[:4]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": "string"},
        a_tool({"x": {"$ref": "#/nowhere"}}),
        a_tool({"x": {"$ref": "http://127.0.0.1:9/schema.json"}}),
        a_tool({"x": {"type": "string", "pattern": "("}}),
        a_tool({"x": {"type": "integer", "minimum": 2, "maximum": 1}}),
        a_tool({"x": False}),
        a_tool(
            {"x": {"$ref": "#/$defs/X"}},
            more={"$defs": {"X": a_tool({"x": {"$ref": "#/$defs/X"}})}},
        ),
    ],
)
def test_unsatisfiable_schema_has_no_candidate_arguments(schema: Schema) -> None:
    assert candidates(schema) == []


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Schemas of tools, from the keywords that tools use; not all of them can be fulfilled."""
    leaf = st.sampled_from(
        [
            TEXT,
            {"type": "boolean"},
            {"type": "null"},
            {"enum": ["a", 1, None]},
            {"const": {"a": 1}},
            {"type": "string", "format": "date"},
            {"type": "string", "minLength": 3},
            {},
            {"type": "array", "minItems": 1},
            {"$ref": "#/$defs/D"},
        ]
    )
    number = st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={
            "minimum": st.integers(-10, 10),
            "maximum": st.integers(0, 20),
            "exclusiveMinimum": st.integers(-10, 10),
            "multipleOf": st.sampled_from([1, 3, 0.5]),
            "default": st.integers(-5, 5),
        },
    )
    field = st.recursive(
        leaf | number,
        lambda some: st.one_of(
            st.builds(lambda parts: {"anyOf": parts}, st.lists(some, min_size=1, max_size=3)),
            st.builds(lambda part: {"allOf": [part]}, some),
            st.builds(lambda items: {"type": "array", "items": items, "minItems": 1}, some),
            st.builds(a_tool, st.dictionaries(st.sampled_from("xyz"), some, max_size=3)),
        ),
        max_leaves=6,
    )
    fields = draw(st.dictionaries(st.sampled_from("abcde"), field, max_size=4))
    required = draw(st.lists(st.sampled_from([*"abcde"]), unique=True, max_size=3))
    closed = draw(st.sampled_from([{}, {"additionalProperties": False}]))
    return a_tool(fields, required, {"$defs": {"D": draw(leaf | number)}, **closed})


@settings(suppress_health_check=[HealthCheck.nested_given, HealthCheck.too_slow])
@given(schemas())
def test_whatever_is_made_fits_whatever_the_schema_says(schema: Schema) -> None:
    for one in candidates(schema):
        jsonschema_rs.validate(schema, one)
