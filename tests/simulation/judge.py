"""What must be true of a world when it is over."""

import json
from typing import TYPE_CHECKING

from taskmachine.statemachine.invariants import RUNTIME, violations
from tests.oracle import LIFECYCLES
from tests.simulation.disk import MAX_LOSSES
from tests.simulation.toolbox import is_explained

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["complaints"]


def complaints(world: "World") -> list[str]:
    """Everything that is wrong, the invariants first."""
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
    for task in disk.ends:
        begun, name = world.bench.begun[task.id], task.call.name
        if name == "once" and begun > 1:
            found.append(f"task {task.id} must not be repeated, and was begun {begun} times")
        if name == "deadly" and begun > MAX_LOSSES:
            found.append(f"task {task.id} has cost {begun} workers")
        said = {
            question.key: _said(question.answer.body)
            for question in task.questions
            if question.answer is not None
        }
        if not is_explained(task, said):
            found.append(f"task {task.id} ({name}) was told {said} and ended by {task.outcome}")
    return found


def _said(body: bytes) -> str:
    reply = json.loads(body)
    return str(reply["content"]["it"] if "content" in reply else reply["message"])
