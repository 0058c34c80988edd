"""Questions and answers belong to one principal (2025-11-25)."""

from collections.abc import Iterator

from taskmachine.adapters.conformance.checks.asked import Asked, all_asked, all_told
from taskmachine.adapters.conformance.checks.outcomes import maker, sightings_of
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind, id_key
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

NEEDS = "HTTP, the tokens of two principals, and a tool that asks for a form"
LOOKS = ("tasks/get", "tasks/result", "tasks/cancel")


def _is_other(history: History, one: Entry, other: Entry) -> bool:
    """Whether two entries are of different principals."""
    first, second = (history.principals.get(entry.caller) for entry in (one, other))
    return first is not None and second is not None and first != second


def _owned(history: History) -> Iterator[tuple[Asked, Exchange]]:
    """The questions of tasks, with the calls that made those."""
    for asked in all_asked(history):
        made = maker(history, asked.task_id, asked.entry)
        if made is not None and asked.method == "elicitation/create":
            yield asked, made


def _looks_of_others(history: History, task_id: str | None, owner: Entry) -> Iterator[Exchange]:
    for exchange in history.calls(*LOOKS):
        if exchange.task_id == task_id and _is_other(history, owner, exchange.request):
            yield exchange


@check("2025-11-25:elicitation-bound-to-user", needs=NEEDS)
def bound_to_user(history: History) -> Iterator[Observation]:
    """Nobody else is asked, and nobody else's answer counts."""
    for asked, made in _owned(history):
        if _is_other(history, made.request, asked.entry):
            yield bad("somebody else was asked", made, asked.entry)
            continue
        for look in _looks_of_others(history, asked.task_id, made.request):
            if look.is_answered:
                yield good(asked.entry, look)
        yield from _answered_by_others(history, asked)


def _answered_by_others(history: History, asked: Asked) -> Iterator[Observation]:
    """An answer under the same id, by somebody who was not asked anything under it."""
    own = {entry.number: answer for entry, answer in history.questions}.get(asked.entry.number)
    for entry in history.entries:
        is_answer = entry.kind is Kind.SENT and entry.is_response
        if not is_answer or not _is_other(history, asked.entry, entry):
            continue
        if id_key(entry.body.get("id")) != id_key(asked.entry.body["id"]):
            continue
        if any(
            question.line == entry.line and id_key(question.body["id"]) == id_key(entry.body["id"])
            for question, _ in history.questions
        ):
            continue
        for sighting in sightings_of(history, str(asked.task_id), asked.entry):
            exchange = sighting.exchange
            if exchange is None or exchange.request.number < entry.number:
                continue
            if own is not None and own.number < sighting.entry.number:
                break
            if sighting.status == "input_required":
                yield good(entry, sighting)
            elif sighting.status in ("working", "completed"):
                yield bad("somebody else's answer was taken", asked.entry, entry, sighting)
                break


@check("2025-11-25:elicitation-state-per-user", needs=NEEDS)
def state_per_user(history: History) -> Iterator[Observation]:
    """What came of an answer is not shown to anybody else."""
    for told in all_told(history):
        made = maker(history, told.asked.task_id, told.sent)
        if made is None or told.asked.method != "elicitation/create":
            continue
        for look in _looks_of_others(history, told.asked.task_id, made.request):
            if look.request.number < told.sent.number or not look.is_answered:
                continue
            if look.error is None:
                yield bad("somebody else sees a task that was answered", told.sent, look)
            else:
                yield good(told.sent, look)


@check("2025-11-25:elicitation-state-not-session-only", needs=NEEDS)
def state_not_session_only(history: History) -> Iterator[Observation]:
    """Whoever knows the id of a session, but is somebody else, learns nothing by it."""
    sessions = {
        exchange.headers["mcp-session-id"]: exchange
        for exchange in history.calls("initialize")
        if "mcp-session-id" in exchange.headers
    }
    for exchange in history.calls(*LOOKS):
        hello = sessions.get(exchange.sent_headers.get("mcp-session-id", ""))
        if hello is None or not _is_other(history, hello.request, exchange.request):
            continue
        questions = [entry for entry in exchange.others if entry.is_request]
        if questions:
            yield bad("a session alone was enough to be asked", exchange.request, questions[0])
        elif exchange.fields:
            yield bad("a session alone was enough to see a task", exchange)
        elif exchange.status or exchange.is_answered:
            yield good(exchange)
