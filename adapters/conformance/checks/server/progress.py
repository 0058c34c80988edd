"""Progress: whose it is, that it grows, and that it ends in time."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import attrs

from taskmachine.adapters.conformance.checks.reading.order import is_after, is_replayed
from taskmachine.adapters.conformance.checks.reading.outcomes import (
    made_by,
    maker,
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
    """A progress notification, and what it is about as far as that is certain."""

    entry: Entry
    brought_by: tuple[Exchange, ...]
    """The requests that had its token, before it was heard."""

    @property
    def origin(self) -> Exchange | None:
        """The request whose progress it is; None if several had the token, or none."""
        return self.brought_by[0] if len(self.brought_by) == 1 else None

    @property
    def value(self) -> float | None:
        """How far it is."""
        value = self.entry.params.get("progress")
        return value if _is_number(value) else None

    @property
    def words(self) -> str:
        """The token, for a sentence."""
        return repr(self.entry.params.get("progressToken"))


@lru_cache(maxsize=2)
def _notices(history: History) -> tuple[_Notice, ...]:
    """All of them, but what is told again on a stream that was taken up again."""
    brought: dict[tuple[Any, ...], list[Exchange]] = {}
    for exchange in history.exchanges:
        token = exchange.request.meta.get("progressToken", MISSING)
        if token is not MISSING:
            for place in _places(history, exchange.request):
                brought.setdefault((*place, *id_key(token)), []).append(exchange)
    found = []
    for entry in history.notifications("notifications/progress"):
        if is_replayed(history, entry):
            continue
        key = id_key(entry.params.get("progressToken"))
        exchanges: list[Exchange] = []
        for place in _places(history, entry):
            exchanges = exchanges or [
                e for e in brought.get((*place, *key), ()) if e.request.number < entry.number
            ]
        found.append(_Notice(entry, tuple(exchanges)))
    return tuple(found)


def _places(history: History, entry: Entry) -> list[tuple[str, Any]]:
    """Where tokens count: on the line, else with whoever has the same credentials."""
    line: list[tuple[str, Any]] = [("line", entry.line)]
    return line if history.transport == "stdio" else [*line, ("caller", entry.caller)]


def _task_of(history: History, notice: _Notice) -> str | None:
    """The task of 2025-11-25 whose creation had the token."""
    if notice.origin is None or history.revision != "2025-11-25":
        return None
    return made_by(notice.origin)


def _ends(history: History, task_id: str, seen_by: Entry) -> Iterator[Sighting | Exchange]:
    """Where a task was seen to be over."""
    if maker(history, task_id, seen_by) is not None:
        yield from (s for s in sightings_of(history, task_id, seen_by) if s.is_terminal)
        yield from results_of(history, task_id, seen_by)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- what is in it ---------------------------------------------------------------------------


@check("2025-11-25:progress-optional", "2026-07-28:progress-content", needs=NEEDS)
def content(history: History) -> Iterator[Observation]:
    """Token, value, perhaps a total and a message, each of its type."""
    for notice in _notices(history):
        params = notice.entry.params
        token = params.get("progressToken")
        if not isinstance(token, str | int) or isinstance(token, bool):
            yield note("progress without a `progressToken`", notice.entry)
        elif notice.value is None:
            yield note("progress without a number as `progress`", notice.entry)
        elif "total" in params and not _is_number(params["total"]):
            yield note("the `total` of progress is no number", notice.entry)
        elif not isinstance(params.get("message", ""), str):
            yield note("the `message` of progress is no string", notice.entry)
        else:
            yield good(notice.entry)


@check("2025-11-25:progress-increases", "2026-07-28:progress-increases", needs=NEEDS)
def increases(history: History) -> Iterator[Observation]:
    """Each value of a token is above those that certainly came before it."""
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
                    words = f"progress {before.value:g} was followed by {notice.value:g}"
                    yield bad(words, before.entry, notice.entry)
        streams[notice.entry.post] = notice


@check("2025-11-25:progress-may-be-float", "2026-07-28:progress-may-be-float", needs=NEEDS)
def may_be_float(history: History) -> Iterator[Observation]:
    """Fractions are welcome."""
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
    """A message says something."""
    for notice in _notices(history):
        message = notice.entry.params.get("message", MISSING)
        if message is MISSING:
            continue
        if isinstance(message, str) and message.strip():
            yield good(notice.entry)
        else:
            yield bad("the `message` of progress says nothing", notice.entry)


@check("2025-11-25:progress-total-optional", "2026-07-28:progress-total-optional", needs=NEEDS)
def total_optional(history: History) -> Iterator[Observation]:
    """There may be no total."""
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
    """As much as the target likes."""
    for notice in _notices(history):
        yield good(notice.entry)


@check("2025-11-25:progress-may-be-absent", "2026-07-28:progress-may-be-absent")
def may_be_absent(history: History) -> Iterator[Observation]:
    """A token obliges to nothing."""
    reported = {e.request.number for n in _notices(history) for e in n.brought_by}
    for exchange in history.exchanges:
        has_token = "progressToken" in exchange.request.meta
        if has_token and exchange.is_answered and exchange.request.number not in reported:
            yield good(exchange)


# --- whose it is -----------------------------------------------------------------------------


@check("2025-11-25:progress-token-known", "2026-07-28:progress-token-known", needs=NEEDS)
def token_known(history: History) -> Iterator[Observation]:
    """A token was brought by a request."""
    for notice in _notices(history):
        if notice.brought_by:
            yield good(notice.brought_by[0].request, notice.entry)
        elif "progressToken" in notice.entry.params:
            yield bad(f"no request had brought the progress token {notice.words}", notice.entry)


@check("2025-11-25:progress-same-token", needs=NEEDS)
def same_token(history: History) -> Iterator[Observation]:
    """The progress of a task has the token of the call that made it."""
    for notice in _notices(history):
        created = _wrongly_named(history, notice)
        if created is not None:
            yield bad(_WRONG.format(notice.words), created, notice.entry)
        elif _task_of(history, notice) is not None:
            yield good(*_origins(notice), notice.entry)


@check("2025-11-25:progress-after-create-result", needs=NEEDS)
def after_create_result(history: History) -> Iterator[Observation]:
    """It stays so after the task was announced."""
    for notice in _notices(history):
        created = _wrongly_named(history, notice)
        if created is not None:
            if created.response and is_after(history, notice.entry, created.response):
                yield bad(_WRONG.format(notice.words), created, notice.entry)
        elif _task_of(history, notice) is not None:
            response = notice.origin.response if notice.origin else None
            if response is not None and is_after(history, notice.entry, response):
                yield good(*_origins(notice), notice.entry)


_WRONG = "progress of a task has the token {}, which is not that of the call that made it"


def _origins(notice: _Notice) -> list[Entry]:
    return [] if notice.origin is None else [notice.origin.request]


def _wrongly_named(history: History, notice: _Notice) -> Exchange | None:
    """The creation of the task that it is about, if that had another token.

    A request about a task has no progress of its own.
    """
    about = notice.entry.related_task
    if notice.origin is not None and notice.origin.method in ("tasks/get", "tasks/result"):
        about = notice.origin.task_id
    created = maker(history, about, notice.entry)
    if created is None:
        return None
    token = created.request.meta.get("progressToken", MISSING)
    is_same = id_key(token) == id_key(notice.entry.params.get("progressToken"))
    return None if is_same else created


# --- when it ends ----------------------------------------------------------------------------


@check(
    "2025-11-25:progress-stops-after-completion",
    "2026-07-28:progress-stops-after-completion",
    needs="a tool that reports progress in a plain call",
)
def stops_after_the_answer(history: History) -> Iterator[Observation]:
    """Of a plain request: none after its answer."""
    for notice in _notices(history):
        if notice.origin is None or _task_of(history, notice) is not None:
            continue
        answer = notice.origin.response
        if answer is not None and is_after(history, notice.entry, answer):
            yield bad("progress came after the answer", notice.origin, notice.entry)
        elif answer is not None:
            yield good(notice.entry, answer)


@check("2025-11-25:progress-stops-at-terminal", needs=NEEDS)
def stops_at_the_end(history: History) -> Iterator[Observation]:
    """Of a task: none after its end."""
    known: dict[tuple[str, Exchange], list[Sighting | Exchange]] = {}
    for notice in _notices(history):
        task_id = _task_of(history, notice)
        if task_id is None or notice.origin is None:
            continue
        if (task_id, notice.origin) not in known:
            known[task_id, notice.origin] = list(_ends(history, task_id, notice.entry))
        ends = known[task_id, notice.origin]
        late = next((end for end in ends if is_after(history, notice.entry, _heard(end))), None)
        if late is not None:
            yield bad("progress came after the end of the task", late, notice.entry)
        elif ends:
            yield good(notice.entry, _heard(ends[0]))


def _heard(end: Sighting | Exchange) -> Entry:
    if isinstance(end, Sighting):
        return end.entry
    assert end.response is not None
    return end.response


@check(
    "2025-11-25:progress-operation-running", "2026-07-28:progress-operation-running", needs=NEEDS
)
def operation_running(history: History) -> Iterator[Observation]:
    """Both, in one sentence."""
    yield from stops_after_the_answer(history)
    yield from stops_at_the_end(history)


cannot_check(
    "No rate is given, and nobody can make an unknown tool report in a tight loop.",
    "2025-11-25:progress-rate-limited",
    "2026-07-28:progress-rate-limited",
)
