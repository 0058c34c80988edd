"""Server-sent events, read back by the HTML standard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.adapters.transports.http.sse import comment, event
from tests.adapters.transports.event_reader import Event, read_events

one_line = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1)


@given(st.text("ab:\r\n \u2028") | st.text(), st.none() | one_line, st.none() | one_line)
def test_written_events_are_read_back(data: str, id: str | None, name: str | None) -> None:
    written = event(data.encode(), id=id, event=name) + event(b"next")
    lines = data.replace("\r\n", "\n").replace("\r", "\n")
    expected = Event(name or "message", lines, id or "")
    assert read_events(written) == [expected, Event("message", "next", id or "")]


def test_event_encoder_writes_the_expected_bytes() -> None:
    assert event(b"{}", id="7", event="task", retry=500) == (
        b"id: 7\nevent: task\nretry: 500\ndata: {}\n\n"
    )


def test_an_event_without_data_is_one_that_carries_an_id() -> None:
    """2025-11-25: it primes a stream."""
    assert event(b"", id="0") == b"id: 0\ndata: \n\n"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n")))
def test_readers_skip_comments(text: str) -> None:
    assert comment(text).startswith(b":")
    assert read_events(comment(text) + event(b"x") + comment()) == [Event("message", "x", "")]


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "\r\n"])
def test_line_ends_in_ids_and_names_are_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="id must be on one line"):
        event(b"", id=bad)
    with pytest.raises(ValueError, match="event must be on one line"):
        event(b"", event=bad)
    with pytest.raises(ValueError, match="comment must be on one line"):
        comment(bad)


def test_an_id_that_readers_ignore_is_refused() -> None:
    with pytest.raises(ValueError, match="id"):
        event(b"", id="a\0b")
