"""Instrumentation hooks that the runtime calls, if it has an observer.

Nothing follows from them: an observer neither waits nor raises.  `taskmachine.adapters.telemetry`
is one, for OpenTelemetry.
"""

from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

import attrs

from taskmachine.adapters.stores import Totals
from taskmachine.protocol.jsonrpc import ErrorResponse, Request, ResultResponse
from taskmachine.statemachine import Call, Outcome, Task, TaskmachineError, Trace
from taskmachine.statemachine.lifecycle import Step

__all__ = ["Carrier", "LegEnd", "Observer", "Served"]

LegEnd = Outcome | Literal["parked", "lost"]
"""How one run of a tool ended: with an outcome, for questions, or since the task was not its own
any more."""


@attrs.frozen
class Carrier:
    """How the requests of a conversation come here."""

    transport: Literal["pipe", "tcp"] | None = None
    session: str | None = None
    """Names the session without being its id, which opens it."""


class Served(Protocol):
    """A request that is being answered.  One of `answered` and `abandoned` ends it."""

    def current(self) -> AbstractContextManager[object]:
        """What is done or begun in this block is done for the request."""

    def answered(self, answer: ResultResponse | ErrorResponse) -> None:
        """That was sent."""

    def abandoned(self) -> None:
        """Nobody waits for the answer any more."""


class Observer(Protocol):
    """One runtime's.  Every method is called on its event loop."""

    def began(self, tools: Container[str], store: str) -> None:
        """These are the names of the tools, and this is the kind of the store."""

    def requested(self, request: Request, *, revision: str, is_known: bool, by: Carrier) -> Served:
        """A request came in; whether its method is one of the revision's."""

    def trace(self, call: Call) -> Trace | None:
        """What a task for this call, which is about to be created, is to be known by."""

    def committed(self, steps: Sequence[Step]) -> None:
        """These steps of one task were committed here, now."""

    def refused(self, error: TaskmachineError) -> None:
        """A step was not taken, and nothing was changed."""

    def leg(self, task: Task) -> AbstractContextManager[Callable[[LegEnd], None]]:
        """A tool is run for a task in this block; to be told how that ended."""

    def raised(self, error: BaseException) -> None:
        """Something went wrong in what is current."""

    def swept(self, removed: int, seconds: float) -> None:
        """So many tasks were forgotten, and it took so long."""

    def dropped(self, count: int = 1) -> None:
        """So many notifications were dropped for somebody who does not read them."""

    def counted(self, totals: Totals) -> None:
        """So many tasks are in the store now, by whatever process."""
