"""What a tool has recorded, a step or a sleep, as operators and owners see it."""

from typing import Final

import attrs

from taskmachine.adapters.rendering.values import moment_text, read_value
from taskmachine.adapters.rendering.wording import counted
from taskmachine.protocol.jsonvalue import JSONObject, encode_json

__all__ = ["Recorded", "read_record"]

MOST_CHARS: Final = 200
"""Maximum length of a result: it may have 256 kB, and a task a thousand of them."""


@attrs.frozen
class Recorded:
    """A recorded step or sleep."""

    kind: str
    key: str
    size: int
    """Bytes of the whole result."""
    result: str
    """The result as JSON, or its beginning; of a sleep the time of its end."""

    @property
    def note(self) -> str:
        """What it came to: `11 bytes: {"pages":3}`, or `until ...`."""
        if self.kind == "sleep":
            return f"until {self.result}"
        return f"{counted(self.size, 'byte')}: {self.result}"

    @property
    def words(self) -> str:
        """Its key and note, as in `nap until ...`."""
        return f"{self.key}{'' if self.kind == 'sleep' else ','} {self.note}"

    @property
    def document(self) -> JSONObject:
        return attrs.asdict(self)


def read_record(data: bytes) -> Recorded:
    """Decode the data of a history entry.  Data of another form is a `record` without a key."""
    match read_value(data):
        case {"kind": "sleep", "key": str(key), "result": int(until)}:
            return Recorded("sleep", key, len(str(until)), f"{moment_text(until)} UTC")
        case {"kind": str(kind), "key": str(key), "result": result}:
            return _shortened(kind, key, encode_json(result))
        case _:
            return _shortened("record", "", data)


def _shortened(kind: str, key: str, result: bytes) -> Recorded:
    text = result.decode(errors="backslashreplace")
    shown = text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"
    return Recorded(kind, key, len(result), shown)
