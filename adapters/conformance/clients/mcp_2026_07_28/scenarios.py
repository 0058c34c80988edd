"""Scenarios for clients of 2026-07-28."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.clients.actor import error, result
from taskmachine.adapters.conformance.clients.incoming import ClientMessage
from taskmachine.adapters.conformance.clients.mcp_2026_07_28.actor import ModernActor, declared
from taskmachine.adapters.conformance.clients.script import (
    FORM,
    SAMPLING,
    WITHOUT_MODE,
    Scenario,
    TaskControl,
    Tool,
    breaks,
    fails,
    paced,
    text_result,
)

__all__ = ["SCENARIOS"]

_REVISION: Final = "2026-07-28"
_STATE: Final = ' {"odd": "ß=?&%20\\u0000"} =='


async def _asks(task: TaskControl) -> dict[str, Any]:
    await task.work(200)
    await task.ask(FORM, lingers_ms=900)
    await task.work(400)
    return text_result("done after input")


async def _asks_both(task: TaskControl) -> dict[str, Any]:
    await task.ask(FORM, SAMPLING, lingers_ms=600)
    return text_result("done after input")


async def _asks_twice(task: TaskControl) -> dict[str, Any]:
    await task.ask(FORM)
    await task.work(300)
    await task.ask(WITHOUT_MODE)
    return text_result("done after input")


async def _long(task: TaskControl) -> dict[str, Any]:
    await task.work(2_500)
    return text_result("done without cancellation")


# --- responses to a call without a task ----------------------------------------------------------


async def _without_type(actor: ModernActor, incoming: ClientMessage) -> None:
    await actor.reply(incoming, result(incoming.entry.body["id"], text_result("done")))


async def _nonsense(actor: ModernActor, incoming: ClientMessage) -> None:
    task = {
        "taskId": "not-a-task",
        "status": "working",
        "createdAt": "2026-11-16T10:00:00Z",
        "lastUpdatedAt": "2026-11-16T10:00:00Z",
        "ttlMs": 60_000,
        "pollIntervalMs": 100,
        "inputRequests": {},
    }
    await actor.reply(
        incoming, result(incoming.entry.body["id"], {"resultType": "nonsense", **task})
    )


async def _late(actor: ModernActor, incoming: ClientMessage) -> None:
    stream = await incoming.stream()
    await stream.comment()
    await asyncio.sleep(2.5)
    body = {"resultType": "complete", **text_result("late")}
    await stream.send(result(incoming.entry.body["id"], body))
    await stream.close()


async def _ask_first(actor: ModernActor, incoming: ClientMessage, more: Mapping[str, Any]) -> None:
    name = incoming.entry.params["name"]
    fits = FORM.fits(declared(incoming)) or "inputRequests" not in more
    if actor.calls[name] > 1 or not fits:
        await actor.complete(incoming)
        return
    body = {"resultType": "input_required", **more}
    await actor.reply(incoming, result(incoming.entry.body["id"], body))


_REQUESTS: Final = {
    "stage/ß": {"method": FORM.method, "params": dict(FORM.params)},
    "again": {"method": FORM.method, "params": dict(WITHOUT_MODE.params)},
}


async def _retry(actor: ModernActor, incoming: ClientMessage) -> None:
    await _ask_first(actor, incoming, {"inputRequests": _REQUESTS, "requestState": _STATE})


async def _retry_stateless(actor: ModernActor, incoming: ClientMessage) -> None:
    await _ask_first(actor, incoming, {"inputRequests": _REQUESTS})


async def _retry_at_once(actor: ModernActor, incoming: ClientMessage) -> None:
    await _ask_first(actor, incoming, {"requestState": _STATE})


async def _mismatch(actor: ModernActor, incoming: ClientMessage) -> None:
    if actor.calls["mismatch"] > 1:
        await actor.complete(incoming)
        return
    message = "Header mismatch: the tool has changed, see tools/list"
    await incoming.answer(error(incoming.entry.body["id"], -32020, message), status=400)


async def _incapable(actor: ModernActor, incoming: ClientMessage) -> None:
    needed: Any = {"requiredCapabilities": {"roots": {}}}
    message = error(incoming.entry.body["id"], -32021, "Missing required capability", needed)
    await incoming.answer(message, status=400)


def _only(value: Any, kind: str, header: str | None) -> dict[str, Any]:
    """Return a schema for a property with one possible value."""
    mark = {} if header is None else {"x-mcp-header": header}
    return {"type": kind, "enum": [value], "default": value, **mark}


def _object(**properties: Any) -> dict[str, Any]:
    required = [name for name, schema in properties.items() if "default" in schema]
    return {"type": "object", "properties": properties, "required": required}


_MARKED: Final = _object(
    region=_only("us-west1", "string", "Region"),
    greeting=_only("Grüße, 世界", "string", "Greeting"),
    padded=_only(" padded ", "string", "Padded"),
    lines=_only("one\ntwo", "string", "Lines"),
    lookalike=_only("=?base64?literal?=", "string", "Lookalike"),
    count=_only(42, "integer", "Count"),
    flag=_only(True, "boolean", "Flag"),
    inner={**_object(deep=_only("down", "string", "Deep")), "default": {"deep": "down"}},
    absent={"type": "string", "description": "Leave it out.", "x-mcp-header": "Absent"},
    unmarked=_only("only in the body", "string", None),
)
_BAD: Final = {
    "bad_empty": _object(a=_only("x", "string", "")),
    "bad_blank": _object(a=_only("x", "string", "Not a Token")),
    "bad_number": _object(a=_only(1.5, "number", "Number")),
    "bad_twice": _object(a=_only("x", "string", "Same"), b=_only("y", "string", "same")),
    "bad_place": _object(
        a={"type": "array", "items": {"type": "string", "x-mcp-header": "Item"}, "default": ["x"]}
    ),
}

_QUICK: Final = Tool("quick", "Becomes a task that completes quickly.")
_PLAIN: Final = Tool("plain", "Never becomes a task.", "forbidden")

SCENARIOS: Final = (
    Scenario(
        "lifecycle",
        "complete task lifecycles; names and ids that headers must encode",
        _REVISION,
        (
            (
                _QUICK,
                Tool("paced", "Becomes a task that changes its poll interval.", run=paced),
                _PLAIN,
                Tool("without_type", "Its result has no resultType.", respond=_without_type),
                Tool("größe", "Has a non-ASCII name.", task_id="tâche 1"),
                Tool("padded", "Its task id has leading and trailing blanks.", task_id=" task 2 "),
                Tool("lookalike", "Its task id looks encoded.", task_id="=?base64?dGFzaw==?="),
                Tool("fails", "Becomes a task whose result is an error.", run=fails),
                Tool("breaks", "Becomes a task that ends with an error.", run=breaks),
            ),
            (),
            (Tool("last", "Is on the last page."),),
        ),
        transports=("http", "stdio"),
    ),
    Scenario(
        "asking",
        "tasks with input requests that stay visible after they were answered",
        _REVISION,
        (
            (
                Tool("asks", "Has one input request.", run=_asks),
                Tool("asks_both", "Has two input requests at once.", run=_asks_both),
                Tool("asks_twice", "Has two input requests, one after the other.", run=_asks_twice),
            ),
        ),
        transports=("http", "stdio"),
    ),
    Scenario(
        "retries",
        "multi round-trip requests",
        _REVISION,
        (
            (
                Tool("retry", "Needs inputResponses and requestState.", respond=_retry),
                Tool("retry_stateless", "Needs inputResponses.", respond=_retry_stateless),
                Tool("retry_at_once", "Needs requestState.", respond=_retry_at_once),
                _PLAIN,
            ),
        ),
        patience_s=10,
    ),
    Scenario(
        "headers",
        "parameters that headers repeat; invalid x-mcp-header annotations",
        _REVISION,
        (
            (
                *(
                    Tool(
                        name,
                        "Has an invalid annotation: omit this tool.",
                        "forbidden",
                        schema=schema,
                    )
                    for name, schema in _BAD.items()
                ),
                Tool("marked", "Has annotated parameters.", "forbidden", schema=_MARKED),
                Tool(
                    "nullable",
                    "Needs null.",
                    "forbidden",
                    schema=_object(
                        nothing={"type": "string", "default": None, "x-mcp-header": "No"}
                    ),
                ),
                Tool(
                    "mismatch",
                    "Rejects the first call because of its headers.",
                    "forbidden",
                    schema=_object(zone=_only("z", "string", "Zone")),
                    respond=_mismatch,
                ),
                Tool(
                    "incapable", "Rejects calls: the client lacks a capability.", respond=_incapable
                ),
                _PLAIN,
            ),
        ),
        patience_s=12,
    ),
    Scenario(
        "no_tasks",
        "a server without the extension",
        _REVISION,
        ((_PLAIN,),),
        capabilities={"tools": {}},
        patience_s=8,
    ),
    Scenario(
        "unacknowledged",
        "subscriptions that do not cover tasks",
        _REVISION,
        ((_QUICK,),),
        ignores_task_ids=True,
        patience_s=8,
        transports=("http", "stdio"),
    ),
    Scenario(
        "nonsense",
        "an unknown resultType",
        _REVISION,
        ((Tool("nonsense", "Responds with an unknown resultType.", respond=_nonsense), _PLAIN),),
        patience_s=8,
    ),
    Scenario(
        "misplaced",
        "a task in response to tools/list",
        _REVISION,
        ((_PLAIN,),),
        lists_as_task=True,
        patience_s=6,
    ),
    Scenario(
        "versions",
        "a server that supports only older versions",
        _REVISION,
        ((_PLAIN,),),
        refuses_version=True,
        patience_s=6,
    ),
    Scenario(
        "cancel",
        "calls to cancel or to abandon",
        _REVISION,
        (
            (
                Tool("cancel_me", "Becomes a task; cancel it.", run=_long),
                Tool("give_up", "Abandon this call after 1 s.", respond=_late),
                _QUICK,
            ),
        ),
        transports=("http", "stdio"),
    ),
)
