"""The proxy between the correct server and a tester, for every transport."""

import json
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs

from tests.conformance.planting import Bug, Head, Message

__all__ = ["Between", "ErrorLog", "as_bytes", "as_object", "as_request", "recording_errors"]

_T = TypeVar("_T")


@attrs.frozen
class ErrorLog:
    """A file of errors, which the test reads, also from other processes."""

    path: Path

    def record(self, words: str) -> None:
        """Record an error; the same text only once."""
        if f"{words}\n" in self.text():
            return
        with self.path.open("a") as file:
            file.write(f"{words}\n")

    def text(self) -> str:
        """Return all errors."""
        return self.path.read_text() if self.path.exists() else ""


@contextmanager
def recording_errors(errors: ErrorLog) -> Iterator[None]:
    """Record the tracebacks that the server logs; suppress all other logging."""
    log = logging.getLogger("taskmachine")
    handler = _Tracebacks(errors)
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.propagate = True
        log.removeHandler(handler)


class _Tracebacks(logging.Handler):
    def __init__(self, errors: ErrorLog) -> None:
        super().__init__()
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._errors.record(self.format(record))


class Between:
    """Pass each message to the bug, with the request that it answers."""

    def __init__(self, bug: Bug, errors: ErrorLog) -> None:
        self.bug = bug
        self._errors = errors
        self._asked: dict[tuple[str, str], list[Message]] = {}
        self._answered: dict[tuple[str, str], Message] = {}

    def watched(self, hook: Callable[..., _T], default: Any, *arguments: Any) -> _T:
        """Return the result of a hook of the bug; if it raises, record that and change nothing."""
        try:
            return hook(*arguments)
        except Exception as error:  # noqa: BLE001, a mistake in the bug
            self._errors.record("".join(traceback.format_exception(error, chain=False)[-3:]))
            unchanged: _T = default
            return unchanged

    def remember(self, line: str, id: Any, request: Message) -> None:
        """Remember a request as the client sent it."""
        self._asked.setdefault((line, _key(id)), []).append(request)

    def server_message(self, line: str, message: Message, head: Head) -> list[Any]:
        """Return what is sent instead."""
        key = line, _key(message.get("id"))
        if "method" not in message and self._asked.get(key):
            self._answered[key] = self._asked[key].pop(0)
        # A resumed stream may repeat it.
        return self.answer(message, self._answered.get(key), head)

    def answer(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        """Return what is sent instead of the response to a known request."""
        answered = None if "method" in message else as_request(request)
        return self.watched(self.bug.server_message, [message], message, answered, head)


def _key(id: Any) -> str:
    return json.dumps(id)


def as_object(body: bytes) -> Message | None:
    """Return the JSON object in a body, or None."""
    try:
        value = json.loads(body.decode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def as_request(message: Message | None) -> Message | None:
    """Return the message if it is a well-formed request."""
    if message is None or "id" not in message or not isinstance(message.get("method"), str):
        return None
    return message if isinstance(message.get("params", {}), dict) else None


def as_bytes(message: Any) -> bytes:
    """Encode a message; bytes are sent as they are."""
    if isinstance(message, bytes):
        return message
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
