"""What a context stands on: the task, or the plain call, for which its tool runs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from taskmachine.statemachine import Progress, Question, Reply

__all__ = ["ObserveStep", "Parked", "Work"]

ObserveStep = Callable[[str, bool], AbstractContextManager[object]]
"""Takes the key of a step, and whether an earlier run has recorded it."""


class Parked(BaseException):
    """Ends this run of the tool, which runs again with the answers, or at a time.

    Not an Exception, so that `except Exception` in a tool does not catch it.
    """

    def __init__(self, questions: Sequence[Question] = (), due_at: int | None = None) -> None:
        super().__init__("parked")
        self.questions = questions
        self.due_at = due_at


class Work(Protocol):
    """The task or plain call behind a context."""

    @property
    def task_id(self) -> str | None: ...

    @property
    def failures(self) -> int:
        """How many attempts have failed before this one."""

    @property
    def last_error(self) -> str | None:
        """What the last failed attempt raised."""

    @property
    def observe_step(self) -> ObserveStep | None:
        """Observes each step in a block around it, if there is an observer."""

    async def report(self, *, progress: Progress | None, message: str | None) -> None: ...

    async def ask(
        self, questions: Sequence[Question], *, park: bool, partial: bytes | None
    ) -> Mapping[str, Reply]: ...

    async def recorded(self) -> Sequence[bytes]:
        """Return everything that earlier runs have recorded, oldest first."""

    async def record(self, data: bytes) -> None:
        """Record data durably; `Gone` if the task has ended or was lost."""

    def now(self) -> int:
        """Return milliseconds since the epoch."""

    async def sleep(self, until: int) -> None:
        """Return once it is `until`, in this run or, having parked, in a later one."""
