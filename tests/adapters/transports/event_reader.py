"""A reader of server-sent events by the HTML standard, independent of the writer."""

import re

import attrs

__all__ = ["Event", "read_events"]


@attrs.frozen
class Event:
    name: str
    data: str
    id: str


def read_events(stream: bytes) -> list[Event]:
    """Return the events that a browser would dispatch; unfinished ones are left out."""
    events: list[Event] = []
    data: list[str] = []
    name = last_id = ""
    text = stream.decode().removeprefix("\ufeff")
    lines = re.split("\r\n|\r|\n", text)
    for line in lines[:-1]:
        if line == "":
            if data:
                events.append(Event(name or "message", "\n".join(data), last_id))
            name, data = "", []
            continue
        field, colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if colon and field == "":
            continue
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id" and "\0" not in value:
            last_id = value
    return events
