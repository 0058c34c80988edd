"""What a tool has recorded under its keys: the results of steps, and the ends of sleeps.

One rule for all: a key names one request for the life of its task.  A later run that uses the key
for the same request gets what is stored; another request under the key is an error.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

from taskmachine.adapters.tools.work import Work
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.statemachine import TaskmachineError

__all__ = ["MAX_KEY", "MAX_RECORD", "MAX_RECORDS", "Recorder", "StepError"]

MAX_KEY: Final = 256
"""Maximum length of a key, in characters."""

MAX_RECORD: Final = 256 * 1024
"""Maximum size of one record, in bytes of JSON."""

MAX_RECORDS: Final = 1_000
"""Maximum number of records of one task."""


class StepError(TaskmachineError):
    """A step or sleep cannot be recorded, or its key already names another one."""


class Recorder:
    """The records of one task or plain call, read when a tool first needs them."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._found: dict[str, JSONObject] | None = None
        self._lock = asyncio.Lock()
        self._used: set[str] = set()

    @contextmanager
    def using(self, key: str) -> Iterator[None]:
        """Check a key and keep it from being used a second time meanwhile."""
        if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY or not _is_unicode(key):
            raise StepError(f"a key must be a text of 1 to {MAX_KEY} characters, got {key!r:.40}")
        if key in self._used:
            raise StepError(f"the key '{key}' is in use: each step needs a key of its own")
        self._used.add(key)
        try:
            yield
        finally:
            self._used.discard(key)

    def observed(self, key: str, *, is_recorded: bool) -> AbstractContextManager[object]:
        """Return the block in which the observer, if there is one, sees a step."""
        observe = self._work.observe_step
        return nullcontext() if observe is None else observe(key, is_recorded)

    async def find(self, kind: str, key: str, request: str) -> JSONObject | None:
        """Return the record under a key; `StepError` if it is of another request.

        `StepError` too if there is none and no room for one.
        """
        if self._found is None:
            async with self._lock:
                if self._found is None:
                    records = map(decode_json, await self._work.recorded())
                    self._found = {record["key"]: record for record in records}
        record = self._found.get(key)
        if record is None:
            is_near = len(self._found) + len(self._used) > MAX_RECORDS
            if is_near and len(self._found.keys() | self._used) > MAX_RECORDS:
                raise StepError(f"a task can record {MAX_RECORDS} steps; '{key}' is one more")
            return None
        if record["kind"] != kind:
            raise StepError(f"the key '{key}' already names a {record['kind']} of this task")
        if record["request"] != request:
            raise StepError(f"the {kind} '{key}' was recorded with other arguments")
        return record

    async def record(self, kind: str, key: str, request: str, result: Any) -> None:
        """Store what a step or sleep came to, durably."""
        assert self._found is not None, "it was searched for the key"
        record = {"kind": kind, "key": key, "request": request, "result": result}
        try:
            data = encode_json(record)
        except ValueError as error:
            raise StepError(f"the {kind} '{key}' cannot be recorded: {error}") from None
        if len(data) > MAX_RECORD:
            raise StepError(
                f"the result of the {kind} '{key}' has {len(data)} bytes of JSON; the limit is"
                f" {MAX_RECORD}: store it elsewhere and return where it is"
            )
        async with self._lock:  # writes of one task at the same time would only conflict
            await self._work.record(data)
        self._found[key] = record


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)  # half of a pair
