"""The tester's own reader of server-sent events, by the rules of the WHATWG specification."""

import pytest

from taskmachine.adapters.conformance.wire.sse import Event, EventReader, EventTooLarge, write_event

STREAMS = {
    b"data: a\n\n": [Event("a")],
    b"data: a\r\rdata: b\r\r": [Event("a"), Event("b")],
    b"data: a\r\ndata: b\r\n\r\n": [Event("a\nb")],
    b"\xef\xbb\xbfdata: a\n\n": [Event("a")],
    b"data:a\ndata\ndata:  b\n\n": [Event("a\n\n b")],
    b": comment\n\nevent: message\n\ndata:\n\n": [Event("")],
    b"id: 1\ndata: a\n\ndata: b\n\nid: 2\n\n": [Event("a", "1"), Event("b")],
    b"id: 1\nid: x\0y\ndata: a\n\n": [Event("a", "1")],
    "data: \u00e9\u4e16\n\n".encode(): [Event("\u00e9\u4e16")],
    b"data: \xff\n\n": [Event("\ufffd")],
    b"data: cut off\n": [],
}


@pytest.mark.parametrize(("stream", "events"), STREAMS.items())
def test_events_are_the_same_however_the_bytes_are_cut(stream: bytes, events: list[Event]) -> None:
    for size in range(1, len(stream) + 1):
        reader = EventReader(100)
        chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert [event for chunk in chunks for event in reader.feed(chunk)] == events


def test_an_event_ends_with_its_empty_line_not_with_the_next_bytes() -> None:
    assert list(EventReader(100).feed(b"data: a\r\r")) == [Event("a")]


def test_the_place_to_resume_and_the_pause_outlive_the_connection() -> None:
    reader = EventReader(100)
    assert list(reader.feed(b"id: 7\nretry: 250\ndata:\n\nid: 8\ndata: cut")) == [Event("", "7")]
    reader.reconnect()
    assert list(reader.feed(b"retry: soon\ndata: whole\n\n")) == [Event("whole")]
    assert (reader.last_event_id, reader.retry_ms) == ("7", 250)


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 100, b"data: x\n" * 20, b":" * 101])
def test_an_event_beyond_the_limit_is_refused(stream: bytes) -> None:
    with pytest.raises(EventTooLarge):
        list(EventReader(100).feed(stream))


def test_many_small_events_are_below_the_limit() -> None:
    assert len(list(EventReader(100).feed(b"data: 12345678\n\n" * 100))) == 100


def test_event_reader_returns_the_written_events() -> None:
    reader = EventReader(100)
    sent = write_event("", id="1", retry_ms=5) + b": still here\n\n" + write_event("{}", id="2")
    assert list(reader.feed(sent)) == [Event("", "1"), Event("{}", "2")]
    assert reader.retry_ms == 5
