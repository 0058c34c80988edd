"""The parser of event streams against the rules of the HTML standard, for any chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.adapters.client.sse import Event, EventTooLarge, Parser

Parsed = tuple[list[Event], str | None, int | None]


def parse(*chunks: bytes) -> Parsed:
    parser = Parser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events, parser.last_event_id, parser.retry_ms


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [Event("YHOO\n+2\n10")]),
        (b": test stream\n\ndata: first\nid: 1\n\ndata:second\nid\n\ndata:  third\n\n",
         [Event("first", id="1"), Event("second", id=""), Event(" third")]),
        (b"data\n\ndata\ndata\n\ndata:", [Event(""), Event("\n")]),
        (b"data:test\n\ndata: test\n\n", [Event("test"), Event("test")]),
        (b"event: add\ndata: 73857293\n\ndata: x\n\n", [Event("73857293", "add"), Event("x")]),
        (b"event: only\n\nid: 3\n\n:\n\n", []),
        (b"data: cut off\n", []),
        (b"unknown: field\ndata: a:b\n\n", [Event("a:b")]),
        (b"\xef\xbb\xbfdata: marked\n\n\xef\xbb\xbfdata: no field\n\n", [Event("marked")]),
        (b"data: \xff\xc3\xa4\n\n", [Event("\N{REPLACEMENT CHARACTER}\u00e4")]),
        (b"data: a\r\rdata: b\r\n\r\ndata: c\n\r", [Event("a"), Event("b"), Event("c")]),
    ],
)  # fmt: skip
def test_events_are_read_as_the_standard_says(stream: bytes, events: list[Event]) -> None:
    assert parse(stream)[0] == events
    assert parse(*(bytes([byte]) for byte in stream))[0] == events


def test_an_id_counts_from_the_end_of_its_event_on() -> None:
    assert parse(b"id: 1\ndata: a\n\nid: 2\ndata: b")[1] == "1"
    assert parse(b"id: 1\ndata: a\n\ndata: b\n\n")[1] == "1"
    assert parse(b"id: 1\n\nid: 2\0\n\n")[1] == "1"
    assert parse(b"id: 1\n\nid\n\n")[1] == ""


@pytest.mark.parametrize(
    ("line", "ms"),
    [("2500", 2500), ("0", 0), ("007", 7), ("", None), ("-1", None), ("1.5", None),
     ("\u0665", None), ("9" * 5000, 3_600_000)],
)  # fmt: skip
def test_retry_is_a_number_of_milliseconds_or_nothing(line: str, ms: int | None) -> None:
    assert parse(f"retry: {line}\n".encode())[2] == ms


LINES = st.one_of(
    st.sampled_from([b"", b"", b"data", b"id: 7", b"retry: 5", b": c", b"event: e", b"data:"]),
    st.binary(max_size=6).map(lambda value: b"data: " + value),
    st.binary(max_size=6),
)


@given(st.lists(st.tuples(LINES, st.sampled_from([b"\r\n", b"\n", b"\r"]))), st.data())
def test_pieces_make_no_difference(lines: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    stream = b"".join(line + end for line, end in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(*chunks) == parse(stream)


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=9)),
    st.booleans(),
)
def test_parser_returns_the_written_data_lines(lines: list[str], is_crlf: bool) -> None:
    end = "\r\n" if is_crlf else "\n"
    stream = "".join(f"data: {line}{end}" for line in lines) + end
    assert parse(stream.encode())[0] == ([Event("\n".join(lines))] if lines else [])


def test_an_event_has_a_largest_size_and_a_stream_has_not() -> None:
    fits = b"data: 1234\n"
    assert len(list(Parser(29).feed(fits * 2 + b"\n"))) == 1
    assert len(list(Parser(29).feed((fits + b"\n") * 100))) == 100
    assert list(Parser(29).feed(b": keep-alive\n" * 100)) == []
    for too_much in (fits * 3, b"data: " + b"x" * 30, b": " + b"x" * 30 + b"\n"):
        with pytest.raises(EventTooLarge):
            list(Parser(29).feed(too_much))


def test_parser_restart_drops_the_partial_event_and_keeps_the_last_event_id() -> None:
    parser = Parser()
    assert list(parser.feed(b"id: 1\ndata: a\n\nid: 2\nevent: x\ndata: cut o\r")) == [
        Event("a", id="1")
    ]
    parser.restart()
    assert list(parser.feed(b"\ndata: b\n\n")) == [Event("b")]
    assert parser.last_event_id == "1"
