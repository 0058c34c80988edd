"""Checks of tasks that need input (2025-11-25)."""

from collections.abc import Iterator
from typing import Final

from taskmachine.adapters.conformance.checks.reading.order import SOON_MS, taken
from taskmachine.adapters.conformance.checks.reading.sightings import Life, life_of, lives
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import call_key, in_flight
from taskmachine.adapters.conformance.checks.server.mcp_2025_11_25.tasks.related import QUESTIONS
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

A_QUESTION: Final = "a task that requests input"


@check("2025-11-25:input-required-when-asking", needs=A_QUESTION)
def who_asks_needs_input(history: History) -> Iterator[Observation]:
    """Check that a task is `input_required` while a request for input is open."""
    for life in lives(history):
        for question, reply in _questions(history, life):
            for seen in life.sightings:
                if not _is_between(seen, question, reply) or seen.is_terminal:
                    continue
                if seen.status == "input_required":
                    yield good(question, seen)
                elif seen.status == "working":
                    yield bad(
                        "a task is 'working' while its request for input is open; it must be "
                        "'input_required'",
                        question,
                        seen,
                    )


@check("2025-11-25:leaves-input-required-when-answered", needs=A_QUESTION)
def who_is_answered_goes_on(history: History) -> Iterator[Observation]:
    """Check that a task leaves `input_required` soon after all responses."""
    for life in lives(history):
        questions = _questions(history, life)
        replies = [reply for _, reply in questions if reply is not None and "result" in reply.body]
        if not questions or len(replies) < len(questions):
            continue
        last = max(replies, key=lambda entry: entry.number)
        if _is_refused(history, last):
            continue
        for seen in life.sightings:
            if seen.exchange is None or seen.exchange.request.number < last.number:
                continue
            if seen.status != "input_required":
                yield good(last, seen)
                break
            is_late = seen.since > last.at + SOON_MS
            if is_late and _listens(history, life, last, seen.entry):
                yield bad(
                    "all requests for input received a response, but the task is still "
                    "'input_required'",
                    last,
                    seen,
                )
                break


@check("2025-11-25:status-input-required", needs=A_QUESTION)
def who_needs_input_asks(history: History) -> Iterator[Observation]:
    """Check that a task in `input_required` sends a request where the client can receive it."""
    for life in lives(history):
        for silent in _silent(history, life):
            yield bad("a task is 'input_required', but sent no request for input", *silent)
        waiting = next((s for s in life.sightings if s.status == "input_required"), None)
        if waiting is not None and _questions(history, life):
            yield good(waiting, _questions(history, life)[0][0])


@check("2025-11-25:status-working", needs="a task")
def who_asks_nothing_works(history: History) -> Iterator[Observation]:
    """Check that a running task without open requests is `working`."""
    for life in lives(history):
        for silent in _silent(history, life):
            yield bad("a task sent no request for input, but is not 'working'", *silent)
        working = next((s for s in life.sightings if s.status == "working"), None)
        if working is not None:
            yield good(working)


@check("2025-11-25:question-task-id-matches", needs="two tasks that request input at the same time")
def questions_name_the_task_that_asks(history: History) -> Iterator[Observation]:
    """Check that a task that received input had a request under its own id."""
    for life in lives(history):
        own = _questions(history, life)
        needed = next((s for s in life.sightings if s.status == "input_required"), None)
        if needed is None:
            continue
        if own:
            yield good(own[0][0], needed)
            continue
        went_on = next((s for s in life.sightings if _is_served(needed, s)), None)
        other = _asked_twice(history, life)
        if went_on is not None and other and _was_listened_to(history, life):
            words = "a task left 'input_required', but all requests for input named another task"
            yield bad(words, needed, *other, went_on)


# --- selections -----------------------------------------------------------------------------------


def _questions(history: History, life: Life) -> list[tuple[Entry, Entry | None]]:
    """Return the requests for input of a task, each with the client's response."""
    return [
        (question, reply)
        for question, reply in history.questions
        if question.method in QUESTIONS
        and question.related_task == life.id
        and life_of(history, life.id, question) is life
    ]


def _is_between(seen: Sighting, question: Entry, reply: Entry | None) -> bool:
    """Return whether the poll falls entirely between the request and the response."""
    if seen.exchange is None or seen.exchange.request.number < question.number:
        return False
    if reply is None:  # It may have been withdrawn meanwhile.
        return seen.until < question.at + SOON_MS
    return seen.entry.number < reply.number


def _is_refused(history: History, reply: Entry) -> bool:
    """Return whether the target rejected the response."""
    head = taken(history, reply)
    return head is not None and head.http is not None and head.http.status >= 400


def _results(history: History, life: Life) -> Iterator[Exchange]:
    for exchange in history.results.get(life.id, ()):
        if life_of(history, life.id, exchange.request) is life:
            yield exchange


def _listens(history: History, life: Life, since: Entry, until: Entry) -> bool:
    """Return whether a `tasks/result` was open all the time, to carry more requests."""
    return any(in_flight(asked, since, until) for asked in _results(history, life))


def _silent(history: History, life: Life) -> Iterator[tuple[Exchange, Sighting, Sighting]]:
    """Yield long `input_required` periods with an open `tasks/result` and no request for input."""
    waiting = [s for s in life.sightings if s.status == "input_required" and s.exchange is not None]
    for asked in _results(history, life):
        line = asked.request.line
        if any(q.line == line and _may_be_of(q, life) for q, _ in history.questions):
            continue
        during = [s for s in waiting if in_flight(asked, s.entries[0], s.entry)]
        first = min(_results(history, life), key=lambda exchange: exchange.request.number)
        if not during or not _hears_everything(history, first, during[-1].entry):
            continue
        if during[-1].since - during[0].until > SOON_MS:
            yield asked, during[0], during[-1]
            return


def _hears_everything(history: History, asked: Exchange, until: Entry) -> bool:
    """Return whether requests would have been received: they may also come on a GET stream."""
    if history.transport == "stdio":
        return True
    gets = {
        entry.post
        for entry in history.entries
        if entry.kind is Kind.SENT
        and entry.line == asked.request.line
        and entry.number < asked.request.number
        and entry.http is not None
        and entry.http.method == "GET"
    }
    ended = {
        entry.post
        for entry in history.entries
        if entry.kind in (Kind.ENDED, Kind.LEFT) and entry.number < until.number
    }
    return bool(gets - ended)


def _may_be_of(question: Entry, life: Life) -> bool:
    return question.method in QUESTIONS and question.related_task in (None, life.id)


def _is_served(needed: Sighting, later: Sighting) -> bool:
    return needed.precedes(later) and later.status in ("working", "completed")


def _asked_twice(history: History, life: Life) -> list[Entry]:
    """Return two requests that named another task of the same tool, which sends only one."""
    created = None if life.created is None else life.created.exchange
    for other in lives(history):
        made = None if other.created is None else other.created.exchange
        if other is life or created is None or made is None or call_key(made) != call_key(created):
            continue
        asked = [question for question, reply in _questions(history, other) if reply is not None]
        if len(asked) > 1:
            return asked[:2]
    return []


def _was_listened_to(history: History, life: Life) -> bool:
    return any(True for _ in _results(history, life))
