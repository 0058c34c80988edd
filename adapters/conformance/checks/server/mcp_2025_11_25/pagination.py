"""Checks of pagination for all lists (2025-11-25)."""

from collections.abc import Iterator
from typing import Any

from taskmachine.adapters.conformance.checks.reading.order import exited_after, next_response
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

LISTS = {"tools/list": "tools", "tasks/list": "tasks", "prompts/list": "prompts"}


@check("2025-11-25:cursors-stable", needs="a list with more than one page")
def cursors_stable(history: History) -> Iterator[Observation]:
    """Check that a cursor used twice leads to the same page, unless the list changed meanwhile."""
    first: dict[tuple[Any, ...], Exchange] = {}
    for exchange in history.calls(*LISTS):
        cursor, page = exchange.params.get("cursor"), _page(exchange)
        if not isinstance(cursor, str) or page is None:
            continue
        before = first.setdefault((exchange.request.line, exchange.method, cursor), exchange)
        if before is exchange or _is_disturbed(history, before, exchange):
            continue
        known = _page(before) or []
        if page == known:
            yield good(before, exchange)
        elif exchange.method != "tasks/list" or not _have_gone(
            history, exchange, set(known) - set(page)
        ):
            words = "the same cursor returned different pages of an unchanged list"
            yield bad(words, before, exchange)


def _page(exchange: Exchange) -> list[str] | None:
    """Return the names of the items on a page."""
    kind = LISTS[exchange.method]
    items = exchange.fields.get(kind)
    if not isinstance(items, list):
        return None
    name = "taskId" if kind == "tasks" else "name"
    return [str(item.get(name)) for item in items if isinstance(item, dict)]


def _is_disturbed(history: History, first: Exchange, second: Exchange) -> bool:
    """Return whether the list may have changed between two requests."""
    assert second.response is not None
    begin, end = first.request.number, second.response.number
    changes = ("notifications/tools/list_changed", "notifications/prompts/list_changed")
    if any(begin < entry.number < end for entry in history.notifications(*changes)):
        return True
    return second.method == "tasks/list" and any(
        call.request.number < end and (call.response is None or call.response.number > begin)
        for call in history.calls("tools/call")
        if "task" in call.params
    )


def _have_gone(history: History, second: Exchange, ids: set[str]) -> bool:
    """Return whether some of these ids were never seen again."""
    return any(
        not any(
            sighting.exchange is not None
            and sighting.exchange.request.number > second.request.number
            for sighting in history.by_task.get(id, ())
        )
        for id in ids
    )


@check("2025-11-25:bad-cursor-graceful", needs="a list")
def bad_cursor_graceful(history: History) -> Iterator[Observation]:
    """Check that the target handles an invalid cursor and keeps responding."""
    given = {exchange.fields.get("nextCursor") for exchange in _lists_with_text(history)}
    for exchange in history.calls(*LISTS):
        cursor = exchange.params.get("cursor")
        if cursor is None or (isinstance(cursor, str) and cursor in given):
            continue
        gone = exited_after(history, exchange.request)
        if exchange.status >= 500 and exchange.status != 503:
            words = f"the target responded to an invalid cursor with HTTP {exchange.status}"
            yield bad(words, exchange)
        elif gone is not None:
            yield bad("the target's process exited after an invalid cursor", exchange.request, gone)
        elif exchange.is_answered and next_response(history, exchange.request) is not None:
            yield good(exchange)


def _lists_with_text(history: History) -> Iterator[Exchange]:
    for exchange in history.calls(*LISTS):
        if isinstance(exchange.fields.get("nextCursor"), str):
            yield exchange
