"""Rules about JSON-RPC messages that both revisions share.

Observers are not registered here: each revision registers them under its own ids.
"""

from collections.abc import Iterator
from typing import Any

from taskmachine.adapters.conformance.history import MISSING, Entry, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, good, warning

__all__ = [
    "errors_have_code_and_message",
    "errors_have_integer_codes",
    "errors_have_the_id",
    "is_well_formed",
    "is_word_of_http",
    "message_fault",
    "notifications_are_not_answered",
    "notifications_have_no_id",
    "requests_of_the_target",
    "results_are_objects",
    "results_have_the_id",
    "same_id",
    "speaks_jsonrpc",
    "statuses",
]


def message_fault(message: Any) -> str | None:
    """Why this is no JSON-RPC 2.0 message of MCP; None if it is one."""
    if not isinstance(message, dict):
        return f"a message is {_kind_of(message)}, not an object"
    if message.get("jsonrpc") != "2.0":
        return '`jsonrpc` is not "2.0"'
    if "method" in message:
        if not isinstance(message["method"], str):
            return "`method` is no string"
        if "result" in message or "error" in message:
            return "a message is both a question and an answer"
        if not isinstance(message.get("params", {}), dict):
            return "`params` is no object"
        return None
    if ("result" in message) == ("error" in message):
        return "an answer must have `result` or `error`, and not both"
    return None


def is_well_formed(entry: Entry) -> bool:
    """Whether what we sent could be read: then its id could be read too, if it had one."""
    if entry.message is MISSING or message_fault(entry.message) is not None:
        return False
    return "id" not in entry.body or _is_id(entry.body["id"])


def same_id(one: Any, other: Any) -> bool:
    """Whether two ids are the same, with the same type; 1 and 1.0 are the same JSON number."""
    return _key(one) == _key(other)


def _key(id: Any) -> tuple[str, Any]:
    if isinstance(id, bool) or not isinstance(id, str | int | float):
        return "neither", repr(id)
    return "string" if isinstance(id, str) else "number", id


def statuses(history: History) -> dict[int, int]:
    """The HTTP status of each post that was answered."""
    return {
        entry.post: entry.http.status
        for entry in history.entries
        if entry.kind is Kind.HEAD and entry.post is not None and entry.http is not None
    }


def is_word_of_http(entry: Entry, status: dict[int, int]) -> bool:
    """Whether it is the body of an HTTP error that does not even claim to be JSON-RPC."""
    is_error = entry.post is not None and status.get(entry.post, 0) >= 300
    return is_error and "jsonrpc" not in entry.body


def _spoken(history: History) -> Iterator[Entry]:
    """What the target said as JSON-RPC: neither the words of HTTP errors nor what is no JSON."""
    status = statuses(history)
    for entry in history.heard:
        if entry.message is not MISSING and not is_word_of_http(entry, status):
            yield entry


def requests_of_the_target(history: History) -> Iterator[Entry]:
    """What the target asks; what is called a notification is none, whatever id it has."""
    for question, _ in history.questions:
        if not (question.method or "").startswith("notifications/"):
            yield question


def speaks_jsonrpc(history: History) -> Iterator[Observation]:
    """Every message is a request, a notification, a result or an error."""
    for entry in _spoken(history):
        fault = message_fault(entry.message)
        yield good(entry) if fault is None else bad(fault, entry)


def results_are_objects(history: History) -> Iterator[Observation]:
    """A result response has `result`, and that is an object."""
    for entry in _spoken(history):
        if "method" in entry.body or "error" in entry.body or not entry.body:
            continue
        if "result" not in entry.body:
            yield bad("an answer has neither `result` nor `error`", entry)
        elif not isinstance(entry.body["result"], dict):
            yield bad(f"`result` is {_kind_of(entry.body['result'])}, not an object", entry)
        else:
            yield good(entry)


def results_have_the_id(history: History) -> Iterator[Observation]:
    """Each result has the id of a request of ours that was open there."""
    asked = _Asked(history)
    for entry in asked.answers():
        if "result" in entry.body:
            if asked.knows(entry):
                yield good(entry)
            else:
                yield bad("a result has an id that no request had", *asked.last(entry), entry)


def errors_have_the_id(history: History) -> Iterator[Observation]:
    """Each error has the id of a request of ours, unless that could not be read."""
    status = statuses(history)
    asked = _Asked(history)
    for entry in asked.answers():
        if "error" not in entry.body:
            continue
        id = entry.body.get("id")
        # HTTP refuses before it reads: no session, a wrong Origin, too large a body.
        is_refusal = entry.post is not None and status.get(entry.post, 0) >= 400
        if asked.knows(entry) or (id is None and (is_refusal or asked.was_unreadable(entry))):
            yield good(entry)
        elif asked.was_unreadable(entry):
            continue
        elif is_refusal:
            yield warning("an error has an id that no request had", *asked.last(entry), entry)
        elif id is not None:
            yield bad("an error has an id that no request had", *asked.last(entry), entry)
        elif waiting := _waiting(history, entry):
            yield bad("an error has no id, though the request had one", waiting, entry)


def _waiting(history: History, answer: Entry) -> Entry | None:
    """A request that this must be meant for, since it was never answered otherwise.

    Without one it is the answer to a notification.
    """
    for exchange in reversed(history.exchanges):
        request = exchange.request
        is_there = request.line == answer.line and request.post == answer.post
        is_open = exchange.response is None or exchange.response is answer
        if is_there and is_open and request.number < answer.number:
            return request
    return None


class _Asked:
    """What of ours an answer can be meant for: what is on its own post, else on its line.

    It grows while `answers` is walked through, so that it always ends before the answer at hand.
    A GET with `Last-Event-ID` continues any stream of its line.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._ids: dict[tuple[str, int], set[tuple[str, Any]]] = {}
        self._last: dict[tuple[str, int], Entry] = {}
        self._unreadable: set[tuple[str, int]] = set()

    def answers(self) -> Iterator[Entry]:
        """The answers of the target, in order."""
        spoken = {entry.number for entry in _spoken(self._history)}
        for entry in self._history.entries:
            if entry.kind is Kind.SENT:
                self._add(entry)
            elif entry.number in spoken and entry.is_response:
                yield entry

    def knows(self, answer: Entry) -> bool:
        """Whether its id was sent."""
        return _key(answer.body.get("id")) in self._ids.get(self._place(answer), ())

    def last(self, answer: Entry) -> list[Entry]:
        """What may show what it should have answered."""
        last = self._last.get(self._place(answer))
        return [] if last is None else [last]

    def was_unreadable(self, answer: Entry) -> bool:
        """Whether something that cannot be read was sent there."""
        return self._place(answer) in self._unreadable

    def _add(self, sent: Entry) -> None:
        places = [("line", sent.line)] + ([] if sent.post is None else [("post", sent.post)])
        batch = sent.message if isinstance(sent.message, list) else [sent.message]
        ids = {_key(one["id"]) for one in batch if isinstance(one, dict) and "id" in one}
        for place in places:
            self._ids.setdefault(place, set()).update(ids)
            if ids:
                self._last[place] = sent
            if sent.http is None or sent.http.method == "POST":
                self._unreadable |= set() if is_well_formed(sent) else {place}

    def _place(self, answer: Entry) -> tuple[str, int]:
        own = ("post", answer.post or 0)
        is_own = answer.post is not None and (self._ids.get(own) or own in self._unreadable)
        return own if is_own else ("line", answer.line)


def _errors(history: History) -> Iterator[tuple[Any, Entry]]:
    """The errors of answers, and those of failed tasks (2026-07-28)."""
    for entry in _spoken(history):
        if "method" not in entry.body and "error" in entry.body:
            yield entry.body["error"], entry
    for sighting in history.sightings:
        if sighting.status == "failed" and "error" in sighting.task:
            yield sighting.task["error"], sighting.entry


def errors_have_code_and_message(history: History) -> Iterator[Observation]:
    """Each error is an object with a code and a message."""
    for error, entry in _errors(history):
        if not isinstance(error, dict):
            yield bad(f"`error` is {_kind_of(error)}, not an object", entry)
        elif "code" not in error:
            yield bad("an error has no `code`", entry)
        elif not isinstance(error.get("message"), str):
            yield bad("an error has no `message` that is a string", entry)
        else:
            yield good(entry)


def errors_have_integer_codes(history: History) -> Iterator[Observation]:
    """Each code is an integer."""
    for error, entry in _errors(history):
        code = error.get("code", MISSING) if isinstance(error, dict) else MISSING
        if code is MISSING:
            continue
        is_integer = isinstance(code, int) or (isinstance(code, float) and code.is_integer())
        if is_integer and not isinstance(code, bool):
            yield good(entry)
        else:
            yield bad(f"an error code is {_kind_of(code)}, not an integer", entry)


def notifications_have_no_id(history: History) -> Iterator[Observation]:
    """What is called `notifications/...` has no id."""
    for entry in _spoken(history):
        if (entry.method or "").startswith("notifications/"):
            yield bad("a notification has an `id`", entry) if "id" in entry.body else good(entry)


def notifications_are_not_answered(history: History) -> Iterator[Observation]:
    """A notification gets no response; a refusal by HTTP is none."""
    if history.transport == "stdio":
        yield from _silence_on_pipes(history)
        return
    status = statuses(history)
    answers = {entry.post: entry for entry in reversed(history.heard) if entry.is_response}
    for entry in _notified(history):
        answer = answers.get(entry.post)
        if entry.post not in status:
            continue
        if answer is not None and status[entry.post] < 400:
            yield bad("a notification was answered", entry, answer)
        else:
            yield good(entry)


def _silence_on_pipes(history: History) -> Iterator[Observation]:
    """No answer without an id until something of ours was answered.

    If anything unreadable was sent before, such an answer may be meant for that.
    """
    waiting: dict[int, list[Entry]] = {}
    unreadable: set[int] = set()
    notified = {entry.number for entry in _notified(history)}
    for entry in history.entries:
        if entry.number in notified:
            waiting.setdefault(entry.line, []).append(entry)
        elif entry.kind is Kind.SENT and not is_well_formed(entry):
            unreadable.add(entry.line)
        elif entry.kind is Kind.HEARD and entry.is_response:
            sent = waiting.pop(entry.line, [])
            if entry.body.get("id") is not None:
                yield from map(good, sent)
            elif sent and entry.line not in unreadable:
                yield bad("a notification was answered", sent[-1], entry)


def _notified(history: History) -> Iterator[Entry]:
    """The proper notifications that we sent."""
    for entry in history.entries:
        if entry.kind is Kind.SENT and entry.is_notification and is_well_formed(entry):
            yield entry


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _kind_of(value: Any) -> str:
    """A JSON type in words."""
    if value is None:
        return "null"
    kinds = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}
    return kinds.get(type(value), "a number")
