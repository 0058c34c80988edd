"""What a process says once it was told something, and all that was gathered from many of them.

Times are of the monotonic clock, which all processes of one machine share.
"""

import time
from collections import Counter
from collections.abc import Sequence

import attrs
import msgspec

from taskmachine.statemachine import Entry, Task

__all__ = [
    "Answered",
    "Began",
    "Evidence",
    "Failed",
    "Line",
    "Made",
    "Ran",
    "Seen",
    "Settled",
    "read",
    "see",
]


class Line(msgspec.Struct, frozen=True, tag=True):
    """One line on the pipe."""


class Began(Line, frozen=True):
    """The runtime is up."""


class Made(Line, frozen=True):
    """A create was acknowledged."""

    task_id: str
    owner: str
    key: str | None


class Seen(Line, frozen=True):
    """A caller was shown a version.  It had not been overtaken before `since`."""

    since: int
    until: int
    task_id: str
    owner: str
    version: int
    state: str
    outcome: bytes | None
    questions: dict[str, tuple[bytes, bytes | None]]
    """By key: the request, and the answer."""


class Answered(Line, frozen=True):
    """An answer was accepted."""

    task_id: str
    key: str
    body: bytes


class Ran(Line, frozen=True):
    """The work of a tool that must not be repeated was begun."""

    task_id: str


class Settled(Line, frozen=True):
    """Nothing is left to do."""


class Failed(Line, frozen=True):
    """What it did wrong, said by whoever buried it."""

    why: str


_decoder = msgspec.json.Decoder(Began | Made | Seen | Answered | Ran | Settled)


def read(line: bytes) -> Line:
    """A line from the pipe."""
    said: Line = _decoder.decode(line)
    return said


def see(task: Task, since: int) -> Seen:
    """What there is to see of a task that was asked for at `since` and came just now."""
    return Seen(
        since,
        time.monotonic_ns(),
        task.id,
        task.owner,
        task.version,
        task.state,
        None if task.outcome is None else msgspec.json.encode(task.outcome),
        {
            question.key: (
                f"{question.method} ".encode() + question.params,
                None if question.answer is None else question.answer.body,
            )
            for question in task.questions
        },
    )


@attrs.define
class Evidence:
    """Of one store: what processes said while it was in use, and what is in it in the end."""

    made: dict[str, Made] = attrs.field(factory=dict)
    keys: dict[tuple[str, str], set[str]] = attrs.field(factory=dict)
    seen: list[Seen] = attrs.field(factory=list)
    answered: list[Answered] = attrs.field(factory=list)
    ran: Counter[str] = attrs.field(factory=Counter)
    missing: list[Made] = attrs.field(factory=list)
    """Acknowledged, and not there when somebody looked."""
    histories: dict[str, Sequence[Entry]] = attrs.field(factory=dict)
    """As they were at some time."""
    tasks: dict[str, Task] = attrs.field(factory=dict)
    """In the end, with their whole histories."""
    entries: dict[str, Sequence[Entry]] = attrs.field(factory=dict)
    workers: int = 0
    complaints: list[str] = attrs.field(factory=list)
    """Of processes, of the store's own check, and of waiting in vain."""

    def add(self, line: Line) -> None:
        """Sort a line to the others of its kind."""
        match line:
            case Made():
                self.made[line.task_id] = line
                if line.key is not None:
                    self.keys.setdefault((line.owner, line.key), set()).add(line.task_id)
            case Seen():
                self.seen.append(line)
            case Answered():
                self.answered.append(line)
            case Ran():
                self.ran[line.task_id] += 1
            case Failed():
                self.complaints.append(line.why)
            case _:
                pass
