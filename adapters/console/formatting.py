"""Format the contents of tasks as text that is short enough for a page."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from taskmachine.adapters.rendering.diagram import render_path
from taskmachine.adapters.rendering.recorded import Recorded, read_record
from taskmachine.adapters.rendering.values import read_value
from taskmachine.statemachine import Entry, Event, Outcome, Progress, Task

__all__ = [
    "Block",
    "Moment",
    "cut",
    "outcome_blocks",
    "path",
    "percent",
    "pretty",
    "timeline",
]

MOST_CHARS: Final = 20_000
"""Maximum length of a value on a page; `taskmachine tasks show --json` shows all of it."""

MOST_BLOCKS: Final = 50
"""Maximum number of content blocks of a result on a page."""

MOST_IMAGE: Final = 2_000_000

MOST_MOMENTS: Final = 300
"""Maximum number of history entries on a page; the latest are shown."""

_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def cut(text: str, most: int = MOST_CHARS) -> str:
    """Return the text, or its beginning and the number of characters left out."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n… and {len(text) - most:,} more characters"


def pretty(encoded: bytes | None) -> str:
    """Return indented JSON."""
    return _indented(read_value(encoded))


def _indented(value: Any) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))


def percent(progress: Progress) -> int | None:
    """Return the progress in percent, or None without a total."""
    if not progress.total or progress.total < 0:
        return None
    return round(100 * min(1.0, max(0.0, progress.value / progress.total)))


# --- outcome ---------------------------------------------------------------------------------


@attrs.frozen
class Block:
    """A part of a result: `kind` is text, json or image."""

    kind: str
    text: str


def outcome_blocks(outcome: Outcome) -> Sequence[Block]:
    """Return the blocks of a task's outcome."""
    if outcome.result is not None:
        return list(_blocks(read_value(outcome.result)))
    blocks = [Block("text", cut(outcome.message))] if outcome.message else []
    if outcome.data is not None:
        blocks.append(Block("json", pretty(outcome.data)))
    return blocks


def _blocks(result: Any) -> Iterator[Block]:
    match result:
        case {"content": [*contents], **more}:
            yield from (_block(content) for content in contents[:MOST_BLOCKS])
            if len(contents) > MOST_BLOCKS:
                yield Block("text", f"… and {len(contents) - MOST_BLOCKS:,} more blocks")
            more.pop("isError", None)
            structured = more.pop("structuredContent", None)
            texts = [content.get("text") for content in contents if isinstance(content, dict)]
            if structured and [structured] != [{"result": text} for text in texts]:
                yield Block("json", _indented(structured))
            if more:
                yield Block("json", _indented(more))
        case _:
            yield Block("json", _indented(result))


def _block(content: Any) -> Block:
    match content:
        case {"type": "text", "text": str(text)}:
            return Block("text", cut(text))
        case {"type": "image", "data": str(data), "mimeType": str(kind)} if (
            kind in _IMAGES and len(data) <= MOST_IMAGE and _BASE64.fullmatch(data)
        ):
            return Block("image", f"data:{kind};base64,{data}")
        case _:
            return Block("json", _indented(content))


# --- history ---------------------------------------------------------------------------------


@attrs.frozen
class Moment:
    """An entry of the timeline; consecutive reports are combined."""

    at: int
    event: str
    dest: str
    note: str | None
    count: int = 1
    data: bytes | None = None

    @property
    def recorded(self) -> Recorded | None:
        """What the tool recorded, decoded only for a page that shows it."""
        return None if self.data is None else read_record(self.data)


def timeline(entries: Sequence[Entry]) -> list[Moment]:
    """Return the timeline, latest first."""
    moments: list[Moment] = []
    for entry in entries:
        note = None if entry.note is None else cut(entry.note, 500)
        this = Moment(entry.at, entry.event.value, entry.dest.value, note, data=entry.data)
        last = moments[-1] if moments else this
        is_report = entry.event is Event.REPORT and entry.data is None and last.data is None
        if moments and is_report and last.event == this.event:
            this = attrs.evolve(this, note=note or last.note, count=last.count + 1)
            moments.pop()
        moments.append(this)
    return moments[: -MOST_MOMENTS - 1 : -1]


def path(task: Task, entries: Sequence[Entry]) -> str:
    """Return an SVG of a task's path through the table, without text of callers."""
    return render_path({(entry.source.value, entry.dest.value) for entry in entries}, task.state)
