"""Checks of input requests of tasks, and of `tasks/update` (2026-07-28, tasks extension)."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import jsonschema_rs

from taskmachine.adapters.conformance.checks.reading.input_requests import input_requests
from taskmachine.adapters.conformance.checks.reading.order import SOON_MS
from taskmachine.adapters.conformance.checks.reading.task_rules import TaskRecord, task_records
from taskmachine.adapters.conformance.checks.reading.tasks_2026_07_28 import (
    answered,
    can_show,
    expires_at,
    input_responses,
    is_acknowledged,
    is_throttled_or_denied,
    modern,
    requests_about,
    was_cancelled,
)
from taskmachine.adapters.conformance.history import Exchange, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, warning

__all__: list[str] = []

_LETTERS: Final = 8
"""Minimum length of a word whose presence in a result is not a coincidence."""


def _same_request(one: Any, other: Any) -> bool:
    return bool(_without_meta(one) == _without_meta(other))


def _without_meta(request: Any) -> Any:
    params = request.get("params") if isinstance(request, dict) else None
    if not isinstance(params, dict):
        return request
    return {**request, "params": {k: v for k, v in params.items() if k != "_meta"}}


def _keys(record: TaskRecord) -> dict[str, Sighting]:
    """Return all keys that a task ever used, each with its first sighting."""
    first: dict[str, Sighting] = {}
    for sighting in record.sightings:
        for key in input_requests(sighting.task):
            first.setdefault(key, sighting)
    return first


def _updates(history: History, record: TaskRecord, key: str | None = None) -> list[Exchange]:
    """Return the `tasks/update` requests of a task, optionally those with one key."""
    sent = requests_about(history, record, "tasks/update")
    return [update for update in sent if key is None or key in input_responses(update)]


def _asked_after(sighting: Sighting, update: Exchange) -> bool:
    """Return whether the state was requested after the acknowledgement arrived."""
    if sighting.exchange is None or update.response is None:
        return False
    return sighting.exchange.request.number > update.response.number


# --- keys ----------------------------------------------------------------------------------------


@check(
    "2026-07-28:key-not-two-requests",
    needs="a task that requests input and is read twice meanwhile",
)
def key_identifies_one_request(history: History) -> Iterator[Observation]:
    """Check that a key identifies the same input request wherever it is shown."""
    for record in task_records(modern(history)):
        first = _keys(record)
        for sighting in record.sightings:
            for key, request in input_requests(sighting.task).items():
                earlier = first[key]
                if earlier is sighting:
                    continue
                if _same_request(input_requests(earlier.task)[key], request):
                    yield good(earlier, sighting)
                else:
                    words = f"the key {key!r} identified two different input requests"
                    yield bad(words, earlier, sighting)


@check(
    "2026-07-28:key-not-reused-after-answer",
    needs="a task that requests input and continues after the response",
)
def key_is_not_used_again(history: History) -> Iterator[Observation]:
    """Check that a key does not return after its response was acknowledged and it disappeared."""
    for record in task_records(modern(history)):
        for key, first in _keys(record).items():
            request = input_requests(first.task)[key]
            for update in _updates(history, record, key):
                if is_acknowledged(update):
                    yield from _reuse(record, key, request, update)


def _reuse(record: TaskRecord, key: str, request: Any, update: Exchange) -> Iterator[Observation]:
    later = [s for s in record.sightings if _asked_after(s, update) and s.where == "get"]
    gone = next((s for s in later if _is_without(s, key, request)), None)
    if gone is None:
        return
    back = next((s for s in later if gone.precedes(s) and key in input_requests(s.task)), None)
    if back is None:
        yield good(update, gone)
    else:
        words = f"the target reused the key {key!r} after the client had responded to it"
        yield bad(words, update, gone, back)


def _is_without(sighting: Sighting, key: str, request: Any) -> bool:
    """Return whether the input request is certainly not open in that state."""
    is_over = sighting.status != "input_required"
    return key not in input_requests(sighting.task) and (is_over or can_show(sighting, request))


@check("2026-07-28:keys-unique-for-life", needs="a task that requests input")
def keys_are_unique(history: History) -> Iterator[Observation]:
    """Check that each key identifies one input request during the whole life of a task."""
    yield from key_identifies_one_request(history)
    yield from key_is_not_used_again(history)


@check(
    "2026-07-28:key-scope-is-task", needs="a call that requests input with the same key as its task"
)
def key_of_the_call_may_come_again(history: History) -> Iterator[Observation]:
    """Record tasks that use a key of the call that created them, which is allowed."""
    found = modern(history)
    for record in task_records(found):
        made = found.created.get(record.id)
        earlier = {} if made is None else input_responses(made)
        if made is not None and earlier.keys() & _keys(record).keys():
            yield good(made, record.sightings[-1])


# --- polling --------------------------------------------------------------------------------------


@check(
    "2026-07-28:input-requests-complete",
    "2026-07-28:questions-repeated-until-answered",
    needs="a task that requests input and is read twice before the response",
)
def open_requests_are_shown(history: History) -> Iterator[Observation]:
    """Check that an input request is shown in every poll until the client responds.

    A request that disappears may have been withdrawn; one that returns was open all the time.
    """
    for record in task_records(modern(history)):
        for key, first in _keys(record).items():
            request = input_requests(first.task)[key]
            sent = _updates(history, record, key)
            stop = min((u.request.number for u in sent), default=None)
            seen = [
                s
                for s in record.sightings
                if s.where == "get"
                and s.status == "input_required"
                and (stop is None or s.entry.number < stop)
            ]
            yield from _omissions(key, request, seen)


def _omissions(key: str, request: Any, seen: list[Sighting]) -> Iterator[Observation]:
    shown = [s for s in seen if key in input_requests(s.task)]
    for earlier, later in pairwise(shown):
        if not earlier.precedes(later):
            continue
        between = [
            s
            for s in seen
            if earlier.precedes(s) and s.precedes(later) and _is_without(s, key, request)
        ]
        if between:
            yield bad(f"a poll omitted the open input request {key!r}", earlier, between[0], later)
        elif _same_request(input_requests(earlier.task)[key], input_requests(later.task)[key]):
            yield good(earlier, later)


# --- tasks/update --------------------------------------------------------------------------------


@check("2026-07-28:questions-answered-by-update", needs="a task that requests input")
def responses_are_accepted(history: History) -> Iterator[Observation]:
    """Check that an acknowledged response removes its input request, if not immediately."""
    for record in task_records(modern(history)):
        for key, first in _keys(record).items():
            request = input_requests(first.task)[key]
            for update in _updates(history, record, key):
                if is_acknowledged(update) and _is_fitting(request, input_responses(update)[key]):
                    yield from _removal(record, key, request, update)


def _removal(record: TaskRecord, key: str, request: Any, update: Exchange) -> Iterator[Observation]:
    later = [s for s in record.sightings if _asked_after(s, update)]
    gone = next((s for s in later if _is_without(s, key, request)), None)
    late = [s for s in later if key in input_requests(s.task) and _is_late(s, update)]
    if gone is not None:
        yield good(update, gone)
    elif late:
        words = f"the target acknowledged the response to {key!r}, but still requests it"
        yield bad(words, update, late[0])


def _is_late(sighting: Sighting, update: Exchange) -> bool:
    return sighting.since - (update.heard_at or 0) > SOON_MS


def _is_fitting(request: Any, reply: Any) -> bool:
    """Return whether the response is certainly valid."""
    params = request.get("params") if isinstance(request, dict) else None
    if not isinstance(reply, dict) or not isinstance(params, dict):
        return False
    match request.get("method"):
        case "elicitation/create":
            if reply.get("action") != "accept" or params.get("mode", "form") != "form":
                return reply.get("action") in ("accept", "decline", "cancel")
            return _is_valid(params.get("requestedSchema"), reply.get("content"))
        case "sampling/createMessage":
            return all(name in reply for name in ("role", "content", "model"))
    return False


def _is_valid(schema: Any, content: Any) -> bool:
    try:
        return isinstance(content, dict) and jsonschema_rs.is_valid(schema, content, offline=True)
    except ValueError:
        return False


@check(
    "2026-07-28:update-ack-before-effect",
    needs="a target that applies a response after its acknowledgement",
)
def effect_may_come_later(history: History) -> Iterator[Observation]:
    """Record input requests that are still shown after the acknowledgement, which is allowed."""
    for record in task_records(modern(history)):
        for update in _updates(history, record):
            for sighting in record.sightings:
                shown = input_requests(sighting.task).keys() & input_responses(update).keys()
                if is_acknowledged(update) and shown and _asked_after(sighting, update):
                    yield good(update, sighting)


@check("2026-07-28:ignore-never-issued-keys", needs="a task that requests input")
def unknown_keys_are_ignored(history: History) -> Iterator[Observation]:
    """Check that a response with an unknown key is acknowledged and has no effect."""
    for record in task_records(modern(history)):
        issued = _keys(record).keys()
        for update in _faultless_updates(history, record):
            if input_responses(update).keys() & issued or not input_responses(update):
                continue
            if not is_acknowledged(update):
                words = f"an unknown key got error {update.code!r} instead of being ignored"
                yield bad(words, update)
                continue
            moved = _moved_by(history, record, update)
            if moved is None:
                yield good(update)
            else:
                words = "the target used a response with an unknown key instead of ignoring it"
                yield bad(words, moved[0], update, moved[1])


def _moved_by(
    history: History, record: TaskRecord, update: Exchange
) -> tuple[Sighting, Sighting] | None:
    """Return the states around the update if the waiting task continued without other responses."""
    others = [u for u in _updates(history, record) if u is not update]
    before = [s for s in record.sightings if s.entry.number < update.request.number]
    after = [s for s in record.sightings if _asked_after(s, update)]
    if not before or before[-1].status != "input_required" or not after:
        return None
    if after[0].status not in ("working", "completed"):
        return None
    is_alone = all(o.request.number > after[0].entry.number for o in others)
    return (before[-1], after[0]) if is_alone else None


@check(
    "2026-07-28:ignore-answered-keys", needs="a task that requests input and receives two responses"
)
def second_responses_are_ignored(history: History) -> Iterator[Observation]:
    """Check that a second response to a key is acknowledged and not used."""
    for record in task_records(modern(history)):
        for key in _keys(record):
            sent = _updates(history, record, key)
            first = sent[0] if sent else None
            if first is None or first.response is None or not is_acknowledged(first):
                continue
            for update in _faultless_updates(history, record):
                if update not in sent[1:] or update.request.number < first.response.number:
                    continue
                if not is_acknowledged(update):
                    words = f"a second response to {key!r} got error {update.code!r}"
                    yield bad(words, first, update)
                    continue
                used = _used(record, input_responses(first)[key], input_responses(update)[key])
                if used is None:
                    yield good(first, update)
                else:
                    yield bad(f"the task used the second response to {key!r}", first, update, used)


def _used(record: TaskRecord, first: Any, second: Any) -> Sighting | None:
    """Return a state whose result contains text that only the second response has."""
    words = set(_texts(second)) - set(_texts(first))
    for sighting in record.sightings:
        text = " ".join(_texts(sighting.task.get("result")))
        if any(word in text for word in words if len(word) >= _LETTERS):
            return sighting
    return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


@check("2026-07-28:ignore-superseded-keys", needs="a task that requests input and has ended")
def late_responses_are_ignored(history: History) -> Iterator[Observation]:
    """Check that a response to an input request that is no longer open is acknowledged."""
    for record in task_records(modern(history)):
        for update in _faultless_updates(history, record):
            end = modern(history).ended_before(record.id, update.request)
            known = input_responses(update).keys() & _keys(record).keys()
            if end is None or not known or not _is_kept(history, record, update):
                continue
            if is_acknowledged(update):
                yield good(end, update)
            else:
                words = f"a late input response got error {update.code!r} instead of being ignored"
                yield bad(words, end, update)


def _faultless_updates(history: History, record: TaskRecord) -> list[Exchange]:
    """Return updates that are valid except for their keys."""
    faultless = _answered_updates(history)
    return [
        update
        for update in _updates(history, record)
        if update in faultless
        and all(isinstance(reply, dict) for reply in input_responses(update).values())
        and not is_throttled_or_denied(update)
        and (is_acknowledged(update) or _is_kept(history, record, update))
    ]


@lru_cache(maxsize=8)
def _answered_updates(history: History) -> frozenset[Exchange]:
    return frozenset(answered(history, "tasks/update", declared=True))


def _is_kept(history: History, record: TaskRecord, update: Exchange) -> bool:
    """Return whether the task must still exist."""
    over = expires_at(modern(history), record.id, update.request)
    was_stopped = was_cancelled(history, record.id, update.request)
    return over is not None and (update.heard_at or 0) < over and not was_stopped


# --- partial responses ----------------------------------------------------------------------------


def _partial(
    history: History,
) -> Iterator[tuple[TaskRecord, Sighting, Exchange, Mapping[str, Any]]]:
    """Yield updates that responded to some of several input requests, with those left open."""
    for record in task_records(modern(history)):
        for update in _updates(history, record):
            shown = [s for s in record.sightings if s.entry.number < update.request.number]
            open_now = input_requests(shown[-1].task) if shown else {}
            earlier = [
                u
                for u in _updates(history, record)
                if u.request.number < update.request.number
                and input_responses(u).keys() & open_now.keys()
            ]
            if earlier:
                continue  # which requests are open then is uncertain
            rest = {key: q for key, q in open_now.items() if key not in input_responses(update)}
            if rest and len(rest) < len(open_now) and is_acknowledged(update):
                yield record, shown[-1], update, rest


@check("2026-07-28:partial-answers", needs="a task with several concurrent input requests")
def partial_responses(history: History) -> Iterator[Observation]:
    """Record partial responses that the target acknowledged."""
    for _, before, update, _ in _partial(history):
        yield good(before, update)


@check(
    "2026-07-28:partial-stays-input-required", needs="a task with several concurrent input requests"
)
def partial_responses_wait(history: History) -> Iterator[Observation]:
    """Check that the task waits for the remaining responses.

    The target may have withdrawn the remaining requests, so this is only a warning.
    """
    for record, before, update, rest in _partial(history):
        later = [
            u.request.number
            for u in _updates(history, record)
            if u.request.number > update.request.number
        ]
        for sighting in record.sightings:
            is_next = all(number > sighting.entry.number for number in later)
            if not _asked_after(sighting, update) or not is_next or sighting.where != "get":
                continue
            left = [key for key, request in rest.items() if _is_without(sighting, key, request)]
            if sighting.status in ("working", "completed"):
                words = f"a task is {sighting.status!r} without a response to {next(iter(rest))!r}"
                yield warning(words, before, update, sighting)
            elif sighting.status == "input_required" and not left:
                yield good(before, update, sighting)
            break
