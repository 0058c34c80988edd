"""Input that the target requested from the client, and the client's responses.

2025-11-25 uses JSON-RPC requests; 2026-07-28 uses `inputRequests` inside results.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.checks.reading.outcomes import creating_call
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import capabilities
from taskmachine.adapters.conformance.history import Entry, Exchange, History

__all__ = [
    "REQUIRED_CAPABILITY",
    "InputRequest",
    "InputResponse",
    "all_input_requests",
    "all_input_responses",
    "input_requests",
]

REQUIRED_CAPABILITY: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""Methods a target may request, and the client capability that each requires."""


@attrs.frozen(eq=False)
class InputRequest:
    """One request for input."""

    body: Mapping[str, Any]
    """Has `method` and `params`."""
    where: Entry | Exchange
    """The message that contains it."""
    declared: Mapping[str, Any] | None
    """The capabilities of the client; None if unknown."""
    task_id: str | None
    key: str | None
    """Key in `inputRequests` (2026-07-28); 2025-11-25 uses the JSON-RPC id of the entry."""

    @property
    def method(self) -> Any:
        return self.body.get("method")

    @property
    def params(self) -> Mapping[str, Any]:
        """Return the parameters; empty if they are missing or not an object."""
        params = self.body.get("params")
        return params if isinstance(params, dict) else {}

    @property
    def entry(self) -> Entry:
        """Return the entry in which it was received."""
        if isinstance(self.where, Entry):
            return self.where
        assert self.where.response is not None
        return self.where.response


@attrs.frozen(eq=False)
class InputResponse:
    """One response of the client to a request for input."""

    request: InputRequest
    answer: Any
    """Usually a result; may be any JSON type."""
    sent: Entry
    exchange: Exchange | None
    """The `tasks/update`, or the retried call (2026-07-28)."""


@lru_cache(maxsize=2)
def all_input_requests(history: History) -> tuple[InputRequest, ...]:
    """Return every request for input in the order received; repeated ones appear repeatedly."""
    if history.revision == "2025-11-25":
        return tuple(_requests(history))
    return tuple(sorted(_inputs(history), key=lambda request: request.entry.number))


def input_requests(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `inputRequests` of a result or task; empty if there are none."""
    requests = fields.get("inputRequests")
    return requests if isinstance(requests, dict) else {}


def _requests(history: History) -> Iterator[InputRequest]:
    declared = {
        exchange.request.line: exchange.params["capabilities"]
        for exchange in history.calls("initialize")
        if isinstance(exchange.params.get("capabilities"), dict)
    }
    for entry, _ in history.questions:
        task_id = entry.related_task
        id = task_id if isinstance(task_id, str) else None
        yield InputRequest(entry.body, entry, declared.get(entry.line), id, None)


def _inputs(history: History) -> Iterator[InputRequest]:
    for exchange in history.exchanges:
        if exchange.fields.get("resultType") == "input_required":
            for key, request in input_requests(exchange.fields).items():
                shown = request if isinstance(request, dict) else {}
                yield InputRequest(shown, exchange, capabilities(exchange), None, key)
    for sighting in history.sightings:
        for key, request in input_requests(sighting.task).items():
            if sighting.status == "input_required":
                id = sighting.id if isinstance(sighting.id, str) else None
                where = sighting.exchange or sighting.entry
                shown = request if isinstance(request, dict) else {}
                declared = _declared(history, id, sighting.entry, sighting.exchange)
                yield InputRequest(shown, where, declared, id, key)


def _declared(
    history: History, task_id: str | None, seen_by: Entry, exchange: Exchange | None
) -> Mapping[str, Any] | None:
    """Return the capabilities declared by the creating call and by the poll."""
    created = creating_call(history, task_id, seen_by)
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
def all_input_responses(history: History) -> tuple[InputResponse, ...]:
    """Return every response of the client to a request for input that was received before it."""
    if history.revision == "2025-11-25":
        answers = {entry.number: answer for entry, answer in history.questions}
        return tuple(
            InputResponse(request, answer.body.get("result"), answer, None)
            for request in all_input_requests(history)
            if (answer := answers.get(request.entry.number)) is not None
        )
    return tuple(_updates(history)) + tuple(_retries(history))


def _updates(history: History) -> Iterator[InputResponse]:
    requests = {
        (_place(history, a.entry), a.task_id, a.key): a
        for a in reversed(all_input_requests(history))
        if a.task_id is not None
    }
    for exchange in history.calls("tasks/update"):
        responses = exchange.params.get("inputResponses")
        if not isinstance(responses, dict) or not isinstance(exchange.task_id, str):
            continue
        for key, answer in responses.items():
            request = requests.get((_place(history, exchange.request), exchange.task_id, key))
            if request is not None and request.entry.number < exchange.request.number:
                yield InputResponse(request, answer, exchange.request, exchange)


def _place(history: History, entry: Entry) -> int | None:
    """Return the connection over stdio, where each process has its own ids."""
    return entry.line if history.transport == "stdio" else None


def _retries(history: History) -> Iterator[InputResponse]:
    for exchange in history.calls("tools/call"):
        responses = exchange.params.get("inputResponses")
        if not isinstance(responses, dict):
            continue
        for request in _requests_before(history, exchange):
            if request.key in responses:
                yield InputResponse(request, responses[request.key], exchange.request, exchange)


def _requests_before(history: History, retry: Exchange) -> list[InputRequest]:
    """Return the requests that a retry responds to: those sent with its `requestState`."""
    state = retry.params.get("requestState")
    return [
        request
        for request in all_input_requests(history)
        if request.task_id is None
        and isinstance(request.where, Exchange)
        and request.entry.number < retry.request.number
        and request.where.fields.get("requestState") == state
        and request.where.params.get("name") == retry.params.get("name")
        and request.where.request.caller == retry.request.caller
    ]
