"""Bytes to messages: every kind of bad input has its code and a reason."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.protocol.errors import MalformedMessage
from taskmachine.protocol.jsonrpc import (
    Error,
    ErrorResponse,
    Message,
    Notification,
    Request,
    ResultResponse,
    decode_message,
    encode_message,
    json_type,
)
from taskmachine.protocol.jsonvalue import MAX_BYTES, MAX_DEPTH, Encoded, decode_json, encode_json
from tests.requirements import covers
from tests.strategies import json_objects, json_values, text

PARSE, INVALID, PARAMS = -32700, -32600, -32602
ERROR = b'{"jsonrpc":"2.0","id":1,"error":%b}'

ids = st.integers() | text
messages = st.one_of(
    st.builds(Request, id=ids, method=text, params=json_objects),
    st.builds(Notification, method=text, params=json_objects),
    st.builds(ResultResponse, id=ids, result=json_objects),
    st.builds(
        ErrorResponse,
        id=st.none() | ids,
        error=st.builds(Error, code=st.integers(), message=text, data=json_values),
    ),
)


@given(messages)
def test_round_trip(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


@covers(
    "2025-11-25:jsonrpc-2-0", "2025-11-25:messages-utf8", "2025-11-25:stdio-no-embedded-newlines"
)
@given(messages)
def test_a_message_is_one_line_of_utf_8(message: Message) -> None:
    data = encode_message(message)
    assert b"\n" not in data
    assert json.loads(data.decode())["jsonrpc"] == "2.0"


@covers("2025-11-25:error-same-id")
def test_an_error_without_an_id_has_no_id() -> None:
    assert "id" not in json.loads(encode_message(ErrorResponse(None, Error(PARSE, "x"))))


@covers(
    "2025-11-25:jsonrpc-2-0",
    "2025-11-25:request-id-type",
    "2025-11-25:request-id-not-null",
    "2025-11-25:error-code-integer",
)
@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        (b"", PARSE, "Parse error: Input data was truncated"),
        (b"{", PARSE, "Parse error: Input data was truncated"),
        (b"{} {}", PARSE, "trailing characters"),
        (b"\xef\xbb\xbf{}", PARSE, "invalid character"),
        (b'{"a":"\xff"}', PARSE, "'utf-8' codec can't decode byte 0xff"),
        (b'{"a":"\xed\xa0\x80"}', PARSE, "'utf-8' codec can't decode"),
        (b'{"a":"\\ud800 and more"}', PARSE, "surrogate pair"),
        (b'{"a":"\\udc00"}', PARSE, "surrogate pair"),
        (b'{"a":"\x01"}', PARSE, "invalid character"),
        (b'{"a":NaN}', PARSE, "invalid character"),
        (b'{"a":Infinity}', PARSE, "invalid character"),
        (b'{"a":1e999}', PARSE, "Number out of range"),
        (b'{"a":-1e999}', PARSE, "Number out of range"),
        (b'{"a":' + b"9" * 5000 + b"}", PARSE, "Integer value out of range"),
        (b"[" * 100_000, PARSE, "nested deeper than 128 levels"),
        (b'{"a":' * 100_000, PARSE, "nested deeper than 128 levels"),
        (b" " * (MAX_BYTES + 1), PARSE, f"{MAX_BYTES + 1} bytes exceed the limit of {MAX_BYTES}"),
        (b"[]", INVALID, "batches are not part of MCP; send one message at a time"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID, "batches"),
        (b"null", INVALID, "a message must be an object, got null"),
        (b'"x"', INVALID, "a message must be an object, got string"),
        (b"{}", INVALID, 'jsonrpc must be "2.0"'),
        (b'{"jsonrpc":2.0,"id":1,"method":"m"}', INVALID, 'jsonrpc must be "2.0"'),
        (b'{"jsonrpc":"1.0","id":1,"method":"m"}', INVALID, 'jsonrpc must be "2.0"'),
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', INVALID, "an integer, got null"),
        (b'{"jsonrpc":"2.0","id":true,"method":"m"}', INVALID, "an integer, got boolean"),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"m"}', INVALID, "an integer, got number"),
        (b'{"jsonrpc":"2.0","id":{},"method":"m"}', INVALID, "an integer, got object"),
        (b'{"jsonrpc":"2.0","id":[],"error":{}}', INVALID, "an integer, got array"),
        (b'{"jsonrpc":"2.0","id":1}', INVALID, "exactly one of method, result and error"),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","result":{}}', INVALID, "exactly one of"),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', INVALID, "exactly one of"),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', INVALID, "method must be a string, got number"),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":[]}', PARAMS, "object, got array"),
        (b'{"jsonrpc":"2.0","method":"m","params":5}', PARAMS, "must be an object, got number"),
        (b'{"jsonrpc":"2.0","id":1,"result":[]}', INVALID, "result must be an object, got array"),
        (b'{"jsonrpc":"2.0","id":null,"result":{}}', INVALID, "an integer, got null"),
        (b'{"jsonrpc":"2.0","result":{}}', INVALID, "a result needs the id of its request"),
        (b'{"jsonrpc":"2.0","id":1,"error":5}', INVALID, "error must be an object, got number"),
        (b'{"jsonrpc":"2.0","id":1,"error":{}}', INVALID, "error.code must be an integer"),
        (
            ERROR % b'{"code":true,"message":"x"}',
            INVALID,
            "error.code must be an integer, got boolean",
        ),
        (ERROR % b'{"code":1}', INVALID, "error.message must be a string, got null"),
    ],
)
def test_bad_input_is_refused_with_a_code_and_a_reason(data: bytes, code: int, reason: str) -> None:
    with pytest.raises(MalformedMessage) as error:
        decode_message(data)
    assert error.value.code == code
    assert reason in error.value.reason


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"jsonrpc":"2.0","id":0,"method":"m"}', Request(0, "m")),
        (b'{"jsonrpc":"2.0","id":"","method":"m","params":null}', Request("", "m")),
        (b'{"jsonrpc":"2.0","method":"m"}', Notification("m")),
        (
            b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
            ErrorResponse(None, Error(1, "x")),
        ),
        (b'{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}', ErrorResponse(None, Error(1, "x"))),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}', Request(1, "b")),
        (
            b'{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"m"}',
            Request(123456789012345678901234567890, "m"),
        ),
    ],
)
def test_unusual_but_valid_messages_are_decoded(data: bytes, message: Message) -> None:
    assert decode_message(data) == message


@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_is_bounded_exactly(brackets: tuple[bytes, bytes]) -> None:
    opening, closing = brackets
    decode_json(opening * MAX_DEPTH + b"1" + closing * MAX_DEPTH)
    with pytest.raises(ValueError, match="nested deeper than 128"):
        decode_json(opening * (MAX_DEPTH + 1) + b"1" + closing * (MAX_DEPTH + 1))


def test_many_shallow_containers_are_not_deep() -> None:
    assert len(decode_json(b"[" + b",".join([b"[{}]"] * 1000) + b"]")) == 1000


@pytest.mark.parametrize(
    "words", [b'"' + b"[" * 500 + b'"', b'"' + b'\\"{' * 500 + b'"', b'"\\\\"']
)
def test_brackets_in_strings_are_no_nesting(words: bytes) -> None:
    assert len(decode_json(b"[" + words + b",[[" + words + b"]]]")) == 2


def test_brackets_after_strings_are() -> None:
    with pytest.raises(ValueError, match="nested deeper"):
        decode_json(b'["\\\\",' + b"[" * MAX_DEPTH + b'"\\""' + b"]" * MAX_DEPTH + b"]")


@given(json_values)
def test_json_values_survive_encoding_and_decoding(value: Any) -> None:
    assert decode_json(encode_json(value)) == value


def test_encoded_json_is_copied_verbatim() -> None:
    assert encode_json({"a": Encoded(b'{"b": 1}')}) == b'{"a":{"b": 1}}'


def test_a_lone_surrogate_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        encode_json("\ud800")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"code":"1","message":"x"}', "error.code must be an integer, got string"),
        (b'{"code":1,"message":5}', "error.message must be a string, got number"),
    ],
)
def test_the_refusal_of_a_malformed_error_names_the_actual_type(body: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage) as error:
        decode_message(ERROR % body)
    assert (error.value.code, error.value.reason) == (-32600, f"Invalid request: {reason}")


def test_a_string_of_brackets_alone_has_no_depth() -> None:
    words = "[" * (MAX_DEPTH + 1)
    assert decode_json(encode_json(words)) == words


def test_siblings_at_the_largest_depth_are_not_too_deep() -> None:
    outer = MAX_DEPTH - 1
    decode_json(b"[" * outer + b"[],{}" + b"]" * outer)
    with pytest.raises(ValueError, match="nested deeper than 128"):
        decode_json(b"[" * outer + b"[],[[]]" + b"]" * outer)


@pytest.mark.parametrize("sibling", [b"[],", b"{},"])
def test_closed_siblings_do_not_change_the_nesting_limit(sibling: bytes) -> None:
    before = b"[" + sibling * 200
    decode_json(before + b"[" * (MAX_DEPTH - 1) + b"]" * MAX_DEPTH)
    with pytest.raises(ValueError, match="nested deeper than 128"):
        decode_json(before + b"[" * MAX_DEPTH + b"]" * (MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("", "string"),
        (1, "number"),
        (1.5, "number"),
        (True, "boolean"),
        ({}, "object"),
        ([], "array"),
        (None, "null"),
        (b"", "bytes"),
    ],
)
def test_json_type_returns_the_json_name_of_a_type_if_it_has_one(value: Any, name: str) -> None:
    assert json_type(value) == name


def test_a_message_of_the_largest_size_is_read() -> None:
    assert MAX_BYTES == 4 * 1024 * 1024
    assert decode_json(b" " * (MAX_BYTES - 2) + b"{}") == {}
