"""What databases know of a task beside its record: the columns that their indexes need.

No lifecycle in here: everything is derived from the record, in Python.
"""

from typing import Final

import msgspec

from taskmachine.statemachine import State, Task

__all__ = ["MAX_INTEGER", "Columns", "call_key", "columns_of"]

MAX_INTEGER: Final = 2**63 - 1

Columns = tuple[int, int | None, int, str | None, int]


def columns_of(task: Task) -> Columns:
    """What the indexes need to know of a task: is_live, deadline, is_queued, holder, is_waiting."""
    is_live = not task.is_terminal
    deadline = task.deadline
    return (
        int(is_live),
        None if deadline is None else min(deadline, MAX_INTEGER),
        int(task.state is State.SUBMITTED),
        task.worker if is_live else None,
        int(task.state is State.INPUT_REQUIRED),
    )


def call_key(task: Task) -> str | None:
    """Equal for calls that are the same one to their owner.

    One text and not three columns: to an index, two tasks without a name would differ.
    """
    call = task.call
    if call.key is None:
        return None
    return msgspec.json.encode((call.method, call.name, call.key)).decode()
