"""The messages of the processes, and the evidence collected from them and from the store.

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
    "Kept",
    "Line",
    "Made",
    "Observation",
    "Ran",
    "Settled",
    "Stepped",
    "observation_of",
    "read",
]


class Line(msgspec.Struct, frozen=True, tag=True):
    """A message on the pipe: one line of JSON."""


class Began(Line, frozen=True):
    """The runtime is up."""


class Made(Line, frozen=True):
    """A create was acknowledged."""

    task_id: str
    owner: str
    key: str | None


class Observation(Line, frozen=True):
    """A caller observed a version, which was still current at `since`."""

    since: int
    until: int
    task_id: str
    owner: str
    version: int
    state: str
    outcome: bytes | None
    questions: dict[str, tuple[bytes, bytes | None]]
    """The request and the answer of each question, by key."""


class Answered(Line, frozen=True):
    """An answer was accepted."""

    task_id: str
    key: str
    body: bytes


class Ran(Line, frozen=True):
    """A tool that must not be repeated started its work."""

    task_id: str


class Stepped(Line, frozen=True):
    """A run called the function of a step, which syncs this line to a file."""

    at: int
    task_id: str
    key: str
    run: str
    result: str


class Kept(Line, frozen=True):
    """A run got the result of a step, which is recorded."""

    at: int
    task_id: str
    key: str
    run: str
    result: str


class Settled(Line, frozen=True):
    """No work is left."""


class Failed(Line, frozen=True):
    """The process ended with a wrong status; the campaign adds this."""

    why: str


_decoder = msgspec.json.Decoder(
    Began | Made | Observation | Answered | Ran | Stepped | Kept | Settled
)


def read(line: bytes) -> Line:
    """Decode a message."""
    message: Line = _decoder.decode(line)
    return message


def observation_of(task: Task, since: int) -> Observation:
    """Return the observation of a task that was requested at `since` and received now."""
    return Observation(
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
    """Messages of all processes on one store, and the final content of the store."""

    made: dict[str, Made] = attrs.field(factory=dict)
    keys: dict[tuple[str, str], set[str]] = attrs.field(factory=dict)
    observations: list[Observation] = attrs.field(factory=list)
    answered: list[Answered] = attrs.field(factory=list)
    ran: Counter[str] = attrs.field(factory=Counter)
    stepped: list[Stepped] = attrs.field(factory=list)
    kept: list[Kept] = attrs.field(factory=list)
    missing: list[Made] = attrs.field(factory=list)
    """Acknowledged tasks that were not in the store."""
    histories: dict[str, Sequence[Entry]] = attrs.field(factory=dict)
    """Histories as read after a kill."""
    tasks: dict[str, Task] = attrs.field(factory=dict)
    """Tasks at the end; `entries` has their histories."""
    entries: dict[str, Sequence[Entry]] = attrs.field(factory=dict)
    workers: int = 0
    complaints: list[str] = attrs.field(factory=list)
    """Failures of processes and of the store's own check, and exceeded bounds."""

    def add(self, line: Line) -> None:
        """Record a message."""
        match line:
            case Made():
                self.made[line.task_id] = line
                if line.key is not None:
                    self.keys.setdefault((line.owner, line.key), set()).add(line.task_id)
            case Observation():
                self.observations.append(line)
            case Answered():
                self.answered.append(line)
            case Ran():
                self.ran[line.task_id] += 1
            case Stepped():
                self.stepped.append(line)
            case Kept():
                self.kept.append(line)
            case Failed():
                self.complaints.append(line.why)
            case _:
                pass
