"""Scenarios for clients of 2025-11-25."""

import asyncio
from typing import Any, Final

from taskmachine.adapters.conformance.clients.incoming import ClientMessage
from taskmachine.adapters.conformance.clients.mcp_2025_11_25.actor import LegacyActor
from taskmachine.adapters.conformance.clients.receiving import drive
from taskmachine.adapters.conformance.clients.script import (
    FORM,
    SAMPLING,
    WITHOUT_MODE,
    Question,
    Scenario,
    TaskControl,
    Tool,
    breaks,
    fails,
    paced,
    text_result,
)

__all__ = ["SCENARIOS"]

_REVISION: Final = "2025-11-25"
_BY_URL: Final = Question(
    "elicitation",
    {
        "mode": "url",
        "message": "The client did not declare this mode and must reject this request.",
        "url": "https://example.com/consent",
        "elicitationId": "0a1b2c",
    },
    unless="url",
)


async def _notified(task: TaskControl) -> dict[str, Any]:
    await task.work(300)
    await task.notify()
    await task.work(1_500)
    return text_result("done, without another notification")


async def _asks(task: TaskControl) -> dict[str, Any]:
    await task.work(200)
    await task.ask(FORM)
    await task.work(200)
    return text_result("done after input")


async def _asks_listening(task: TaskControl) -> dict[str, Any]:
    await task.work(200)
    await task.ask(FORM, where="listening")
    return text_result("done after input")


async def _asks_poll(task: TaskControl) -> dict[str, Any]:
    await task.work(200)
    await task.ask(FORM, where="poll")
    return text_result("done after input")


async def _asks_otherwise(task: TaskControl) -> dict[str, Any]:
    await task.ask(WITHOUT_MODE, _BY_URL)
    return text_result("done after input")


async def _samples(task: TaskControl) -> dict[str, Any]:
    await task.ask(SAMPLING)
    return text_result("done after input")


async def _long(task: TaskControl) -> dict[str, Any]:
    await task.work(2_500)
    return text_result("done without cancellation")


async def _cut(actor: LegacyActor, incoming: ClientMessage) -> None:
    await actor.cut(incoming, retry_ms=600)


async def _late(actor: LegacyActor, incoming: ClientMessage) -> None:
    stream = await incoming.stream()
    actor.session_of(incoming).running[repr(incoming.entry.body["id"])] = stream
    await asyncio.sleep(2.5)
    answer = {"jsonrpc": "2.0", "id": incoming.entry.body["id"], "result": text_result("late")}
    await stream.send(answer)
    await stream.close()


_QUICK: Final = Tool("quick", "Completes quickly. Call it as a task.")
_REQUIRED: Final = Tool("required", "Call it as a task.", "required")
_UNMARKED: Final = Tool("unmarked", "Call it without a task.", None)
_FORBIDDEN: Final = Tool("forbidden", "Call it without a task.", "forbidden")

SCENARIOS: Final = (
    Scenario(
        "lifecycle",
        "complete task lifecycles without notifications; several pages of tools",
        _REVISION,
        (
            (
                _QUICK,
                Tool("paced", "Changes its poll interval. Call it as a task.", run=paced),
                _REQUIRED,
                _UNMARKED,
                _FORBIDDEN,
                Tool("fails", "Fails with a result. Call it as a task.", run=fails),
                Tool("breaks", "Fails with a JSON-RPC error. Call it as a task.", run=breaks),
            ),
            (),
            (Tool("last", "Is on the last page. Call it as a task."),),
        ),
        transports=("http", "stdio"),
        hello_ms=300,
    ),
    Scenario(
        "asking",
        "tasks that send requests, on each kind of stream",
        _REVISION,
        (
            (
                Tool("asks", "Sends a request on the tasks/result stream.", run=_asks),
                Tool("asks_listening", "Sends a request on the GET stream.", run=_asks_listening),
                Tool("asks_poll", "Sends a request on a tasks/get stream.", run=_asks_poll),
                Tool(
                    "asks_otherwise",
                    "Sends elicitations without mode and in URL mode.",
                    run=_asks_otherwise,
                ),
                Tool("samples", "Sends a sampling request.", run=_samples),
            ),
        ),
        transports=("http", "stdio"),
        old_error=-32602,
    ),
    Scenario(
        "notified",
        "one status notification, then none",
        _REVISION,
        ((Tool("notified", "Sends one notification. Call it as a task.", run=_notified),),),
        patience_s=10,
    ),
    Scenario(
        "no_tasks",
        "a server without tasks, despite taskSupport of its tools",
        _REVISION,
        ((_QUICK, _REQUIRED, _UNMARKED),),
        capabilities={"tools": {}},
        patience_s=10,
        transports=("http", "stdio"),
        old_error=-32000,
    ),
    Scenario(
        "no_tool_tasks",
        "a server that declares tasks, but not for tools/call",
        _REVISION,
        ((_QUICK, _REQUIRED, _UNMARKED),),
        capabilities={"tools": {}, "tasks": {"list": {}, "cancel": {}}},
        patience_s=10,
    ),
    Scenario(
        "sessions",
        "a session that the server forgets",
        _REVISION,
        ((_UNMARKED, _FORBIDDEN, _QUICK),),
        forgets_sessions=True,
        patience_s=12,
    ),
    Scenario(
        "streams",
        "a stream that is closed before the response",
        _REVISION,
        ((Tool("cut", "Responds on a resumed stream.", None, respond=_cut), _QUICK),),
        patience_s=15,
    ),
    Scenario(
        "cancel",
        "calls to cancel or to abandon",
        _REVISION,
        (
            (
                Tool("cancel_me", "Call it as a task and cancel the task.", run=_long),
                Tool(
                    "give_up",
                    "Call it without a task and abandon the call after 1 s.",
                    None,
                    respond=_late,
                ),
                _QUICK,
            ),
        ),
        transports=("http", "stdio"),
    ),
    Scenario(
        "versions",
        "a server that answers with an unknown version",
        _REVISION,
        ((_QUICK,),),
        version="2099-01-01",
        patience_s=6,
    ),
    Scenario(
        "receiver",
        "task-augmented requests to the client",
        _REVISION,
        ((Tool("drive", "Sends task-augmented requests meanwhile.", None, respond=drive),),),
        transports=("http", "stdio"),
        patience_s=25,
    ),
)
