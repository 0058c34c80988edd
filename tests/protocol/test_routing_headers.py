"""The headers of 2026-07-28, made and checked."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.protocol.dialects.mcp_2026_07_28.headers import (
    check_headers,
    decode_header_value,
    encode_header_value,
    headers_of,
    mirrored_parameters,
)
from taskmachine.protocol.errors import HeaderMismatch
from taskmachine.protocol.jsonrpc import Request
from tests.requirements import covers
from tests.strategies import text

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def request(method: str = "tasks/get", **params: Any) -> Request:
    return Request(1, method, {"_meta": META, **params})


@covers(
    "2026-07-28:header-values-encoded",
    "2026-07-28:header-value-base64",
    "2026-07-28:header-sentinel-exact",
    "2026-07-28:header-sentinel-lookalike-encoded",
)
@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("two words", "two words"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", "=?base64??="),
    ],
)
def test_examples_of_the_specification(value: str, header: str) -> None:
    assert encode_header_value(value) == header
    assert decode_header_value("Mcp-Name", header) == value


@covers(
    "2026-07-28:header-values-encoded",
    "2026-07-28:header-value-base64",
    "2026-07-28:header-values-decoded",
)
@given(text)
def test_any_text_survives_the_header(value: str) -> None:
    header = encode_header_value(value)
    assert header.isascii()
    assert header.isprintable() or "\t" in header
    assert header == header.strip()
    assert decode_header_value("Mcp-Name", header) == value


@covers("2026-07-28:param-header-bad-characters")
@pytest.mark.parametrize(
    "header", ["caf\xe9", "a\x00b", "a\x7f", "=?base64?!!?=", "=?base64?/w==?=", "=?base64?YQ?="]
)
def test_an_undecodable_header_value_is_refused(header: str) -> None:
    with pytest.raises(HeaderMismatch, match="Mcp-Name"):
        decode_header_value("Mcp-Name", header)


@covers("2026-07-28:header-sentinel-exact")
def test_the_sentinel_is_case_sensitive() -> None:
    assert decode_header_value("Mcp-Name", "=?BASE64?YQ==?=") == "=?BASE64?YQ==?="


@covers(
    "2026-07-28:mcp-method-header",
    "2026-07-28:mcp-name-header",
    "2026-07-28:mcp-name-is-task-id",
    "2026-07-28:mcp-method-is-method",
    "2026-07-28:header-names-case-insensitive",
)
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "tool"}, "tool"),
        ("prompts/get", {"name": "prompt"}, "prompt"),
        ("resources/read", {"uri": "file:///a"}, "file:///a"),
        ("tasks/get", {"taskId": "t1"}, "t1"),
        ("tasks/update", {"taskId": "t1", "inputResponses": {}}, "t1"),
        ("tasks/cancel", {"taskId": "t1"}, "t1"),
        ("tools/list", {}, None),
        ("subscriptions/listen", {"notifications": {}}, None),
    ],
)
def test_the_server_accepts_the_headers_that_the_client_builds(
    method: str, params: Any, name: str | None
) -> None:
    headers = headers_of(request(method, **params))
    assert headers["MCP-Protocol-Version"] == "2026-07-28"
    assert headers["Mcp-Method"] == method
    assert headers.get("Mcp-Name") == name
    for spelled in (str, str.lower, str.upper):
        sent = [(spelled(name), value) for name, value in headers.items()]
        check_headers(sent, request(method, **params))


GOOD = headers_of(request(taskId="t1"))


@covers(
    "2026-07-28:header-body-mismatch-rejected",
    "2026-07-28:header-values-case-sensitive",
    "2026-07-28:header-missing-rejected",
    "2026-07-28:http-version-mismatch-32020",
    "2026-07-28:http-version-header-missing-refused",
    "2026-07-28:http-version-header-missing-legacy",
)
@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({**GOOD, "Mcp-Name": "t2"}, "Mcp-Name is 't2', which differs from the body"),
        ({**GOOD, "Mcp-Method": "tasks/cancel"}, "Mcp-Method is 'tasks/cancel'"),
        ({**GOOD, "Mcp-Method": "TASKS/GET"}, "Mcp-Method is 'TASKS/GET'"),
        ({**GOOD, "MCP-Protocol-Version": "2025-11-25"}, "MCP-Protocol-Version is '2025-11-25'"),
        ({k: v for k, v in GOOD.items() if k != "Mcp-Method"}, "Mcp-Method is missing"),
        ({"Mcp-Method": "tasks/get", "Mcp-Name": "t1"}, "MCP-Protocol-Version is missing"),
        ({**GOOD, "Mcp-Name": "t\xe9"}, "Mcp-Name has invalid characters"),
        *(
            ({**GOOD, name: value}, f"{name} is '{value}', which differs from the body")
            for name, value in [
                ("Mcp-Method", "=?base64?dGFza3MvZ2V0?="),
                ("MCP-Protocol-Version", "=?base64?MjAyNi0wNy0yOA==?="),
            ]
        ),
    ],
)
def test_headers_at_odds_with_the_body_are_refused(headers: Any, reason: str) -> None:
    with pytest.raises(HeaderMismatch) as error:
        check_headers(headers.items(), request(taskId="t1"))
    assert error.value.reason.startswith(reason)


@covers("2026-07-28:header-missing-rejected")
@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_a_name_that_is_required_must_be_there(method: str) -> None:
    call = request(method, name="n", uri="n")
    without = {k: v for k, v in headers_of(call).items() if k != "Mcp-Name"}
    with pytest.raises(HeaderMismatch, match="Mcp-Name is missing"):
        check_headers(without.items(), call)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_the_name_of_a_task_may_be_left_out_but_not_wrong(method: str) -> None:
    get = request(method, taskId="t1")
    without = {k: v for k, v in headers_of(get).items() if k != "Mcp-Name"}
    check_headers(without.items(), get)
    with pytest.raises(HeaderMismatch, match="Mcp-Name is 't2'"):
        check_headers({**without, "Mcp-Name": "t2"}.items(), get)


def test_a_repeated_header_is_refused_even_if_the_values_match() -> None:
    with pytest.raises(HeaderMismatch, match="mcp-name is repeated"):
        check_headers([*GOOD.items(), ("MCP-NAME", "t1")], request(taskId="t1"))
    check_headers([*GOOD.items(), ("Accept", "a"), ("accept", "b")], request(taskId="t1"))


@pytest.mark.parametrize("meta", [None, [], {}])
def test_a_body_without_a_version_agrees_with_nothing(meta: Any) -> None:
    broken = Request(1, "tools/list", {"_meta": meta})
    with pytest.raises(HeaderMismatch, match="MCP-Protocol-Version"):
        check_headers({"MCP-Protocol-Version": "x", "Mcp-Method": "tools/list"}.items(), broken)


def test_a_body_without_a_name_agrees_with_no_header() -> None:
    with pytest.raises(HeaderMismatch, match="Mcp-Name is 't1'"):
        check_headers(GOOD.items(), request())


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def marked(name: Any, kind: Any = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name}


MIRRORED = schema(
    region=marked("Region"),
    limits=schema(count=marked("Count", "integer"), strict=marked("Strict", "boolean")),
    query={"type": "string"},
)


def test_marks_are_found_along_properties() -> None:
    assert mirrored_parameters(MIRRORED) == {
        "Region": ("region",),
        "Count": ("limits", "count"),
        "Strict": ("limits", "strict"),
    }
    assert mirrored_parameters({"type": "object"}) == {}
    assert mirrored_parameters({"type": "object", "properties": []}) == {}
    assert mirrored_parameters(schema(anything=True, nothing=False)) == {}


@covers(
    "2026-07-28:x-mcp-header-not-empty",
    "2026-07-28:x-mcp-header-token",
    "2026-07-28:x-mcp-header-no-control",
    "2026-07-28:x-mcp-header-unique",
    "2026-07-28:x-mcp-header-primitive",
    "2026-07-28:x-mcp-header-reachable",
    "2026-07-28:x-mcp-header-chain",
    "2026-07-28:x-mcp-header-invalid-rejected",
)
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (schema(a=marked("")), "is not a header name"),
        (schema(a=marked("a b")), "is not a header name"),
        (schema(a=marked("a\r\nb")), "is not a header name"),
        (schema(a=marked(5)), "is not a header name"),
        (schema(a=marked("A", "number")), "needs type string, integer or boolean"),
        (schema(a=marked("A", "object")), "needs type string, integer or boolean"),
        (schema(a=marked("A", ["string"])), "needs type string, integer or boolean"),
        ({"type": "string", "x-mcp-header": "A"}, "needs type string, integer or boolean"),
        (schema(a=marked("A"), b=marked("a")), "used twice"),
        (schema(a={"type": "array", "items": marked("A")}), "only allowed on properties"),
        ({"anyOf": [schema(a=marked("A"))]}, "only allowed on properties"),
        ({"$defs": {"x": marked("A")}}, "only allowed on properties"),
    ],
)
def test_marks_against_the_rules_are_refused(broken: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        mirrored_parameters(broken)


def call(**arguments: Any) -> Request:
    return request("tools/call", name="sql", arguments=arguments)


@covers(
    "2026-07-28:param-headers-mirrored",
    "2026-07-28:param-header-included",
    "2026-07-28:param-header-omitted-for-null",
    "2026-07-28:param-header-omitted-if-absent",
    "2026-07-28:param-header-not-expected-for-null",
    "2026-07-28:param-header-not-expected-if-absent",
    "2026-07-28:tools-call-headers-built",
)
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"region": "us"}, {"Mcp-Param-Region": "us"}),
        ({"region": " é"}, {"Mcp-Param-Region": "=?base64?IMOp?="}),
        (
            {"limits": {"count": -7, "strict": True}},
            {"Mcp-Param-Count": "-7", "Mcp-Param-Strict": "true"},
        ),
        ({"limits": {"strict": False}}, {"Mcp-Param-Strict": "false"}),
        ({"region": None, "limits": 5}, {}),
        ({}, {}),
    ],
)
def test_parameters_are_mirrored(arguments: Any, expected: dict[str, str]) -> None:
    mirrored = mirrored_parameters(MIRRORED)
    headers = headers_of(call(**arguments), mirrored)
    assert {k: v for k, v in headers.items() if k.startswith("Mcp-Param-")} == expected
    check_headers(headers.items(), call(**arguments), mirrored)


@covers(
    "2026-07-28:param-header-matches-body",
    "2026-07-28:param-header-missing-rejected",
    "2026-07-28:header-integers-numeric",
    "2026-07-28:header-decoded-before-compare",
    "2026-07-28:header-values-decoded",
)
@pytest.mark.parametrize(
    ("arguments", "headers", "accepted"),
    [
        ({"limits": {"count": 42}}, {"Mcp-Param-Count": "42.0"}, True),
        ({"limits": {"count": 42}}, {"Mcp-Param-Count": "43"}, False),
        ({"limits": {"count": 42}}, {"Mcp-Param-Count": "0x2a"}, False),
        ({"limits": {"count": 2**53}}, {"Mcp-Param-Count": str(2**53)}, False),
        ({"limits": {"count": 42}}, {}, False),
        ({"limits": {"strict": True}}, {"Mcp-Param-Strict": "True"}, False),
        ({"limits": {"strict": True}}, {"Mcp-Param-Strict": "1"}, False),
        ({"region": "us"}, {"mcp-param-region": "us"}, True),
        ({"region": "us"}, {"Mcp-Param-Region": "=?base64?dXM=?="}, True),
        ({"region": None}, {"Mcp-Param-Region": "us"}, False),
        ({}, {"Mcp-Param-Unknown": "x"}, True),
    ],
)
def test_mirrored_parameters_are_checked(
    arguments: Any, headers: dict[str, str], accepted: bool
) -> None:
    sent = {**headers_of(call(**arguments)), **headers}
    mirrored = mirrored_parameters(MIRRORED)
    if accepted:
        check_headers(sent.items(), call(**arguments), mirrored)
    else:
        with pytest.raises(HeaderMismatch):
            check_headers(sent.items(), call(**arguments), mirrored)


@given(st.dictionaries(st.sampled_from(["region", "limits"]), st.none() | text | st.integers()))
def test_whatever_the_arguments_are_both_sides_agree(arguments: dict[str, Any]) -> None:
    mirrored = mirrored_parameters(schema(region=marked("Region")))
    if not isinstance(arguments.get("region"), int):
        check_headers(headers_of(call(**arguments), mirrored).items(), call(**arguments), mirrored)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (schema(a=schema(b=marked("a b"))), "x-mcp-header of 'a.b' is not a header name"),
        (
            schema(a=schema(b=marked("A", "array"))),
            "x-mcp-header of 'a.b' needs type string, integer or boolean",
        ),
        (schema(a=marked("A"), b=schema(c=marked("a"))), "x-mcp-header 'a' is used twice"),
        (
            {"$defs": {"x": marked("A")}, **schema(a={"type": "array", "items": marked("B")})},
            "x-mcp-header is only allowed on properties nested in `properties`",
        ),
    ],
)
def test_a_mark_against_the_rules_is_named_by_its_place(broken: Any, reason: str) -> None:
    with pytest.raises(ValueError, match="x-mcp-header") as error:
        mirrored_parameters(broken)
    assert str(error.value) == reason


def test_a_long_header_is_not_repeated_in_full() -> None:
    headers = {**headers_of(request(taskId="t1")), "Mcp-Name": "x" * 1000}
    with pytest.raises(HeaderMismatch) as error:
        check_headers(headers.items(), request(taskId="t1"))
    assert error.value.reason == f"Mcp-Name is '{'x' * 80}', which differs from the body"


def test_mirrored_text_keeps_its_case() -> None:
    mirrored = mirrored_parameters(schema(region=marked("Region")))
    headers = headers_of(call(region="US-West"), mirrored)
    assert headers["Mcp-Param-Region"] == "US-West"
    check_headers(headers.items(), call(region="US-West"), mirrored)
    with pytest.raises(HeaderMismatch):
        check_headers(headers.items(), call(region="us-west"), mirrored)


@pytest.mark.parametrize("count", [2**53 - 1, -(2**53 - 1)])
def test_the_largest_safe_integer_can_be_mirrored(count: int) -> None:
    mirrored = mirrored_parameters(schema(count=marked("Count", "integer")))
    sent = headers_of(call(count=count), mirrored)
    assert sent["Mcp-Param-Count"] == str(count)
    check_headers(sent.items(), call(count=count), mirrored)
    beyond = count + (1 if count > 0 else -1)
    with pytest.raises(HeaderMismatch):
        check_headers(
            {**sent, "Mcp-Param-Count": str(beyond)}.items(), call(count=beyond), mirrored
        )
