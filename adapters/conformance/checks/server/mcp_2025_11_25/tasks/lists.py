"""Checks of `tasks/list` (2025-11-25)."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.checks.reading.task_rules import TaskRecord, task_records
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    INVALID_PARAMS,
    TASK_FIELDS,
    declares,
    has_tasks_capability,
    is_overloaded,
)
from taskmachine.adapters.conformance.history import Exchange, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note, warning

__all__: list[str] = []

MANY: Final = 200
"""Minimum size of a page that is reported as not limited."""

A_LIST: Final = "a target that declares 'tasks.list'"


@attrs.frozen(eq=False)
class Traversal:
    """A list, read from its first to its last page by the returned cursors."""

    pages: Sequence[Exchange]
    is_quiet: bool
    """Whether no task was started or cancelled meanwhile, as far as the tester knows."""

    @property
    def ids(self) -> list[Any]:
        """Return the ids of all tasks on all pages."""
        return [id for page in self.pages for id in _ids(page)]

    def is_after(self, sighting: Sighting) -> bool:
        """Return whether the sighting precedes the first request for a page."""
        return sighting.entry.number < self.pages[0].request.number

    def is_before(self, sighting: Sighting) -> bool:
        """Return whether the task was read after the last page."""
        last = self.pages[-1].response
        is_asked = sighting.exchange is not None and sighting.where == "get"
        if not is_asked or sighting.exchange is None or last is None:
            return False
        return sighting.exchange.request.number > last.number


@check("2025-11-25:list-capability", needs="a target that declares 'tasks'")
def list_is_declared(history: History) -> Iterator[Observation]:
    """Check that `tasks/list` succeeds where it is declared, and only there."""
    for exchange in history.calls("tasks/list"):
        if not has_tasks_capability(history, exchange) or not exchange.is_answered:
            continue
        if not declares(history, exchange, "list"):
            if exchange.error is None:
                words = "the target serves 'tasks/list' without declaring 'tasks.list'"
                yield warning(words, exchange)
            else:
                yield good(exchange)
        elif exchange.error is None:
            yield good(exchange)
        elif (
            "cursor" not in exchange.params and _is_plain(exchange) and not is_overloaded(exchange)
        ):
            words = f"the target declares 'tasks.list', but responds with error {exchange.code}"
            yield bad(words, exchange)


@check("2025-11-25:list-result-shape", needs=A_LIST)
def list_has_its_shape(history: History) -> Iterator[Observation]:
    """Check that a page is an array of complete tasks with an optional cursor."""
    for exchange in history.calls("tasks/list"):
        if exchange.error is not None or not exchange.is_answered:
            continue
        tasks = exchange.fields.get("tasks")
        cursor = exchange.fields.get("nextCursor", "")
        if not isinstance(tasks, list):
            yield bad("the result of 'tasks/list' has no array 'tasks'", exchange)
        elif any(not isinstance(t, dict) or {*TASK_FIELDS} - {*t} for t in tasks):
            yield bad("'tasks/list' returns a task that lacks required fields", exchange)
        elif not isinstance(cursor, str):
            yield bad(f"'nextCursor' is {cursor!r}, not a string", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:list-paginated", needs="a list with more than one page")
def lists_have_pages(history: History) -> Iterator[Observation]:
    """Check that pages are limited; the specification sets no maximum."""
    for exchange in history.calls("tasks/list"):
        if isinstance(exchange.fields.get("nextCursor"), str):
            yield good(exchange)
        elif len(_ids(exchange)) >= MANY:
            words = f"a page of 'tasks/list' has {len(_ids(exchange))} tasks and no cursor"
            yield note(words, exchange)


@check("2025-11-25:next-cursor-when-more", needs=A_LIST)
def incomplete_lists_have_cursors(history: History) -> Iterator[Observation]:
    """Check that a list has a cursor while more tasks follow."""
    for traversal, record, later in _expected(history):
        if record.id in traversal.ids:
            yield good(*traversal.pages[-1:])
        elif traversal.ids:
            words = "'tasks/list' ended without a cursor, but lacks a task that exists"
            yield bad(words, traversal.pages[-1], later)


@check("2025-11-25:get-implies-list", needs=A_LIST)
def readable_tasks_are_listed(history: History) -> Iterator[Observation]:
    """Check that the list contains each task that the same caller can read."""
    for traversal, record, later in _expected(history):
        if record.id in traversal.ids:
            yield good(*traversal.pages[-1:], later)
        else:
            words = "the caller can read a task with 'tasks/get' that is missing from 'tasks/list'"
            yield bad(words, *traversal.pages[-1:], later)


@check("2025-11-25:list-no-duplicates", needs=A_LIST)
def tasks_are_listed_once(history: History) -> Iterator[Observation]:
    """Check that each task is listed once; repetition across pages is only a warning."""
    for exchange in history.calls("tasks/list"):
        ids = [repr(id) for id in _ids(exchange)]
        if len(ids) > len({*ids}):
            yield bad("one page of 'tasks/list' contains the same task twice", exchange)
        elif len(ids) > 1:
            yield good(exchange)
    for traversal in _traversals(history):
        distinct = sum(len({repr(id) for id in _ids(page)}) for page in traversal.pages)
        if traversal.is_quiet and distinct > len({repr(id) for id in traversal.ids}):
            yield warning("two pages of 'tasks/list' contain the same task", *traversal.pages)


@check("2025-11-25:list-bad-cursor-32602", needs=A_LIST)
def unknown_cursors_are_refused(history: History) -> Iterator[Observation]:
    """Check that an unknown cursor is rejected with -32602."""
    given = {repr(e.fields.get("nextCursor")) for e in history.calls("tasks/list")}
    for exchange in history.calls("tasks/list"):
        cursor = exchange.params.get("cursor")
        # An empty cursor may count as none.
        if cursor in (None, "") or repr(cursor) in given or not declares(history, exchange, "list"):
            continue
        if not exchange.is_answered or is_overloaded(exchange):
            continue
        if exchange.code == INVALID_PARAMS:
            yield good(exchange)
        elif exchange.error is not None:
            words = f"the target rejects an unknown cursor with {exchange.code}, not -32602"
            yield bad(words, exchange)
        else:
            yield bad("the target accepts a cursor that it never issued", exchange)


def _ids(page: Exchange) -> list[Any]:
    tasks = page.fields.get("tasks")
    found = tasks if isinstance(tasks, list) else []
    return [task.get("taskId") for task in found if isinstance(task, dict)]


def _is_plain(exchange: Exchange) -> bool:
    """Return whether the parameters are valid."""
    params = exchange.request.body.get("params", {})
    return isinstance(params, dict) and {*params} <= {"cursor", "_meta"}


@lru_cache(maxsize=4)
def _traversals(history: History) -> tuple[Traversal, ...]:
    """Return all lists that were read to their end."""
    open_pages: dict[tuple[int, str], list[Exchange]] = {}
    found = []
    for exchange in history.calls("tasks/list"):
        if not isinstance(exchange.fields.get("tasks"), list) or not _is_plain(exchange):
            continue
        line, cursor = exchange.request.line, exchange.params.get("cursor")
        before = [] if cursor is None else open_pages.pop((line, repr(cursor)), None)
        if before is None:
            continue
        pages = [*before, exchange]
        following = exchange.fields.get("nextCursor")
        if isinstance(following, str):
            open_pages[line, repr(following)] = pages
        elif following is None:
            found.append(Traversal(pages, _is_quiet(history, pages)))
    return tuple(found)


def _is_quiet(history: History, pages: Sequence[Exchange]) -> bool:
    """Return whether no task was started or cancelled while these pages were read."""
    if len(pages) == 1:
        return True
    last = pages[-1].response
    begin, end = pages[0].request.number, 0 if last is None else last.number
    return not any(
        call.request.number < end and (call.response is None or call.response.number > begin)
        for call in history.calls("tools/call", "tasks/cancel")
    )


def _expected(history: History) -> Iterator[tuple[Traversal, TaskRecord, Sighting]]:
    """Yield each complete list with each task readable on its connection before and after it."""
    known = list(task_records(history))
    for traversal in _traversals(history):
        line = traversal.pages[0].request.line
        if not traversal.is_quiet or not declares(history, traversal.pages[0], "list"):
            continue
        for record in known:
            seen = [s for s in record.sightings if s.entry.line == line and s.exchange is not None]
            later = next((s for s in seen if traversal.is_before(s)), None)
            if later is not None and any(traversal.is_after(s) for s in seen):
                yield traversal, record, later
