"""Multi round-trip requests: correct and incorrect retries, and forged states."""

from collections.abc import Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.history import Exchange
from taskmachine.adapters.conformance.probes.elicitation import wrong_content, wrong_message
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role, ToolCall
from taskmachine.adapters.conformance.wire.answering import answer
from taskmachine.adapters.conformance.wire.caller import Caller
from taskmachine.adapters.conformance.wire.metadata import META

__all__: list[str] = []

NEW: Final = ("2026-07-28",)
LONG_MS: Final = 5_500.0
ROUNDS: Final = 5


@probe(revisions=NEW)
async def retry_correctly(harness: Harness) -> None:
    """Answer calls that request input until they complete."""
    caller = await harness.caller()
    for role in (Role.ASKS, Role.SAMPLES):
        call = harness.profile.get(role)
        if call is None:
            continue
        asking = await _plain(caller, call)
        for _ in range(ROUNDS):
            if asking.fields.get("resultType") != "input_required":
                break
            asking = await _plain(caller, call, **_state(asking), inputResponses=_right(asking))


@probe(revisions=NEW)
async def never_retry(harness: Harness) -> None:
    """Make a call that requests input twice, without answering."""
    call = harness.profile.get(Role.ASKS, Role.SAMPLES)
    if call is None:
        return
    caller = await harness.caller()
    if _asks(await _plain(caller, call)):
        await _plain(caller, call, wait_ms=LONG_MS)


@probe(revisions=NEW)
async def retry_incorrectly(harness: Harness) -> None:
    """Retry with missing, additional and malformed responses."""
    call = harness.profile.get(Role.ASKS, Role.SAMPLES)
    if call is None:
        return
    caller = await harness.caller()
    asking = await _plain(caller, call)
    if not _asks(asking):
        return
    state, right = _state(asking), _right(asking)
    extra = {**right, "no-such-question": {"action": "accept", "content": {"a": "b"}}}
    misshapen = [5, {"action": 7, "role": 7}]
    answers: list[Any] = [{}, right, extra, 5, [], *(dict.fromkeys(right, m) for m in misshapen)]
    answers.append(_breaking(asking))
    for given in answers:
        await _plain(caller, call, **state, inputResponses=given)
    await _plain(caller, call, **state)


@probe(revisions=NEW)
async def forge_states(harness: Harness) -> None:
    """Send states that are modified, invented, or belong to another request or principal."""
    caller = await harness.caller()
    calls = [
        harness.profile.calls[r] for r in (Role.ASKS, Role.SAMPLES) if r in harness.profile.calls
    ]
    for call in calls:
        asking = await _plain(caller, call)
        state = asking.fields.get("requestState")
        if not _asks(asking) or not isinstance(state, str):
            continue
        right = _right(asking)
        for forged in (_changed(state), "made-up", "x" * 100_000, state + state):
            await _plain(caller, call, requestState=forged, inputResponses=right)
        for other in [*(c for c in calls if c.name != call.name), *_other_arguments(call)]:
            await _plain(caller, other, requestState=state, inputResponses=right)
        if harness.has_two_principals:
            stranger = await harness.caller("B")
            await _plain(stranger, call, requestState=state, inputResponses=right)


async def _plain(
    caller: Caller, call: ToolCall, *, wait_ms: float | None = None, **more: Any
) -> Exchange:
    """Call a tool without declaring the tasks extension."""
    can = {name: can for name, can in caller.capabilities.items() if name != "extensions"}
    meta = {f"{META}clientCapabilities": can}
    return await caller.request("tools/call", {**call.params, **more}, meta=meta, wait_ms=wait_ms)


def _asks(exchange: Exchange) -> bool:
    return exchange.fields.get("resultType") == "input_required"


def _state(asking: Exchange) -> dict[str, Any]:
    state = asking.fields.get("requestState")
    return {} if state is None else {"requestState": state}


def _questions(asking: Exchange) -> dict[str, tuple[Any, Mapping[str, Any]]]:
    requests = asking.fields.get("inputRequests")
    found: dict[str, tuple[Any, Mapping[str, Any]]] = {}
    for key, request in requests.items() if isinstance(requests, dict) else ():
        request = request if isinstance(request, dict) else {}
        params = request.get("params")
        found[key] = request.get("method"), params if isinstance(params, dict) else {}
    return found


def _right(asking: Exchange) -> dict[str, Any]:
    """Return valid responses."""
    return {key: answer(*asked).get("result", {}) for key, asked in _questions(asking).items()}


def _breaking(asking: Exchange) -> dict[str, Any]:
    """Return responses of the right shape that violate the schema."""
    return {
        key: wrong_message()
        if method == "sampling/createMessage"
        else {"action": "accept", "content": wrong_content(params.get("requestedSchema"))}
        for key, (method, params) in _questions(asking).items()
    }


def _changed(state: str) -> str:
    """Change one character in the middle."""
    middle = len(state) // 2
    letter = "A" if state[middle : middle + 1] != "A" else "B"
    return state[:middle] + letter + state[middle + 1 :]


def _other_arguments(call: ToolCall) -> list[ToolCall]:
    """Return other arguments, if one of them can be changed simply."""
    for name, value in call.arguments.items():
        if isinstance(value, str):
            return [ToolCall(call.name, {**call.arguments, name: value + "x"})]
        if isinstance(value, int) and not isinstance(value, bool):
            return [ToolCall(call.name, {**call.arguments, name: value + 1})]
    return []
