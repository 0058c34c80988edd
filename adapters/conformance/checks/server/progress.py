"""Checks of progress notifications: content, token, order, and end."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import attrs

from taskmachine.adapters.conformance.checks.reading.order import is_after, is_replayed
from taskmachine.adapters.conformance.checks.reading.outcomes import (
    created_task_id,
    creating_call,
    results_of,
    sightings_of,
)
from taskmachine.adapters.conformance.history import (
    MISSING,
    Entry,
    Exchange,
    History,
    Sighting,
    id_key,
)
from taskmachine.adapters.conformance.judging import (
    Observation,
    bad,
    cannot_check,
    check,
    good,
    note,
)

__all__: list[str] = []

NEEDS = "a tool that reports progress"


@attrs.frozen(eq=False)
class _Notice:
    """A progress notification and the requests that it may belong to."""

    entry: Entry
    requests: tuple[Exchange, ...]
    """The requests with its token that were sent before it arrived."""

    @property
    def origin(self) -> Exchange | None:
        """Return the request that it belongs to; None if several or no requests had the token."""
        return self.requests[0] if len(self.requests) == 1 else None

    @property
    def value(self) -> float | None:
        """Return the progress value."""
        value = self.entry.params.get("progress")
        return value if _is_number(value) else None

    @property
    def token(self) -> str:
        """Return the token, quoted for a message."""
        return repr(self.entry.params.get("progressToken"))


@lru_cache(maxsize=2)
def _notices(history: History) -> tuple[_Notice, ...]:
    """Return all progress notifications except those repeated on a resumed stream."""
    by_token: dict[tuple[Any, ...], list[Exchange]] = {}
    for exchange in history.exchanges:
        token = exchange.request.meta.get("progressToken", MISSING)
        if token is not MISSING:
            for place in _places(history, exchange.request):
                by_token.setdefault((*place, *id_key(token)), []).append(exchange)
    found = []
    for entry in history.notifications("notifications/progress"):
        if is_replayed(history, entry):
            continue
        key = id_key(entry.params.get("progressToken"))
        exchanges: list[Exchange] = []
        for place in _places(history, entry):
            exchanges = exchanges or [
                e for e in by_token.get((*place, *key), ()) if e.request.number < entry.number
            ]
        found.append(_Notice(entry, tuple(exchanges)))
    return tuple(found)


def _places(history: History, entry: Entry) -> list[tuple[str, Any]]:
    """Return where a token is valid: on its connection, or for the same credentials."""
    line: list[tuple[str, Any]] = [("line", entry.line)]
    return line if history.transport == "stdio" else [*line, ("caller", entry.caller)]


def _task_of(history: History, notice: _Notice) -> str | None:
    """Return the task whose creating call had the token (2025-11-25)."""
    if notice.origin is None or history.revision != "2025-11-25":
        return None
    return created_task_id(notice.origin)


def _ends(history: History, task_id: str, seen_by: Entry) -> Iterator[Sighting | Exchange]:
    """Yield where a task was seen in a terminal status."""
    if creating_call(history, task_id, seen_by) is not None:
        yield from (s for s in sightings_of(history, task_id, seen_by) if s.is_terminal)
        yield from results_of(history, task_id, seen_by)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- content ----------------------------------------------------------------------------------


@check("2025-11-25:progress-optional", "2026-07-28:progress-content", needs=NEEDS)
def content(history: History) -> Iterator[Observation]:
    """Check the types of token, value, total, and message."""
    for notice in _notices(history):
        params = notice.entry.params
        token = params.get("progressToken")
        if not isinstance(token, str | int) or isinstance(token, bool):
            yield note("a progress notification has no valid `progressToken`", notice.entry)
        elif notice.value is None:
            yield note("the `progress` of a progress notification is not a number", notice.entry)
        elif "total" in params and not _is_number(params["total"]):
            yield note("the `total` of a progress notification is not a number", notice.entry)
        elif not isinstance(params.get("message", ""), str):
            yield note("the `message` of a progress notification is not a string", notice.entry)
        else:
            yield good(notice.entry)


@check("2025-11-25:progress-increases", "2026-07-28:progress-increases", needs=NEEDS)
def increases(history: History) -> Iterator[Observation]:
    """Check that each value exceeds the values of its token that certainly came before it."""
    latest: dict[int, dict[int | None, _Notice]] = {}
    for notice in _notices(history):
        if notice.origin is None or notice.value is None:
            continue
        streams = latest.setdefault(notice.origin.request.number, {})
        for before in streams.values():
            if is_after(history, notice.entry, before.entry):
                assert before.value is not None
                if notice.value > before.value:
                    yield good(before.entry, notice.entry)
                else:
                    token = (
                        f"progress decreased or stayed the same: {before.value:g} was "
                        f"followed by {notice.value:g}"
                    )
                    yield bad(token, before.entry, notice.entry)
        streams[notice.entry.post] = notice


@check("2025-11-25:progress-may-be-float", "2026-07-28:progress-may-be-float", needs=NEEDS)
def may_be_float(history: History) -> Iterator[Observation]:
    """Record fractional values, which are allowed."""
    for notice in _notices(history):
        values = (notice.entry.params.get("progress"), notice.entry.params.get("total"))
        if any(isinstance(value, float) for value in values):
            yield good(notice.entry)


@check(
    "2025-11-25:progress-message-readable",
    "2026-07-28:progress-message-readable",
    needs="a tool that reports progress with a message",
)
def message_readable(history: History) -> Iterator[Observation]:
    """Check that a message is a non-empty string."""
    for notice in _notices(history):
        message = notice.entry.params.get("message", MISSING)
        if message is MISSING:
            continue
        if isinstance(message, str) and message.strip():
            yield good(notice.entry)
        else:
            words = "the `message` of a progress notification is empty or not a string"
            yield bad(words, notice.entry)


@check("2025-11-25:progress-total-optional", "2026-07-28:progress-total-optional", needs=NEEDS)
def total_optional(history: History) -> Iterator[Observation]:
    """Record progress without a total, which is allowed."""
    for notice in _notices(history):
        if "total" not in notice.entry.params:
            yield good(notice.entry)


@check(
    "2025-11-25:progress-any-frequency",
    "2026-07-28:progress-any-frequency",
    "2026-07-28:progress-allowed",
    needs=NEEDS,
)
def any_frequency(history: History) -> Iterator[Observation]:
    """Record progress notifications, which may come at any frequency."""
    for notice in _notices(history):
        yield good(notice.entry)


@check("2025-11-25:progress-may-be-absent", "2026-07-28:progress-may-be-absent")
def may_be_absent(history: History) -> Iterator[Observation]:
    """Record requests with a token and no progress, which is allowed."""
    reported = {e.request.number for n in _notices(history) for e in n.requests}
    for exchange in history.exchanges:
        has_token = "progressToken" in exchange.request.meta
        if has_token and exchange.is_answered and exchange.request.number not in reported:
            yield good(exchange)


# --- tokens -----------------------------------------------------------------------------------


@check("2025-11-25:progress-token-known", "2026-07-28:progress-token-known", needs=NEEDS)
def token_known(history: History) -> Iterator[Observation]:
    """Check that the token was sent with a request."""
    for notice in _notices(history):
        if notice.requests:
            yield good(notice.requests[0].request, notice.entry)
        elif "progressToken" in notice.entry.params:
            yield bad(f"no request had the progress token {notice.token}", notice.entry)


@check("2025-11-25:progress-same-token", needs=NEEDS)
def same_token(history: History) -> Iterator[Observation]:
    """Check that the progress of a task has the token of the call that created it."""
    for notice in _notices(history):
        created = _wrongly_named(history, notice)
        if created is not None:
            yield bad(_WRONG.format(notice.token), created, notice.entry)
        elif _task_of(history, notice) is not None:
            yield good(*_origins(notice), notice.entry)


@check("2025-11-25:progress-after-create-result", needs=NEEDS)
def after_create_result(history: History) -> Iterator[Observation]:
    """Check that this also applies after the task was created."""
    for notice in _notices(history):
        created = _wrongly_named(history, notice)
        if created is not None:
            if created.response and is_after(history, notice.entry, created.response):
                yield bad(_WRONG.format(notice.token), created, notice.entry)
        elif _task_of(history, notice) is not None:
            response = notice.origin.response if notice.origin else None
            if response is not None and is_after(history, notice.entry, response):
                yield good(*_origins(notice), notice.entry)


_WRONG = "the progress of a task has the token {}, which is not that of the call that created it"


def _origins(notice: _Notice) -> list[Entry]:
    return [] if notice.origin is None else [notice.origin.request]


def _wrongly_named(history: History, notice: _Notice) -> Exchange | None:
    """Return the call that created the task, if it had another token.

    Requests about a task have no progress of their own.
    """
    about = notice.entry.related_task
    if notice.origin is not None and notice.origin.method in ("tasks/get", "tasks/result"):
        about = notice.origin.task_id
    created = creating_call(history, about, notice.entry)
    if created is None:
        return None
    token = created.request.meta.get("progressToken", MISSING)
    is_same = id_key(token) == id_key(notice.entry.params.get("progressToken"))
    return None if is_same else created


# --- end --------------------------------------------------------------------------------------


@check(
    "2025-11-25:progress-stops-after-completion",
    "2026-07-28:progress-stops-after-completion",
    needs="a tool that reports progress without a task",
)
def stops_after_the_answer(history: History) -> Iterator[Observation]:
    """Check that a plain request has no progress after its response."""
    for notice in _notices(history):
        if notice.origin is None or _task_of(history, notice) is not None:
            continue
        answer = notice.origin.response
        if answer is not None and is_after(history, notice.entry, answer):
            token = "the target sent progress after the response to the request"
            yield bad(token, notice.origin, notice.entry)
        elif answer is not None:
            yield good(notice.entry, answer)


@check("2025-11-25:progress-stops-at-terminal", needs=NEEDS)
def stops_at_the_end(history: History) -> Iterator[Observation]:
    """Check that a task has no progress after a terminal status."""
    known: dict[tuple[str, Exchange], list[Sighting | Exchange]] = {}
    for notice in _notices(history):
        task_id = _task_of(history, notice)
        if task_id is None or notice.origin is None:
            continue
        if (task_id, notice.origin) not in known:
            known[task_id, notice.origin] = list(_ends(history, task_id, notice.entry))
        ends = known[task_id, notice.origin]
        late = next((end for end in ends if is_after(history, notice.entry, _entry_of(end))), None)
        if late is not None:
            token = "the target sent progress after the task had reached a terminal status"
            yield bad(token, late, notice.entry)
        elif ends:
            yield good(notice.entry, _entry_of(ends[0]))


def _entry_of(end: Sighting | Exchange) -> Entry:
    if isinstance(end, Sighting):
        return end.entry
    assert end.response is not None
    return end.response


@check(
    "2025-11-25:progress-operation-running", "2026-07-28:progress-operation-running", needs=NEEDS
)
def operation_running(history: History) -> Iterator[Observation]:
    """Check that progress is only sent while the request or task runs."""
    yield from stops_after_the_answer(history)
    yield from stops_at_the_end(history)


cannot_check(
    "The specification sets no rate, and the tester cannot make an unknown tool report progress "
    "rapidly.",
    "2025-11-25:progress-rate-limited",
    "2026-07-28:progress-rate-limited",
)
