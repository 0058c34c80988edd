"""How clients of 2025-11-25 answer what they are asked."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs

from taskmachine.adapters.conformance.checks.client.polling import PATIENCE_MS, lived_until
from taskmachine.adapters.conformance.clients.view import as_client
from taskmachine.adapters.conformance.history import Entry, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good

__all__ = ["elicit_result_fault"]

_ANSWERS: Final = "a client that answers elicitations"


def _declared(history: History, line: int, kind: str) -> Mapping[str, Any] | None:
    for entry in history.heard:
        if entry.method == "initialize" and entry.line == line:
            capabilities = entry.params.get("capabilities")
            found = capabilities.get(kind) if isinstance(capabilities, dict) else None
            return found if isinstance(found, dict) else None
    return None


def _elicitations(history: History) -> Iterator[tuple[Entry, Entry]]:
    """Questions that are no task, each with its answer."""
    for question, answer in as_client(history).questions:
        is_plain = question.method == "elicitation/create" and "task" not in question.params
        if is_plain and answer is not None:
            yield question, answer


def elicit_result_fault(result: Any, schema: Any) -> str | None:
    """Why this is no answer to a form; None if it is one."""
    if not isinstance(result, dict):
        return "an answer is no object"
    action = result.get("action")
    if action not in ("accept", "decline", "cancel"):
        return f"`action` is {action!r:.40}"
    if action != "accept" or not isinstance(schema, dict):
        return None
    content = result.get("content")
    if not isinstance(content, dict):
        return "an accepted form has no `content`"
    if not jsonschema_rs.is_valid(schema, content, offline=True):
        return "`content` does not fit the schema of the form"
    return None


@client_check(
    "2025-11-25:elicitation-three-actions",
    "2025-11-25:elicitation-client-validates",
    needs=_ANSWERS,
)
def three_actions(history: History) -> Iterator[Observation]:
    """Accept, decline or cancel; what is accepted fits the form."""
    for question, answer in _elicitations(history):
        if "result" in answer.body:
            schema = question.params.get("requestedSchema")
            fault = elicit_result_fault(answer.body["result"], schema)
            yield good(question, answer) if fault is None else bad(fault, question, answer)


@client_check("2025-11-25:elicitation-declared", needs=_ANSWERS)
def elicitation_declared(history: History) -> Iterator[Observation]:
    """Whoever answers has declared that."""
    for question, answer in _elicitations(history):
        if "result" not in answer.body:
            continue
        if _declared(history, question.line, "elicitation") is None:
            yield bad("answered an elicitation, but did not declare it", question, answer)
        else:
            yield good(question, answer)


@client_check("2025-11-25:elicitation-one-mode", needs=_ANSWERS)
def one_mode(history: History) -> Iterator[Observation]:
    """Whoever declared forms alone does not refuse each of them."""
    forms = [(q, a) for q, a in _elicitations(history) if q.params.get("mode", "form") == "form"]
    answered = [(q, a) for q, a in forms if "result" in a.body]
    if answered:
        yield good(*answered[0])
    elif forms:
        question, answer = forms[0]
        declared = _declared(history, question.line, "elicitation")
        if declared is not None and not set(declared) - {"form"}:
            yield bad("declared elicitation, but refuses every form", question, answer)


@client_check("2025-11-25:elicitation-no-mode-is-form", needs=_ANSWERS)
def no_mode_is_form(history: History) -> Iterator[Observation]:
    """A question without a mode is answered by whoever answers forms."""
    forms = [a for q, a in _elicitations(history) if q.params.get("mode") == "form"]
    takes_forms = any("result" in answer.body for answer in forms)
    for question, answer in _elicitations(history):
        if "mode" not in question.params:
            if "result" in answer.body:
                yield good(question, answer)
            elif takes_forms:
                yield bad("refused a form because it names no mode", question, answer)


@client_check("2025-11-25:elicitation-undeclared-mode-32602", needs=_ANSWERS)
def undeclared_mode(history: History) -> Iterator[Observation]:
    """A mode that was not declared is refused with -32602."""
    for question, answer in _elicitations(history):
        declared = _declared(history, question.line, "elicitation")
        mode = question.params.get("mode", "form")
        if declared is None or mode == "form" or mode in declared:
            continue
        error = answer.body.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if code == -32602:
            yield good(question, answer)
        elif "result" in answer.body:
            yield bad(f"answered an elicitation in mode '{mode}', undeclared", question, answer)
        else:
            yield bad(f"refused an undeclared mode with {code}", question, answer)


@client_check("2025-11-25:elicitation-empty-is-form", needs="a client that declares only `{}`")
def empty_is_form(history: History) -> Iterator[Observation]:
    """Whoever declares an empty object answers forms."""
    for question, answer in _elicitations(history):
        is_form = question.params.get("mode", "form") == "form"
        is_empty = _declared(history, question.line, "elicitation") == {}
        if is_empty and is_form and "result" in answer.body:
            yield good(question, answer)


@client_check("2025-11-25:sampling-declared", needs="a client that answers sampling")
def sampling_declared(history: History) -> Iterator[Observation]:
    """Whoever answers has declared that."""
    for question, answer in as_client(history).questions:
        if question.method != "sampling/createMessage" or answer is None:
            continue
        if "result" in answer.body:
            if _declared(history, question.line, "sampling") is None:
                yield bad("answered sampling, but did not declare it", question, answer)
            else:
                yield good(question, answer)


@client_check("2025-11-25:messages-on-any-stream", needs="a client that answers questions")
def answers_on_any_stream(history: History) -> Iterator[Observation]:
    """A question on the GET stream, or on that of a poll, is answered like any other."""
    client = as_client(history)
    if not any(answer is not None for _, answer in client.questions):
        return
    for question, answer in client.questions:
        carrier = next((e for e in history.heard if e.post == question.post), None)
        if question.related_task is None or carrier is None or carrier.method == "tasks/result":
            continue
        if answer is not None:
            yield good(question, answer)
        elif _was_heard_out(history, question):
            yield bad("did not answer a question that came on another stream", carrier, question)


def _was_heard_out(history: History, question: Entry) -> bool:
    """Whether the client was there for long enough afterwards, and had not left the stream."""
    left = any(
        e.kind is Kind.ENDED and e.post == question.post and e.at < question.at + PATIENCE_MS
        for e in history.entries
    )
    return not left and lived_until(history) - question.at > PATIENCE_MS
