"""What a tool has recorded, a step or a sleep, as operators and owners see it."""

from typing import Final

import attrs
import msgspec

from taskmachine.adapters.rendering.values import moment_text
from taskmachine.adapters.rendering.wording import counted
from taskmachine.protocol.jsonvalue import JSONObject

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


class _Record(msgspec.Struct):
    kind: str
    key: str
    result: msgspec.Raw
    """Not decoded: a page shows hundreds of records, of which it needs the beginning."""


_DECODER: Final = msgspec.json.Decoder(_Record)


def read_record(data: bytes) -> Recorded:
    """Decode the data of a history entry.  Data of another form is a `record` without a key."""
    try:
        record = _DECODER.decode(data)
    except ValueError:
        record = _Record("record", "", msgspec.Raw(data))
    result = bytes(record.result)
    if record.kind == "sleep" and result.isdigit():
        shown = f"{moment_text(int(result))} UTC"
    else:
        shown = result[: 4 * MOST_CHARS + 4].decode(errors="backslashreplace")
        if len(shown) > MOST_CHARS:
            shown = f"{shown[:MOST_CHARS]}…"
    return Recorded(record.kind, record.key, len(result), shown)
