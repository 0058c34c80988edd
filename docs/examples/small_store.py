#!/usr/bin/env python3
"""A store in one file, `journal:PATH`: tasks that outlive their process.

Each write becomes a line of the file before it is made in memory; reads come from memory.  Opening
the file repeats the calls, with the same outcome: a store has no clock and makes no choices, so a
call that was refused is refused again.

For small servers: one process at a time, the file only grows, and the event loop waits for the
disk.  Run it twice to see the tasks of the first run.
"""

import asyncio
import fcntl
import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from os import fsync
from typing import Any, Literal, get_type_hints

import msgspec

from taskmachine import Call, Create, LimitExceeded, Task, TaskmachineError, Tools, start_runtime
from taskmachine.statemachine import Entry
from taskmachine.stores import Conflict, KeptSession, MemoryStore, StoreError, Worker

Write = Literal[
    "adopt", "commit", "register_worker", "beat", "remove_worker", "enqueue", "dequeue",
    "keep_session", "end_session", "adopt_secret",
]  # fmt: skip

BEGINNING = b'["adopt_secret",'
"""The first bytes of every journal."""


class JournalStore(MemoryStore):
    """A store in memory that logs its writes.  `create` calls `adopt`."""

    file: FileIO | None = None
    """None while it is read: its lines need not be written again."""

    async def adopt(self, task: Task, entries: Sequence[Entry]) -> None:
        self.note("adopt", task, entries)
        await super().adopt(task, entries)

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        self.note("commit", task, entries, expected)
        await super().commit(task, entries, expected)

    async def register_worker(self, worker: Worker) -> None:
        self.note("register_worker", worker)
        await super().register_worker(worker)

    async def beat(self, worker_id: str) -> bool:
        self.note("beat", worker_id)
        return await super().beat(worker_id)

    async def remove_worker(self, worker_id: str) -> None:
        self.note("remove_worker", worker_id)
        await super().remove_worker(worker_id)

    async def enqueue(self, task_id: str, message: bytes, maximum: int) -> int:
        self.note("enqueue", task_id, message, maximum)
        return await super().enqueue(task_id, message, maximum)

    async def dequeue(self, task_id: str, limit: int) -> Sequence[bytes]:
        self.note("dequeue", task_id, limit)
        return await super().dequeue(task_id, limit)

    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        self.note("keep_session", session, maximum)
        await super().keep_session(session, maximum)

    async def end_session(self, key: str) -> None:  # `forget_sessions` calls it
        self.note("end_session", key)
        await super().end_session(key)

    async def adopt_secret(self, secret: bytes) -> None:
        self.note("adopt_secret", secret)
        await super().adopt_secret(secret)

    async def close(self) -> None:
        await super().close()
        if self.file is not None:
            self.file.close()

    def note(self, name: Write, *arguments: Any) -> None:
        """Write a line to the disk.  After a failure nothing is written any more, because the file
        may have a part of that line."""
        if self.file is None:
            return
        try:
            line = msgspec.json.encode((name, arguments)) + b"\n"
        except UnicodeEncodeError as error:
            raise StoreError(f"this cannot be stored: {error}") from None
        try:
            if self.file.write(line) < len(line):
                raise OSError("the disk is full")
            fsync(self.file)
        except (OSError, ValueError) as error:  # ValueError if it is closed
            self.file.close()
            raise StoreError(f"the journal cannot be written: {error}") from None

    async def repeat(self, line: bytes) -> None:
        """Make the call of a line."""
        name, arguments = msgspec.json.decode(line, type=tuple[Write, msgspec.Raw])
        types = get_type_hints(getattr(self, name))
        del types["return"]
        with suppress(Conflict, LimitExceeded):
            read = msgspec.json.decode(arguments, type=tuple[*types.values()])  # type: ignore[misc]
            await getattr(self, name)(*read)


async def open_journal(url: str) -> JournalStore:
    """Open `journal:PATH`; an entry point of the group `taskmachine.stores` may name this."""
    path, store = url.removeprefix("journal:"), JournalStore(b"")
    try:
        file = FileIO(path, "a+")
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.seek(0)
        content = file.readall()
        if not content.startswith(BEGINNING[: len(content)]):
            raise ValueError("it begins otherwise")
        *lines, torn = content.split(b"\n")
        for line in lines:
            await store.repeat(line)
        file.truncate(len(content) - len(torn))  # half a line was never acknowledged
    except (OSError, ValueError) as error:
        file.close()
        is_used = isinstance(error, BlockingIOError)
        why = "used by another process" if is_used else f"no journal, or damaged: {error}"
        raise StoreError(f"{path} is {why}") from None
    store.file = file
    if not lines:
        await store.adopt_secret(secrets.token_bytes(32))
    return store


async def main(path: str, text: str) -> None:
    """Make a note, and show all notes."""
    tools = Tools()

    @tools.task
    async def note(text: str) -> str:
        return f"Noted: {text}"

    store = await open_journal(f"journal:{path}")
    runtime = await start_runtime(store, tools)
    try:
        call = Call("tools/call", "note", msgspec.json.encode({"text": text}))
        task = await runtime.create("me", Create(call))
        await runtime.service.collect("me", task.id)
        for task in await store.page("me", None, limit=10):
            print(task.state, task.call.arguments.decode())
    finally:
        await runtime.stop()
        await store.close()


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except TaskmachineError as error:
        sys.exit(str(error))
