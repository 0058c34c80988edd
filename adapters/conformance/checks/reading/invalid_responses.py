"""Deliberately invalid responses of the tester, and whether the target rejected or used them."""

import json
from collections.abc import Iterator
from typing import Any

from taskmachine.adapters.conformance.checks.reading.input_requests import (
    InputResponse,
    all_input_requests,
    all_input_responses,
)
from taskmachine.adapters.conformance.checks.reading.outcomes import (
    Outcome,
    outcome_of_call,
    outcome_of_task,
    sightings_of,
)
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, good

__all__ = ["is_sampling_result", "outcome_after", "rejected_or_used", "still_requested"]

LONG_ENOUGH = 12
"""Minimum length of a text whose presence in a result is not a coincidence."""


def rejected_or_used(history: History, reply: InputResponse, words: str) -> Iterator[Observation]:
    """Yield good if the target rejected an invalid response, bad if its content reached the result.

    Other outcomes are not judged: a tool may treat an unusable response as a refusal and continue.
    """
    asks_again = still_requested(history, reply)
    outcome = outcome_after(history, reply)
    if reply.exchange is not None and reply.exchange.error is not None:
        yield good(reply.exchange)
    elif asks_again is not None:
        yield good(reply.sent, asks_again)
    elif outcome is not None and outcome.kind != "success":
        yield good(reply.sent, outcome.where)
    elif outcome is not None and _is_echoed(reply.answer, outcome.result):
        yield bad(words, reply.request.where, reply.sent, outcome.where)


def outcome_after(history: History, reply: InputResponse) -> Outcome | None:
    """Return the outcome of the call or task that asked, if it received only this response."""
    request = reply.request
    if request.task_id is not None:
        answers = [
            other
            for other in all_input_responses(history)
            if other.request.task_id == request.task_id and other.sent is not reply.sent
        ]
        return None if answers else outcome_of_task(history, request.task_id, reply.sent)
    call = reply.exchange or _call_of(history, reply)
    return None if call is None else outcome_of_call(history, call)


def still_requested(history: History, reply: InputResponse) -> Entry | Exchange | Sighting | None:
    """Return where the target repeats the request after the response, or still lists it."""
    key, task_id = reply.request.key, reply.request.task_id
    if history.revision == "2025-11-25":
        later = (a for a in all_input_requests(history) if a.entry.number > reply.sent.number)
        return next((a.entry for a in later if task_id and a.task_id == task_id), None)
    if reply.exchange is not None and reply.exchange.fields.get("resultType") == "input_required":
        return reply.exchange
    if task_id is None or reply.exchange is None or reply.exchange.response is None:
        return None
    for sighting in sightings_of(history, task_id, reply.sent):
        exchange = sighting.exchange
        if exchange is None or exchange.request.number < reply.exchange.response.number:
            continue
        requests = sighting.task.get("inputRequests")
        if sighting.status == "input_required" and isinstance(requests, dict) and key in requests:
            return sighting
    return None


def _call_of(history: History, reply: InputResponse) -> Exchange | None:
    """Return the plain call on whose stream the request came (2025-11-25 over HTTP)."""
    post = reply.request.entry.post
    calls = history.calls("tools/call")
    return None if post is None else next((c for c in calls if c.request.post == post), None)


def _is_echoed(answer: Any, result: Any) -> bool:
    shown = json.dumps(result, ensure_ascii=False)
    return any(text in shown for text in _texts(answer) if len(text) >= LONG_ENOUGH)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            if name != "_meta":
                yield from _texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)


def is_sampling_result(answer: Any) -> bool:
    """Return whether the value has the required members of a sampling result."""
    if not isinstance(answer, dict):
        return False
    content = answer.get("content")
    blocks = content if isinstance(content, list) else [content]
    return (
        answer.get("role") in ("user", "assistant")
        and isinstance(answer.get("model"), str)
        and all(_is_block(block) for block in blocks)
    )


def _is_block(block: Any) -> bool:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    return block["type"] != "text" or isinstance(block.get("text"), str)
