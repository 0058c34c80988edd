"""The log as JSON lines with documented keys (docs/howto/watch.md).

It contains no data of callers or tools.  Exceptions are logged by type and place only, because
their messages may quote such data.
"""

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any, Final

from taskmachine.adapters.stores import StoreError
from taskmachine.statemachine import ConfigurationError

__all__ = ["KEYS", "JsonLines", "ready_line"]

KEYS: Final = (
    "event",
    "task",
    "owner",
    "from",
    "to",
    "tool",
    "version",
    "age_ms",
    "trace",
    "count",
    "duration_us",
    "interval_s",
    "store",
)
"""The keys of an event; those without a value are left out."""


class JsonLines(logging.Formatter):
    """Formats events by their keys, and other records by their message."""

    def format(self, record: logging.LogRecord) -> str:
        facts = vars(record)
        line: dict[str, Any] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
        }
        if "event" in facts:
            line |= {key: facts[key] for key in KEYS if facts.get(key) is not None}
        else:
            line |= {"event": "log", "message": _message(record)}
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = _kind(error)
            line["stack"] = [
                f"{frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(error.__traceback__)
            ]
        return _encoded(line)


def ready_line(sentence: str) -> str:
    """Return the line that announces that a command has started."""
    now = datetime.now(UTC).timestamp()
    return _encoded({"time": _time(now), "level": "info", "event": "ready", "message": sentence})


def _message(record: logging.LogRecord) -> str:
    arguments = record.args if isinstance(record.args, tuple) else ()
    if not any(isinstance(argument, BaseException) for argument in arguments):
        return record.getMessage()
    return str(record.msg) % tuple(map(_anonymous, arguments))


def _anonymous(argument: object) -> object:
    # Errors of stores and settings contain no data of callers, and operators need their text.
    is_of_caller = not isinstance(argument, StoreError | ConfigurationError)
    return _kind(argument) if isinstance(argument, BaseException) and is_of_caller else argument


def _kind(error: BaseException) -> str:
    return type(error).__name__


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _encoded(line: dict[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":"))  # ASCII only: safe for terminals
