"""Questions of 2025-11-25 on their way: which one is in flight on which stream, under which id.

A question is sent to whoever waits for the result of its task or has just looked at it, and is
kept until somebody does.  It is in flight on one stream at a time, and is sent again, under a new
id, only after that stream is gone.  An answer under any id it was ever sent under counts; the
record decides which came first.  Where ids say what they are for, that holds beyond this
conversation, too.
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
    """For ids that say nothing."""


class SideChannel:
    """The questions of one conversation.

    `new_id` makes the id of a request, never the same twice, for a task and a key; `place_of`
    reads both from an id that was made elsewhere.
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
        # Still in flight until the record has the answer, or it would be asked again meanwhile.
        self._answered: set[Id] = set()

    def offer(self, task: Task, streams: Sequence[Id | None]) -> list[tuple[Delivery, Question]]:
        """Put every open question that is not in flight on the first of these streams."""
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
        """What was in flight on that stream may be sent again."""
        for place, delivery in list(self._in_flight.items()):
            if delivery.stream == stream and delivery.id not in self._answered:
                del self._in_flight[place]

    def take(self, id: Id) -> Delivery | None:
        """Which question an answer is for; None if none was sent under this id, or it was taken."""
        delivery = self._sent.pop(id, None)
        if delivery is None:
            place = self._place_of(id)
            return None if place is None else Delivery(id, *place, None)
        if self._in_flight.get((delivery.task_id, delivery.key)) == delivery:
            self._answered.add(id)
        return delivery

    def withdraw(self, task_id: str, task: Task | None) -> list[Delivery]:
        """What is in flight and no longer open: answered elsewhere, withdrawn, or gone (None)."""
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
        if task is None or not task.is_live:  # no answer can count any more
            self._sent = {id: sent for id, sent in self._sent.items() if sent.task_id != task_id}
        return stale
