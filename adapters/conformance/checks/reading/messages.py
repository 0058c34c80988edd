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
    "is_plain_http_error",
    "is_well_formed",
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
    """Return why a value is not a JSON-RPC 2.0 message of MCP, or None if it is one."""
    if not isinstance(message, dict):
        return f"a message is {_kind_of(message)}, not an object"
    if message.get("jsonrpc") != "2.0":
        return '`jsonrpc` is not "2.0"'
    if "method" in message:
        if not isinstance(message["method"], str):
            return "`method` is not a string"
        if "result" in message or "error" in message:
            return "a message has both `method` and `result` or `error`"
        if not isinstance(message.get("params", {}), dict):
            return "`params` is not an object"
        return None
    if ("result" in message) == ("error" in message):
        return "a response must have either `result` or `error`, not both or neither"
    return None


def is_well_formed(entry: Entry) -> bool:
    """Return whether the target could parse a message of the tester, including its id."""
    if entry.message is MISSING or message_fault(entry.message) is not None:
        return False
    return "id" not in entry.body or _is_id(entry.body["id"])


def same_id(one: Any, other: Any) -> bool:
    """Return whether two ids are equal and of the same type; 1 and 1.0 are the same JSON number."""
    return _key(one) == _key(other)


def _key(id: Any) -> tuple[str, Any]:
    if isinstance(id, bool) or not isinstance(id, str | int | float):
        return "neither", repr(id)
    return "string" if isinstance(id, str) else "number", id


def statuses(history: History) -> dict[int, int]:
    """Return the HTTP status of each request that received a response."""
    return {
        entry.post: entry.http.status
        for entry in history.entries
        if entry.kind is Kind.HEAD and entry.post is not None and entry.http is not None
    }


def is_plain_http_error(entry: Entry, status: dict[int, int]) -> bool:
    """Return whether an entry is the body of an HTTP error that does not claim to be JSON-RPC."""
    is_error = entry.post is not None and status.get(entry.post, 0) >= 300
    return is_error and "jsonrpc" not in entry.body


def _jsonrpc_messages(history: History) -> Iterator[Entry]:
    """Yield the JSON messages of the target, without HTTP error bodies outside JSON-RPC."""
    status = statuses(history)
    for entry in history.heard:
        if entry.message is not MISSING and not is_plain_http_error(entry, status):
            yield entry


def requests_of_the_target(history: History) -> Iterator[Entry]:
    """Yield the requests of the target, without notifications that wrongly have an id."""
    for question, _ in history.questions:
        if not (question.method or "").startswith("notifications/"):
            yield question


def speaks_jsonrpc(history: History) -> Iterator[Observation]:
    """Check that every message is a request, a notification, a result or an error."""
    for entry in _jsonrpc_messages(history):
        fault = message_fault(entry.message)
        yield good(entry) if fault is None else bad(fault, entry)


def results_are_objects(history: History) -> Iterator[Observation]:
    """Check that a response without `error` has a `result` that is an object."""
    for entry in _jsonrpc_messages(history):
        if "method" in entry.body or "error" in entry.body or not entry.body:
            continue
        if "result" not in entry.body:
            yield bad("a response has neither `result` nor `error`", entry)
        elif not isinstance(entry.body["result"], dict):
            yield bad(f"`result` is {_kind_of(entry.body['result'])}, not an object", entry)
        else:
            yield good(entry)


def results_have_the_id(history: History) -> Iterator[Observation]:
    """Check that each result has the id of a pending request of the same connection."""
    sent_requests = _SentRequests(history)
    for entry in sent_requests.answers():
        if "result" in entry.body:
            if sent_requests.has_id_of(entry):
                yield good(entry)
            else:
                words = "a result has an id that no request of the client used"
                yield bad(words, *sent_requests.last(entry), entry)


def errors_have_the_id(history: History) -> Iterator[Observation]:
    """Check that each error has the id of a request, unless the request could not be parsed."""
    status = statuses(history)
    sent_requests = _SentRequests(history)
    for entry in sent_requests.answers():
        if "error" not in entry.body:
            continue
        id = entry.body.get("id")
        # HTTP servers may reject before parsing: unknown session, wrong Origin, body too large.
        is_refusal = entry.post is not None and status.get(entry.post, 0) >= 400
        if sent_requests.has_id_of(entry) or (
            id is None and (is_refusal or sent_requests.was_unreadable(entry))
        ):
            yield good(entry)
        elif sent_requests.was_unreadable(entry):
            continue
        elif is_refusal:
            words = "an error has an id that no request of the client used"
            yield warning(words, *sent_requests.last(entry), entry)
        elif id is not None:
            words = "an error has an id that no request of the client used"
            yield bad(words, *sent_requests.last(entry), entry)
        elif pending := _pending_request(history, entry):
            yield bad("an error has no id, although the request had one", pending, entry)


def _pending_request(history: History, answer: Entry) -> Entry | None:
    """Return a request without another response, for which this response must be meant.

    If there is none, the response belongs to a notification.
    """
    for exchange in reversed(history.exchanges):
        request = exchange.request
        is_there = request.line == answer.line and request.post == answer.post
        is_open = exchange.response is None or exchange.response is answer
        if is_there and is_open and request.number < answer.number:
            return request
    return None


class _SentRequests:
    """Messages of the tester that a response can belong to: on its own HTTP request or connection.

    It is filled while `answers` is iterated, so it only contains messages sent before the current
    response. A GET with `Last-Event-ID` continues any stream of its connection.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._ids: dict[tuple[str, int], set[tuple[str, Any]]] = {}
        self._last: dict[tuple[str, int], Entry] = {}
        self._unreadable: set[tuple[str, int]] = set()

    def answers(self) -> Iterator[Entry]:
        """Yield the responses of the target in order."""
        jsonrpc = {entry.number for entry in _jsonrpc_messages(self._history)}
        for entry in self._history.entries:
            if entry.kind is Kind.SENT:
                self._add(entry)
            elif entry.number in jsonrpc and entry.is_response:
                yield entry

    def has_id_of(self, answer: Entry) -> bool:
        """Return whether its id was sent."""
        return _key(answer.body.get("id")) in self._ids.get(self._place(answer), ())

    def last(self, answer: Entry) -> list[Entry]:
        """Return the last request that the response may belong to, as evidence."""
        last = self._last.get(self._place(answer))
        return [] if last is None else [last]

    def was_unreadable(self, answer: Entry) -> bool:
        """Return whether an unparsable message was sent there."""
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
    """Yield the errors of responses and those of failed tasks (2026-07-28)."""
    for entry in _jsonrpc_messages(history):
        if "method" not in entry.body and "error" in entry.body:
            yield entry.body["error"], entry
    for sighting in history.sightings:
        if sighting.status == "failed" and "error" in sighting.task:
            yield sighting.task["error"], sighting.entry


def errors_have_code_and_message(history: History) -> Iterator[Observation]:
    """Check that each error is an object with a code and a message."""
    for error, entry in _errors(history):
        if not isinstance(error, dict):
            yield bad(f"`error` is {_kind_of(error)}, not an object", entry)
        elif "code" not in error:
            yield bad("an error has no `code`", entry)
        elif not isinstance(error.get("message"), str):
            yield bad("an error has no `message`, or one that is not a string", entry)
        else:
            yield good(entry)


def errors_have_integer_codes(history: History) -> Iterator[Observation]:
    """Check that each error code is an integer."""
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
    """Check that messages named `notifications/...` have no id."""
    for entry in _jsonrpc_messages(history):
        if (entry.method or "").startswith("notifications/"):
            yield bad("a notification has an `id`", entry) if "id" in entry.body else good(entry)


def notifications_are_not_answered(history: History) -> Iterator[Observation]:
    """Check that notifications receive no response; an HTTP error status is allowed."""
    if history.transport == "stdio":
        yield from _no_responses_over_stdio(history)
        return
    status = statuses(history)
    answers = {entry.post: entry for entry in reversed(history.heard) if entry.is_response}
    for entry in _sent_notifications(history):
        answer = answers.get(entry.post)
        if entry.post not in status:
            continue
        if answer is not None and status[entry.post] < 400:
            yield bad("the target responded to a notification", entry, answer)
        else:
            yield good(entry)


def _no_responses_over_stdio(history: History) -> Iterator[Observation]:
    """Check that no response without an id precedes the next response to a request.

    After an unparsable message, such a response may belong to that message.
    """
    pending: dict[int, list[Entry]] = {}
    unreadable: set[int] = set()
    notified = {entry.number for entry in _sent_notifications(history)}
    for entry in history.entries:
        if entry.number in notified:
            pending.setdefault(entry.line, []).append(entry)
        elif entry.kind is Kind.SENT and not is_well_formed(entry):
            unreadable.add(entry.line)
        elif entry.kind is Kind.HEARD and entry.is_response:
            sent = pending.pop(entry.line, [])
            if entry.body.get("id") is not None:
                yield from map(good, sent)
            elif sent and entry.line not in unreadable:
                yield bad("the target responded to a notification", sent[-1], entry)


def _sent_notifications(history: History) -> Iterator[Entry]:
    """Yield the well-formed notifications of the tester."""
    for entry in history.entries:
        if entry.kind is Kind.SENT and entry.is_notification and is_well_formed(entry):
            yield entry


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _kind_of(value: Any) -> str:
    """Return the JSON type of a value with its article."""
    if value is None:
        return "null"
    kinds = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}
    return kinds.get(type(value), "a number")
