"""Instrumentation hooks that the runtime calls if it has an observer.

Hooks must neither block nor raise.  `taskmachine.adapters.telemetry` implements them for
OpenTelemetry.
"""

from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

import attrs

from taskmachine.adapters.stores import Totals
from taskmachine.protocol.jsonrpc import ErrorResponse, Request, ResultResponse
from taskmachine.statemachine import Call, Outcome, Task, TaskmachineError, Trace
from taskmachine.statemachine.lifecycle import Step

__all__ = ["Carrier", "Observer", "RunEnd", "Served"]

RunEnd = Outcome | Literal["parked", "retried", "lost"]
"""How a tool run ended: with an outcome, parked, to be retried, or because its task was lost."""


@attrs.frozen
class Carrier:
    """The transport and session of a connection."""

    transport: Literal["pipe", "tcp"] | None = None
    session: str | None = None
    """A pseudonym of the session; its id is a secret."""


class Served(Protocol):
    """A request in progress.  Either `answered` or `abandoned` ends it."""

    def current(self) -> AbstractContextManager[object]:
        """Attribute the work that is done or started in this block to the request."""

    def answered(self, answer: ResultResponse | ErrorResponse) -> None:
        """Record that the response was sent."""

    def abandoned(self) -> None:
        """Record that the client no longer waits for the response."""


class Observer(Protocol):
    """The observer of one runtime, which calls every method on its event loop."""

    def began(self, tools: Container[str], store: str) -> None:
        """Record the names of the tools and the kind of the store at startup."""

    def requested(self, request: Request, *, revision: str, is_known: bool, by: Carrier) -> Served:
        """Record a request; `is_known` if the revision defines its method."""

    def trace(self, call: Call) -> Trace | None:
        """Return the trace context to store in a task that is about to be created."""

    def committed(self, steps: Sequence[Step]) -> None:
        """Record steps of one task that this process has just committed."""

    def refused(self, error: TaskmachineError) -> None:
        """Record an operation that was refused and changed nothing."""

    def tool_run(self, task: Task) -> AbstractContextManager[Callable[[RunEnd], None]]:
        """Record the tool run in this block; the runtime calls the yielded function at its end."""

    def step(self, task: Task, key: str, is_recorded: bool) -> AbstractContextManager[object]:
        """Record a step of a tool, which is called and recorded in this block.

        With `is_recorded` an earlier run has done that, and the block only reads the result.
        """

    def raised(self, error: BaseException) -> None:
        """Record an unexpected error in the current request or tool run."""

    def swept(self, removed: int, seconds: float) -> None:
        """Record the number of tasks that a sweep removed, and its duration."""

    def dropped(self, count: int = 1) -> None:
        """Record notifications that were dropped for a client that does not read them."""

    def lost_notification(self) -> None:
        """Record a waiter that no notification woke: it found the version by reading again."""

    def counted(self, totals: Totals) -> None:
        """Record the number of tasks in the store, from all processes."""
