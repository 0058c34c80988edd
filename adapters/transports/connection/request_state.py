"""The sealed `requestState` of a call that the client repeats with answers."""

from collections.abc import Mapping
from typing import Final

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.protocol.operations import Create, Run
from taskmachine.protocol.sealing import RequestState, request_digest
from taskmachine.statemachine import Reply

__all__ = ["PAUSED_MS", "answers_so_far", "sealed_state"]

PAUSED_MS: Final = 3_600_000
"""How long the state of a paused call is valid, and a plain call waits for answers."""


def answers_so_far(service: TaskService, owner: str, wanted: Run | Create) -> dict[str, Reply]:
    """Return the answers of this request and those in its sealed state."""
    if wanted.state is None:
        return dict(wanted.answers)
    opened = service.sealer.open_state(owner, wanted.state, service.clock(), _digest(wanted))
    return {key: Reply(body) for key, body in opened.answers.items()} | dict(wanted.answers)


def sealed_state(
    service: TaskService, owner: str, wanted: Run | Create, answers: Mapping[str, Reply]
) -> str:
    """Return the state that the client sends back with the next request."""
    kept = {key: reply.body for key, reply in answers.items()}
    state = RequestState(kept, service.clock() + PAUSED_MS, _digest(wanted))
    return service.sealer.seal_state(owner, state)


def _digest(wanted: Run | Create) -> bytes:
    call = wanted.call
    return request_digest(call.method, call.name or "", call.arguments)
