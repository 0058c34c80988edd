"""Run the call of a finished task again, as a new task that names the old one."""

import attrs

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.errors import InvalidParams
from taskmachine.statemachine import Task, lifecycle

__all__ = ["rerun"]


async def rerun(service: TaskService, old: Task, *, keep_steps: bool = False) -> Task:
    """Create a task for the call of a finished one: same owner, caller, arguments and times.

    It runs under the current version of the tool.  With `keep_steps` it begins with the recorded
    steps and the answers of the old task.  `InvalidParams` for a task that has not ended.
    """
    if not old.is_terminal:
        raise InvalidParams(f"task '{old.id}' has not ended: cancel it before it is run again")
    now, task_id = service.clock(), service.new_id()
    caller = service.caller(old)
    sealed = None if caller == Caller(old.owner) else service.sealer.seal_caller(task_id, caller)
    answered = [question for question in old.questions if question.answer is not None]
    steps = [
        lifecycle.submit(
            task_id,
            old.owner,
            attrs.evolve(old.call, key=None, not_before=None, caller=sealed),
            now,
            ttl_ms=service.times.ttl(old.ttl_ms if old.is_ttl_chosen else None),
            is_ttl_chosen=old.is_ttl_chosen,
            timeout_ms=old.timeout_ms,
            is_repeatable=old.is_repeatable,
            poll_interval_ms=old.poll_interval_ms,
            metadata=old.metadata,
            questions=tuple(answered) if keep_steps else (),
            rerun_of=old.id,
        )
    ]
    for entry in await service.store.history(old.id) if keep_steps else ():
        if entry.data is not None:
            steps.append(lifecycle.record(steps[-1].task, now, entry.data))
    return await service.add(steps)
