"""Delivery of questions in 2025-11-25: which question is in flight on which stream and id.

A question is sent to a requestor that waits for the result of its task or has just read the task;
until then it is kept.  It is in flight on one stream at a time, and is sent again under a new id
only after that stream has closed.  An answer under any of its ids counts; the task record decides
which came first.  Sealed ids are recognised on other connections and processes, too.
"""

from collections.abc import Callable, Sequence

import attrs

from taskmachine.protocol.jsonrpc import Id
from taskmachine.statemachine import Question, Task

__all__ = ["Delivery", "SideChannel"]


@attrs.frozen
class Delivery:
    """A question that was sent."""

    id: Id
    task_id: str
    key: str
    stream: Id | None


def _no_place(_: Id) -> None:
    """Identify nothing, for ids without content."""


class SideChannel:
    """The questions of one connection.

    `new_id` makes a unique request id for a task and a question key; `place_of` reads task and
    key from an id that another process made.
    """

    def __init__(
        self,
        new_id: Callable[[str, str], Id],
        place_of: Callable[[Id], tuple[str, str] | None] = _no_place,
    ) -> None:
        self._new_id = new_id
        self._place_of = place_of
        self._sent: dict[Id, Delivery] = {}
        self._in_flight: dict[tuple[str, str], Delivery] = {}
        # They stay in flight until the record has the answer; otherwise they would be sent again.
        self._answered: set[Id] = set()

    def offer(self, task: Task, streams: Sequence[Id | None]) -> list[tuple[Delivery, Question]]:
        """Assign every open question that is not in flight to the first of these streams."""
        offered = []
        for question in task.open_questions if streams else ():
            if (task.id, question.key) not in self._in_flight:
                id = self._new_id(task.id, question.key)
                delivery = Delivery(id, task.id, question.key, streams[0])
                self._sent[delivery.id] = delivery
                self._in_flight[task.id, question.key] = delivery
                offered.append((delivery, question))
        return offered

    def close(self, stream: Id | None) -> None:
        """Allow questions that were in flight on that stream to be sent again."""
        for place, delivery in list(self._in_flight.items()):
            if delivery.stream == stream and delivery.id not in self._answered:
                del self._in_flight[place]

    def take(self, id: Id) -> Delivery | None:
        """Return the question that an answer belongs to; None if unknown or already answered."""
        delivery = self._sent.pop(id, None)
        if delivery is None:
            place = self._place_of(id)
            return None if place is None else Delivery(id, *place, None)
        if self._in_flight.get((delivery.task_id, delivery.key)) == delivery:
            self._answered.add(id)
        return delivery

    def withdraw(self, task_id: str, task: Task | None) -> list[Delivery]:
        """Return questions in flight that are no longer open; `task` is None if it was removed."""
        still_open = {question.key for question in task.open_questions} if task else set()
        settled = [
            delivery
            for delivery in self._in_flight.values()
            if delivery.task_id == task_id and delivery.key not in still_open
        ]
        stale = [delivery for delivery in settled if delivery.id not in self._answered]
        for delivery in settled:
            del self._in_flight[task_id, delivery.key]
            self._sent.pop(delivery.id, None)
            self._answered.discard(delivery.id)
        if task is None or not task.is_live:  # it accepts no more answers
            self._sent = {id: sent for id, sent in self._sent.items() if sent.task_id != task_id}
        return stale
