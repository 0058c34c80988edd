"""What a target asked of us, and what we answered: as requests, or inside of results."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.checks.reading.outcomes import maker
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import capabilities
from taskmachine.adapters.conformance.history import Entry, Exchange, History

__all__ = ["KINDS", "Asked", "Told", "all_asked", "all_told", "input_requests"]

KINDS: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""What a target may ask, and the capability that allows it."""


@attrs.frozen(eq=False)
class Asked:
    """One question."""

    request: Mapping[str, Any]
    """With `method` and `params`."""
    where: Entry | Exchange
    """What shows it."""
    declared: Mapping[str, Any] | None
    """What the client could do; None if that is not known."""
    task_id: str | None
    key: str | None
    """Of 2026-07-28; the id of the JSON-RPC request is in the entry."""

    @property
    def method(self) -> Any:
        """What is asked."""
        return self.request.get("method")

    @property
    def params(self) -> Mapping[str, Any]:
        """How it is asked."""
        params = self.request.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def entry(self) -> Entry:
        """Where it was heard."""
        if isinstance(self.where, Entry):
            return self.where
        assert self.where.response is not None
        return self.where.response


@attrs.frozen(eq=False)
class Told:
    """One answer of ours to a question."""

    asked: Asked
    answer: Any
    """Usually a result; of any JSON type."""
    sent: Entry
    exchange: Exchange | None
    """Of 2026-07-28: the `tasks/update`, or the call that was tried again."""


@lru_cache(maxsize=2)
def all_asked(history: History) -> tuple[Asked, ...]:
    """Every question, in the order it was heard; one that is shown twice comes twice."""
    if history.revision == "2025-11-25":
        return tuple(_requests(history))
    return tuple(sorted(_inputs(history), key=lambda asked: asked.entry.number))


def input_requests(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The map of questions in a result or a task; empty if there is none."""
    requests = fields.get("inputRequests")
    return requests if isinstance(requests, dict) else {}


def _requests(history: History) -> Iterator[Asked]:
    declared = {
        exchange.request.line: exchange.params["capabilities"]
        for exchange in history.calls("initialize")
        if isinstance(exchange.params.get("capabilities"), dict)
    }
    for entry, _ in history.questions:
        task_id = entry.related_task
        id = task_id if isinstance(task_id, str) else None
        yield Asked(entry.body, entry, declared.get(entry.line), id, None)


def _inputs(history: History) -> Iterator[Asked]:
    for exchange in history.exchanges:
        if exchange.fields.get("resultType") == "input_required":
            for key, request in input_requests(exchange.fields).items():
                shown = request if isinstance(request, dict) else {}
                yield Asked(shown, exchange, capabilities(exchange), None, key)
    for sighting in history.sightings:
        for key, request in input_requests(sighting.task).items():
            if sighting.status == "input_required":
                id = sighting.id if isinstance(sighting.id, str) else None
                where = sighting.exchange or sighting.entry
                shown = request if isinstance(request, dict) else {}
                declared = _declared(history, id, sighting.entry, sighting.exchange)
                yield Asked(shown, where, declared, id, key)


def _declared(
    history: History, task_id: str | None, seen_by: Entry, exchange: Exchange | None
) -> Mapping[str, Any] | None:
    """What the call that made the task declared, or the one that looks at it."""
    created = maker(history, task_id, seen_by)
    if created is None:
        return None
    return _union(capabilities(created), {} if exchange is None else capabilities(exchange))


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**one, **other}
    for key in one.keys() & other.keys():
        if isinstance(one[key], dict) and isinstance(other[key], dict):
            joined[key] = _union(one[key], other[key])
    return joined


@lru_cache(maxsize=2)
def all_told(history: History) -> tuple[Told, ...]:
    """Every answer of ours to a question that was heard before."""
    if history.revision == "2025-11-25":
        answers = {entry.number: answer for entry, answer in history.questions}
        return tuple(
            Told(asked, answer.body.get("result"), answer, None)
            for asked in all_asked(history)
            if (answer := answers.get(asked.entry.number)) is not None
        )
    return tuple(_updates(history)) + tuple(_retries(history))


def _updates(history: History) -> Iterator[Told]:
    asked = {
        (_place(history, a.entry), a.task_id, a.key): a
        for a in reversed(all_asked(history))
        if a.task_id is not None
    }
    for exchange in history.calls("tasks/update"):
        responses = exchange.params.get("inputResponses")
        if not isinstance(responses, dict) or not isinstance(exchange.task_id, str):
            continue
        for key, answer in responses.items():
            question = asked.get((_place(history, exchange.request), exchange.task_id, key))
            if question is not None and question.entry.number < exchange.request.number:
                yield Told(question, answer, exchange.request, exchange)


def _place(history: History, entry: Entry) -> int | None:
    """Over pipes each line is a process, with ids of its own."""
    return entry.line if history.transport == "stdio" else None


def _retries(history: History) -> Iterator[Told]:
    for exchange in history.calls("tools/call"):
        responses = exchange.params.get("inputResponses")
        if not isinstance(responses, dict):
            continue
        for asked in _asked_before(history, exchange):
            if asked.key in responses:
                yield Told(asked, responses[asked.key], exchange.request, exchange)


def _asked_before(history: History, retry: Exchange) -> list[Asked]:
    """The questions that a retry answers: those that came with its state."""
    state = retry.params.get("requestState")
    return [
        asked
        for asked in all_asked(history)
        if asked.task_id is None
        and isinstance(asked.where, Exchange)
        and asked.entry.number < retry.request.number
        and asked.where.fields.get("requestState") == state
        and asked.where.params.get("name") == retry.params.get("name")
        and asked.where.request.caller == retry.request.caller
    ]
