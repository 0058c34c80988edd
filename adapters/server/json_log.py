"""The log as JSON: one object for each line, under documented keys (docs/howto/watch.md).

Nothing that a caller or a tool said is in it.  So of what was raised only the kind and the place
are told: the message of an exception may quote anything.
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
"""What an event may say of itself; what it does not know is left out."""


class JsonLines(logging.Formatter):
    """An event by its facts; anything else by its message."""

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
    """That a command has begun."""
    now = datetime.now(UTC).timestamp()
    return _encoded({"time": _time(now), "level": "info", "event": "ready", "message": sentence})


def _message(record: logging.LogRecord) -> str:
    arguments = record.args if isinstance(record.args, tuple) else ()
    if not any(isinstance(argument, BaseException) for argument in arguments):
        return record.getMessage()
    return str(record.msg) % tuple(map(_told, arguments))


def _told(argument: object) -> object:
    # Those of stores and settings are about the server, and what an operator has to read.
    is_of_caller = not isinstance(argument, StoreError | ConfigurationError)
    return _kind(argument) if isinstance(argument, BaseException) and is_of_caller else argument


def _kind(error: BaseException) -> str:
    return type(error).__name__


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _encoded(line: dict[str, Any]) -> str:
    return json.dumps(line, separators=(",", ":"))  # ASCII only: no terminal is fooled
