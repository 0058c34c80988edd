"""Checks of `notifications/cancelled`, in both directions."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

import attrs

from taskmachine.adapters.conformance.checks.reading.messages import is_well_formed
from taskmachine.adapters.conformance.checks.reading.order import (
    SOON_MS,
    exited_after,
    is_received_before,
    next_response,
    response_head,
)
from taskmachine.adapters.conformance.checks.reading.outcomes import (
    created_task_id,
    creating_call,
    sightings_of,
)
from taskmachine.adapters.conformance.history import MISSING, Entry, Exchange, History, Kind, id_key
from taskmachine.adapters.conformance.judging import (
    Observation,
    bad,
    cannot_check,
    check,
    good,
    note,
)

__all__: list[str] = []

CANCELLED = "notifications/cancelled"


@attrs.frozen(eq=False)
class _Cancellation:
    """A cancellation sent by the client."""

    sent: Entry
    what: Literal["malformed", "unknown", "finished", "running"]
    target: Exchange | None
    """The request that it names."""


@lru_cache(maxsize=2)
def _client_cancellations(history: History) -> tuple[_Cancellation, ...]:
    """Return the client's cancellations; in 2026-07-28 they exist on stdio only."""
    if history.revision == "2026-07-28" and history.transport == "http":
        return ()
    requested: dict[tuple[Any, ...], Exchange] = {}
    for exchange in history.exchanges:
        requested[exchange.request.line, *id_key(exchange.request.body.get("id"))] = exchange
    found = []
    for entry in history.entries:
        if entry.kind is Kind.SENT and entry.method == CANCELLED and entry.is_notification:
            target = requested.get((entry.line, *id_key(entry.params.get("requestId"))))
            if target is not None and target.request.number > entry.number:
                target = None
            found.append(_Cancellation(entry, _kind(entry, target), target))
    return tuple(found)


def _kind(
    entry: Entry, target: Exchange | None
) -> Literal["malformed", "unknown", "finished", "running"]:
    id = entry.params.get("requestId")
    if not is_well_formed(entry) or isinstance(id, bool) or not isinstance(id, str | int):
        return "malformed"
    if target is None:
        return "unknown"
    response = target.response
    return "finished" if response is not None and response.number < entry.number else "running"


def _named(history: History, notice: Entry) -> list[Entry]:
    """Return the requests of the target that its cancellation may refer to."""
    id = id_key(notice.params.get("requestId"))
    return [
        entry
        for entry, _ in history.questions
        if entry.line == notice.line
        and entry.number < notice.number
        and id_key(entry.body["id"]) == id
    ]


def _target_cancellations(history: History) -> Iterator[Entry]:
    """Yield the target's cancellations that name a request."""
    for notice in history.notifications(CANCELLED):
        if "requestId" in notice.params:
            yield notice


# --- cancellations by the target: 2025-11-25 --------------------------------------------------


@check(
    "2025-11-25:cancelled-same-direction",
    needs="a task that ends while its request for input is open",
)
def same_direction(history: History) -> Iterator[Observation]:
    """Check that the target cancels only its own requests.

    After a disconnect the request may have been lost with the stream.
    """
    for notice in _target_cancellations(history):
        named = _named(history, notice)
        if named:
            yield good(named[0], notice)
        elif not any(
            entry.line == notice.line and entry.post is not None and entry.number < notice.number
            for entry in history.entries
            if entry.kind is Kind.LEFT
        ):
            id = notice.params["requestId"]
            yield bad(f"the target cancelled request {id!r}, which it never sent", notice)


@check(
    "2025-11-25:cancelled-still-running",
    needs="a task that ends while its request for input is open",
)
def still_running(history: History) -> Iterator[Observation]:
    """Check that the cancelled request has no response yet."""
    answers = {entry.number: answer for entry, answer in history.questions}
    for notice in _target_cancellations(history):
        for requested in _named(history, notice):
            answer = answers[requested.number]
            if answer is None or answer.number > notice.number:
                yield good(requested, notice)
            elif is_received_before(history, answer, notice):
                words = "the target cancelled a request that the client had already responded to"
                yield bad(words, requested, answer, notice)


@check(
    "2025-11-25:late-response-ignored", needs="a task that ends while its request for input is open"
)
def late_response_ignored(history: History) -> Iterator[Observation]:
    """Check that a response to a request that the target cancelled causes no failure."""
    answers = {entry.number: answer for entry, answer in history.questions}
    for notice in _target_cancellations(history):
        for requested in _named(history, notice):
            answer = answers[requested.number]
            if answer is not None and answer.number > notice.number:
                yield from _survives(history, answer, "a response to a cancelled request")


# --- cancellations by the target: 2026-07-28 --------------------------------------------------


def _subscriptions(history: History) -> dict[tuple[Any, ...], Exchange]:
    return {
        (exchange.request.line, *id_key(exchange.request.body.get("id"))): exchange
        for exchange in history.calls("subscriptions/listen")
    }


@check("2026-07-28:server-cancelled-only-for-listen")
def only_for_listen(history: History) -> Iterator[Observation]:
    """Check that a server cancels only subscriptions."""
    subscriptions = _subscriptions(history)
    for notice in history.notifications(CANCELLED):
        if (notice.line, *id_key(notice.params.get("requestId"))) not in subscriptions:
            words = "the target cancelled a request other than an open 'subscriptions/listen'"
            yield bad(words, notice)
    for sighting in history.sightings:
        if sighting.is_terminal:
            yield good(sighting)


@check("2026-07-28:server-cancelled-names-listen", needs="a subscription that the target ends")
def names_listen(history: History) -> Iterator[Observation]:
    """Check that it names an open subscription, whose notifications then stop."""
    subscriptions = _subscriptions(history)
    for notice in history.notifications(CANCELLED):
        listen = subscriptions.get((notice.line, *id_key(notice.params.get("requestId"))))
        if listen is None or listen.request.number > notice.number:
            words = "the target cancelled a request other than an open 'subscriptions/listen'"
            yield bad(words, notice)
            continue
        late = _late_notification(history, listen, notice)
        if late is not None:
            words = "the target sent a notification of a subscription that it had cancelled"
            yield bad(words, notice, late)
        else:
            yield good(listen.request, notice)


def _late_notification(history: History, listen: Exchange, notice: Entry) -> Entry | None:
    """Return a notification that the subscription sent after its end."""
    id = id_key(listen.request.body.get("id"))
    for entry in history.heard:
        if entry.number <= notice.number or entry.line != notice.line or not entry.is_notification:
            continue
        subscription = entry.meta.get("io.modelcontextprotocol/subscriptionId", MISSING)
        if subscription is not MISSING and id_key(subscription) == id:
            return entry
    return None


@check("2026-07-28:listen-teardown-cancelled", needs="a subscription that the target ends")
def teardown_cancelled(history: History) -> Iterator[Observation]:
    """Check that the target cancels a subscription that it ends; a response alone is noted."""
    for listen in history.calls("subscriptions/listen"):
        response = listen.response
        if response is None or listen.error is not None:
            continue
        id = id_key(listen.request.body.get("id"))
        if any(
            c.target is listen and c.sent.number < response.number
            for c in _client_cancellations(history)
        ):
            continue
        for notice in history.notifications(CANCELLED):
            if notice.line == response.line and id_key(notice.params.get("requestId")) == id:
                yield good(listen.request, notice)
                break
        else:
            yield note("the target ended a subscription without `notifications/cancelled`", listen)


# --- cancellations by the client --------------------------------------------------------------


@check("2025-11-25:cancelled-notification-keeps-task", needs="a tool that creates a task")
def keeps_task(history: History) -> Iterator[Observation]:
    """Check that cancelling the call that created a task does not cancel the task."""
    for cancellation in _client_cancellations(history):
        task_id = None if cancellation.target is None else created_task_id(cancellation.target)
        if (
            task_id is None
            or cancellation.what != "finished"
            or not creating_call(history, task_id, cancellation.sent)
        ):
            continue
        for sighting in sightings_of(history, task_id, cancellation.sent):
            if (
                sighting.exchange is None
                or sighting.exchange.request.number < cancellation.sent.number
            ):
                continue
            if sighting.status != "cancelled":
                yield good(cancellation.sent, sighting)
            elif not _was_cancelled(history, task_id, sighting.entry):
                words = "cancelling the call that created a task cancelled the task"
                yield bad(words, cancellation.sent, sighting)
                break


def _was_cancelled(history: History, task_id: str, before: Entry) -> bool:
    """Return whether `tasks/cancel` was sent for the task before that entry."""
    return any(
        exchange.task_id == task_id and exchange.request.number < before.number
        for exchange in history.calls("tasks/cancel")
    )


@check(
    "2025-11-25:cancelled-request-stopped",
    "2026-07-28:cancelled-request-stopped",
    needs="a tool that reports progress for several seconds without a task",
)
def request_stopped(history: History) -> Iterator[Observation]:
    """Check that the progress of a cancelled call soon stops."""
    reports = history.notifications("notifications/progress")
    for cancellation in _client_cancellations(history):
        token = MISSING if cancellation.target is None else _token(cancellation.target)
        if cancellation.what != "running" or token is MISSING:
            continue
        reports_of_call = [
            entry
            for entry in reports
            if entry.line == cancellation.sent.line
            and id_key(entry.params.get("progressToken")) == id_key(token)
        ]
        before = [entry for entry in reports_of_call if entry.number < cancellation.sent.number]
        late = [entry for entry in reports_of_call if entry.at - cancellation.sent.at > SOON_MS]
        after = next_response(history, cancellation.sent)
        if late:
            words = "a call still reported progress more than 5 s after it was cancelled"
            yield bad(words, cancellation.sent, late[0])
        elif before and after is not None and reports_of_call[-1].number < after.number:
            yield good(before[-1], cancellation.sent, after)


def _token(exchange: Exchange) -> Any:
    return exchange.request.meta.get("progressToken", MISSING)


@check(
    "2025-11-25:cancelled-request-not-answered",
    "2026-07-28:cancelled-request-not-answered",
    needs="a request that takes long enough to be cancelled",
)
def request_not_answered(history: History) -> Iterator[Observation]:
    """Check that a cancelled request gets no response, unless it crossed the cancellation."""
    for cancellation in _client_cancellations(history):
        if (
            cancellation.what != "running"
            or cancellation.target is None
            or not _can_be_cancelled(cancellation.target)
        ):
            continue
        response = cancellation.target.response
        if response is None:
            after = next_response(history, cancellation.sent)
            if after is not None:
                yield good(cancellation.target.request, cancellation.sent, after)
        elif _is_answered_despite_cancellation(
            history, cancellation.sent, cancellation.target, response
        ):
            words = "the target responded to a request after it was cancelled"
            yield bad(words, cancellation.sent, cancellation.target)


def _can_be_cancelled(target: Exchange) -> bool:
    """Return whether cancellation applies: task calls and subscriptions have other rules."""
    is_task = "task" in target.params or target.fields.get("resultType") == "task"
    return not is_task and target.method not in ("initialize", "subscriptions/listen")


def _is_answered_despite_cancellation(
    history: History, sent: Entry, target: Exchange, response: Entry
) -> bool:
    """Return whether the target responded although it had certainly received the cancellation."""
    error = target.error or {}
    if target.method == "tools/call" and "cancel" in str(error.get("message")).lower():
        return True
    if response.post is None:
        return is_received_before(history, sent, response)
    head = response_head(history, sent)
    if head is None or head.number > response.number:
        return False
    if response.at - head.at > SOON_MS:
        return True
    return target.method == "tasks/result" and any(
        s.exchange is not None
        and s.exchange.request.number > head.number
        and s.entry.number < response.number
        and not s.is_terminal
        for s in history.by_task.get(str(target.task_id), ())
    )


@check("2025-11-25:cancelled-may-be-ignored", "2026-07-28:cancelled-may-be-ignored")
def may_be_ignored(history: History) -> Iterator[Observation]:
    """Record cancellations that the target ignored, which is allowed."""
    for cancellation in _client_cancellations(history):
        after = next_response(history, cancellation.sent)
        if cancellation.what in ("unknown", "finished") and after is not None:
            yield good(cancellation.sent, after)


@check("2025-11-25:cancellation-races-handled", "2026-07-28:cancellation-races-handled")
def races_handled(history: History) -> Iterator[Observation]:
    """Check that a cancellation that crosses the response causes no failure."""
    for cancellation in _client_cancellations(history):
        if cancellation.what in ("running", "finished"):
            request = None if cancellation.target is None else cancellation.target.request
            yield from _survives(history, cancellation.sent, "a cancellation", request)


@check("2025-11-25:invalid-cancellation-ignored", "2026-07-28:invalid-cancellation-ignored")
def invalid_ignored(history: History) -> Iterator[Observation]:
    """Check that a cancellation without a matching request is ignored, without an error."""
    for cancellation in _client_cancellations(history):
        if cancellation.what == "running":
            continue
        status, shown = _status(history, cancellation.sent)
        is_message = is_well_formed(
            cancellation.sent
        )  # a malformed message may be rejected before it is parsed
        if status in (400, 422) and is_message:
            words = f"an invalid cancellation got HTTP status {status} instead of being ignored"
            yield bad(words, *shown)
        elif is_message and (error := _error_on_the_pipe(history, cancellation.sent)) is not None:
            words = "an invalid cancellation got an error instead of being ignored"
            yield bad(words, cancellation.sent, error)
        else:
            yield from _survives(history, cancellation.sent, "an invalid cancellation")


def _error_on_the_pipe(history: History, sent: Entry) -> Entry | None:
    """Return an error without an id before the next response, if it can only mean this message."""
    if sent.post is not None:
        return None
    line = [entry for entry in history.entries if entry.line == sent.line]
    for entry in line:
        if entry.number > sent.number and entry.kind is Kind.HEARD and entry.is_response:
            others = (e for e in line if e.kind is Kind.SENT and e.number < entry.number)
            is_meant = all(map(is_well_formed, others))
            has_no_id = entry.body.get("id") is None and "error" in entry.body
            return entry if is_meant and has_no_id else None
    return None


def _survives(
    history: History, sent: Entry, what: str, besides: Entry | None = None
) -> Iterator[Observation]:
    """Check that a message causes neither a server error nor the end of the process."""
    status, shown = _status(history, sent)
    gone = exited_after(history, sent, besides)
    after = next_response(history, sent)
    if status >= 500 and status != 503:
        yield bad(f"the target responded to {what} with HTTP status {status}", *shown)
    elif gone is not None:
        yield bad(f"the target's process exited after {what}", sent, gone)
    elif after is not None:
        yield good(sent, after)


def _status(history: History, sent: Entry) -> tuple[int, list[Entry]]:
    """Return the HTTP status, or 0 over stdio, and its evidence."""
    head = response_head(history, sent)
    if head is None or head.http is None:
        return 0, [sent]
    return head.http.status, [sent, head]


cannot_check(
    "A tool's behavior after its caller disconnected is not observable through the protocol.",
    "2026-07-28:http-disconnect-is-cancel",
)
cannot_check(
    "A server of this revision sends no requests, so it has no request timeouts.",
    "2026-07-28:request-timeouts",
    "2026-07-28:timeout-cancels",
    "2026-07-28:timeout-reset-by-progress",
    "2026-07-28:timeout-maximum",
)
