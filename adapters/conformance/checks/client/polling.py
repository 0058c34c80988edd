"""Checks of polling and pagination by clients, and how a client ended."""

import itertools
from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.clients.view import STOPPED, as_client
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good

__all__ = [
    "INACTIVE_MS",
    "active_until",
    "exited_normally",
    "is_about",
    "requests_for",
    "was_stopped",
]

INACTIVE_MS: Final = 5_000.0
"""A client that was inactive for this long counts as stuck."""

_SHARE: Final = 0.5
"""Share of the interval below which a gap is not explained by clock differences."""


# --- how a client ended ---------------------------------------------------------------------------


def _exit(history: History) -> Entry | None:
    return next((entry for entry in history.entries if entry.kind is Kind.EXITED), None)


def active_until(history: History) -> float:
    """Return when the client exited."""
    left = _exit(history)
    return history.entries[-1].at if left is None else left.at


def was_stopped(history: History) -> bool:
    """Return whether the tester had to stop the client."""
    left = _exit(history)
    return left is not None and left.text == STOPPED


def exited_normally(history: History) -> bool:
    """Return whether the client exited with status 0."""
    left = _exit(history)
    return left is not None and left.text == "exit status 0"


def is_about(entry: Entry, task_id: str) -> bool:
    """Return whether a message names a task, in its parameters or its metadata."""
    return entry.params.get("taskId") == task_id or entry.related_task == task_id


def requests_for(client: History, task_id: str) -> list[Exchange]:
    """Return the client's requests about one task."""
    return [
        exchange
        for exchange in client.exchanges
        if exchange.method.startswith("tasks/") and exchange.task_id == task_id
    ]


# --- pace -----------------------------------------------------------------------------------------


@client_check(
    "2025-11-25:poll-interval-respected",
    "2026-07-28:poll-interval-respected",
    needs="a client that polls a task at least twice",
)
def poll_interval_respected(history: History) -> Iterator[Observation]:
    """Check that the client waits for the poll interval.

    Two gaps of a task below half of the interval are needed to fail. Gaps with other messages about
    the task do not count.
    """
    client = as_client(history)
    for task_id in client.created:
        gets = [e for e in requests_for(client, task_id) if e.method == "tasks/get"]
        gaps = [
            (earlier, later)
            for earlier, later in itertools.pairwise(gets)
            if _interval(earlier) and not _is_disturbed(client, task_id, earlier, later)
        ]
        short = [(a, b) for a, b in gaps if b.sent_at - a.sent_at < _SHARE * _interval(a)]
        if len(short) >= 2:
            a, b = short[0]
            took = f"{b.sent_at - a.sent_at:.0f} ms"
            words = f"the client polled after {took}; the poll interval is {_interval(a):g} ms"
            yield bad(words, a, b)
        elif gaps and not short:
            yield good(*gaps[0])


def _interval(exchange: Exchange) -> float:
    found = exchange.fields.get("pollInterval", exchange.fields.get("pollIntervalMs"))
    return found if isinstance(found, int | float) else 0


def _is_disturbed(client: History, task_id: str, earlier: Exchange, later: Exchange) -> bool:
    """Return whether other messages about the task came in between."""
    between = range(earlier.request.number + 1, later.request.number)
    answer = earlier.response
    return answer is None or any(
        entry.number in between and entry is not answer and is_about(entry, task_id)
        for entry in client.entries
    )


# --- end of polling -------------------------------------------------------------------------------


def _end_for(client: History, task_id: str) -> Entry | None:
    """Return the message that showed the client that the task had ended."""
    result = next((e for e in client.results.get(task_id, ()) if e.is_answered), None)
    if result is not None:
        return result.response
    return next((s.entry for s in client.by_task[task_id] if s.is_terminal), None)


def _was_cancelled(client: History, task_id: str) -> bool:
    return any(exchange.method == "tasks/cancel" for exchange in requests_for(client, task_id))


def _is_waiting(client: History, task_id: str) -> bool:
    """Return whether a `tasks/result` was still open when the client exited."""
    open_results = [e for e in client.results.get(task_id, ()) if not e.is_answered]
    return any(e.end is None or e.end.kind is Kind.EXITED for e in open_results)


@client_check(
    "2025-11-25:poll-until-terminal",
    "2026-07-28:poll-until-terminal",
    needs="a client that polls a task",
)
def polls_until_terminal(history: History) -> Iterator[Observation]:
    """Check that polling continues until the task ends or requests input, or a cancel."""
    client = as_client(history)
    for task_id in client.created:
        gets = [e for e in requests_for(client, task_id) if e.method == "tasks/get"]
        if not gets or _was_cancelled(client, task_id) or _is_waiting(client, task_id):
            continue
        end = _end_for(client, task_id)
        last = requests_for(client, task_id)[-1]
        status = client.by_task[task_id][-1].status
        if end is not None:
            yield good(gets[0], end)
        elif status == "working" and _has_stopped(history, last):
            yield bad("the client stopped polling a task that was still 'working'", last)


def _has_stopped(history: History, last: Exchange) -> bool:
    if last.heard_at is None:
        return False
    is_silent = active_until(history) - last.heard_at > INACTIVE_MS
    return is_silent if was_stopped(history) else exited_normally(history)


@client_check("2025-11-25:status-notification-not-relied-on", needs="a client that creates a task")
def notifications_not_relied_on(history: History) -> Iterator[Observation]:
    """Check that the client notices the end of its task without notifications."""
    client = as_client(history)
    for task_id, created in client.created.items():
        if any(s.where == "notification" for s in client.by_task[task_id]):
            continue
        end = _end_for(client, task_id)
        if end is not None:
            yield good(created, end)
        elif _is_stuck(history, client, task_id, created.heard_at or 0):
            words = "the client waited for a status notification, which servers need not send"
            yield bad(words, created)


@client_check(
    "2025-11-25:poll-despite-notifications",
    needs="a client that receives a task status notification (one with a GET stream)",
)
def polls_despite_notifications(history: History) -> Iterator[Observation]:
    """Check that the client still polls after a notification, or calls `tasks/result`."""
    client = as_client(history)
    for task_id in client.created:
        notices = [s for s in client.by_task[task_id] if s.where == "notification"]
        notices = [s for s in notices if not s.is_terminal]
        if not notices:
            continue
        last = notices[-1].entry
        end = _end_for(client, task_id)
        if end is not None or client.results.get(task_id):
            yield good(last, *([] if end is None else [end]))
        elif _is_stuck(history, client, task_id, last.at):
            yield bad("the client stopped polling after a status notification", last)


def _is_stuck(history: History, client: History, task_id: str, since: float) -> bool:
    """Return whether the client was stuck without a request about the task."""
    asked = requests_for(client, task_id)
    latest = max([since, *(exchange.sent_at for exchange in asked)])
    is_open = any(not exchange.is_answered for exchange in asked)
    return was_stopped(history) and not is_open and active_until(history) - latest > INACTIVE_MS


@client_check("2025-11-25:cursors-opaque", needs="a client that requests several pages of a list")
def cursors_opaque(history: History) -> Iterator[Observation]:
    """Check that each cursor was issued for the same list and is unchanged."""
    client = as_client(history)
    given: dict[str, list[Any]] = {}
    exchanges = list(client.calls("tools/list", "tasks/list"))
    for exchange in exchanges:
        if "cursor" in exchange.params:
            cursor = exchange.params["cursor"]
            if any(
                type(one) is type(cursor) and one == cursor
                for one in given.get(exchange.method, [])
            ):
                yield good(exchange)
            elif cursor is not None:
                words = f"the client sent the cursor {cursor!r:.60}, which the server did not issue"
                yield bad(words, exchange)
        if "nextCursor" in exchange.fields:
            given.setdefault(exchange.method, []).append(exchange.fields["nextCursor"])


@client_check(
    "2025-11-25:page-size-not-assumed",
    "2025-11-25:both-paging-flows",
    needs="a client that requests several pages of a list",
)
def follows_pages(history: History) -> Iterator[Observation]:
    """Check that a client that uses cursors uses each, also of an empty page."""
    client = as_client(history)
    pages = list(client.calls("tools/list"))
    followed = [page.params["cursor"] for page in pages if page.params.get("cursor") is not None]
    for exchange in pages:
        following = exchange.fields.get("nextCursor")
        if not followed or not isinstance(following, str):
            continue
        if following in followed:
            yield good(exchange)
        elif not exchange.fields.get("tools") and _used_list(client, exchange):
            yield bad("the client treated an empty page with a cursor as the last page", exchange)


@client_check(
    "2025-11-25:missing-cursor-is-end", needs="a client that requests several pages of a list"
)
def stops_at_last_page(history: History) -> Iterator[Observation]:
    """Check that no cursor is sent after the last page of a list."""
    for pages in _pages_by_line(as_client(history)).values():
        walks, last = 0, None
        for page in pages:
            has_cursor = page.params.get("cursor") is not None
            if has_cursor and walks <= 0 and last is not None:
                yield bad("the client requested another page after the last page", last, page)
            walks += not has_cursor
            if page.is_answered and page.error is None and "nextCursor" not in page.fields:
                if has_cursor and walks > 0:
                    yield good(page)
                walks, last = walks - 1, page


def _pages_by_line(client: History) -> dict[int, list[Exchange]]:
    lines: dict[int, list[Exchange]] = {}
    for exchange in client.calls("tools/list"):
        lines.setdefault(exchange.request.line, []).append(exchange)
    return lines


def _used_list(client: History, exchange: Exchange) -> bool:
    """Return whether the client used the list as if it were complete."""
    answer = exchange.response
    return answer is not None and any(
        call.request.number > answer.number for call in client.calls("tools/call")
    )
