"""Values of headers of 2026-07-28, as the tester writes and reads them itself."""

import pytest

from taskmachine.adapters.conformance.wire.header_values import decode_value, encode_value, to_text


@pytest.mark.parametrize("text", ["a", "two words", "a\tb", "=?base64?", "~!", "=?BASE64?YQ==?="])
def test_plain_text_header_value_is_sent_unencoded(text: str) -> None:
    assert encode_value(text) == decode_value(text) == text


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("\u00e9", "=?base64?w6k=?="),
        (" a", "=?base64?IGE=?="),
        ("a\t", "=?base64?YQk=?="),
        ("a\nb", "=?base64?YQpi?="),
        ("", "=?base64??="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
    ],
)
def test_other_text_is_encoded(text: str, sent: str) -> None:
    assert encode_value(text) == sent
    assert decode_value(sent) == text


@pytest.mark.parametrize("sent", ["=?base64?!?=", "=?base64?YQ?=", "=?base64?/w==?="])
def test_broken_base64_stands_for_nothing(sent: str) -> None:
    assert decode_value(sent) is None


def test_parameters_are_written_as_json_spells_them() -> None:
    assert [to_text(value) for value in (True, False, 7, "x")] == ["true", "false", "7", "x"]
