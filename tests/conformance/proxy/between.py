"""What stands between the correct server and a tester, whatever the transport."""

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
    """Keeps what must not happen, where the test finds it: also if it was in another process."""

    path: Path

    def record(self, words: str) -> None:
        """Something that must not happen has happened; the same thing is told once."""
        if f"{words}\n" in self.text():
            return
        with self.path.open("a") as file:
            file.write(f"{words}\n")

    def text(self) -> str:
        """All of it."""
        return self.path.read_text() if self.path.exists() else ""


@contextmanager
def recording_errors(errors: ErrorLog) -> Iterator[None]:
    """Tell of every traceback that the server logs meanwhile; of nothing else, to nobody else."""
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
    """Hands each message to the bug, with what it belongs to."""

    def __init__(self, bug: Bug, errors: ErrorLog) -> None:
        self.bug = bug
        self._errors = errors
        self._asked: dict[tuple[str, str], list[Message]] = {}
        self._answered: dict[tuple[str, str], Message] = {}

    def watched(self, hook: Callable[..., _T], default: Any, *arguments: Any) -> _T:
        """What a hook of the bug returns.  One that fails is a mistake, and changes nothing."""
        try:
            return hook(*arguments)
        except Exception as error:  # noqa: BLE001, whatever its author forgot
            self._errors.record("".join(traceback.format_exception(error, chain=False)[-3:]))
            unchanged: _T = default
            return unchanged

    def remember(self, line: str, id: Any, request: Message) -> None:
        """A request that the server is about to see under that id, as the tester sent it."""
        self._asked.setdefault((line, _key(id)), []).append(request)

    def server_message(self, line: str, message: Message, head: Head) -> list[Any]:
        """What is said instead."""
        key = line, _key(message.get("id"))
        if "method" not in message and self._asked.get(key):
            self._answered[key] = self._asked[key].pop(0)
        # It may be told again after a break.
        return self.answer(message, self._answered.get(key), head)

    def answer(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        """The same, if it is known which request it answers."""
        answered = None if "method" in message else as_request(request)
        return self.watched(self.bug.server_message, [message], message, answered, head)


def _key(id: Any) -> str:
    return json.dumps(id)


def as_object(body: bytes) -> Message | None:
    """The JSON object that it is."""
    try:
        value = json.loads(body.decode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def as_request(message: Message | None) -> Message | None:
    """The same, if it is a request that looks like one."""
    if message is None or "id" not in message or not isinstance(message.get("method"), str):
        return None
    return message if isinstance(message.get("params", {}), dict) else None


def as_bytes(message: Any) -> bytes:
    """A message on the wire; bytes are what they are."""
    if isinstance(message, bytes):
        return message
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
