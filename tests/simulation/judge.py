"""The checks of a finished world."""

import json
from typing import TYPE_CHECKING

from taskmachine.statemachine import Entry
from taskmachine.statemachine.invariants import RUNTIME, violations
from tests.oracle import LIFECYCLES
from tests.recorded_steps import results_of
from tests.simulation.disk import MAX_LOSSES
from tests.simulation.toolbox import is_explained

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["complaints"]


def complaints(world: "World") -> list[str]:
    """Return all violations, those of the invariants first."""
    disk = world.disk
    wires = {wire for session in world.sessions for wire in session.wires}
    lifecycles = LIFECYCLES | dict.fromkeys(sorted(wires), LIFECYCLES[RUNTIME])
    found = [
        f"{violation.invariant}: {violation.subject} {violation.why}"
        for violation in violations(disk.history, lifecycles)
    ]
    found += disk.wrong
    found += [f"escaped: {error}" for error in (*world.escaped, *world.loop.escaped)]
    found += [f"escaped: {error}" for error in world.loop.unretrieved(world.loop.outside)]
    found += [
        f"{node.process.name} left behind {leak}" for node in world.all_nodes for leak in node.leaks
    ]
    lines: dict[str, list[Entry]] = {}
    for happened in disk.history:
        if isinstance(happened, Entry):
            lines.setdefault(happened.task_id, []).append(happened)
    for task in disk.ends:
        begun, name = world.tool_log.begun[task.id], task.call.name
        if name == "once" and begun > 1:
            found.append(f"task {task.id} must not be repeated and ran {begun} times")
        if name == "deadly" and begun > MAX_LOSSES:
            found.append(f"task {task.id} killed {begun} workers")
        said = {
            question.key: _said(question.answer.body)
            for question in task.questions
            if question.answer is not None
        }
        if not is_explained(task, said, results_of(lines[task.id])):
            found.append(
                f"task {task.id} ({name}) had the answers {said} and the outcome {task.outcome}"
            )
    return found


def _said(body: bytes) -> str:
    reply = json.loads(body)
    return str(reply["content"]["it"] if "content" in reply else reply["message"])
