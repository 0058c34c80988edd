"""What clients of 2025-11-25 go through."""

import asyncio
from typing import Any, Final

from taskmachine.adapters.conformance.clients.incoming import Heard
from taskmachine.adapters.conformance.clients.mcp_2025_11_25.actor import LegacyActor
from taskmachine.adapters.conformance.clients.receiving import drive
from taskmachine.adapters.conformance.clients.script import (
    FORM,
    SAMPLING,
    WITHOUT_MODE,
    Life,
    Question,
    Scenario,
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
        "message": "You did not declare this mode: refuse it.",
        "url": "https://example.com/consent",
        "elicitationId": "0a1b2c",
    },
    unless="url",
)


async def _notified(life: Life) -> dict[str, Any]:
    await life.work(300)
    await life.tell()
    await life.work(1_500)
    return text_result("done, and nobody told you")


async def _asks(life: Life) -> dict[str, Any]:
    await life.work(200)
    await life.ask(FORM)
    await life.work(200)
    return text_result("asked, and done")


async def _asks_listening(life: Life) -> dict[str, Any]:
    await life.work(200)
    await life.ask(FORM, where="listening")
    return text_result("asked, and done")


async def _asks_poll(life: Life) -> dict[str, Any]:
    await life.work(200)
    await life.ask(FORM, where="poll")
    return text_result("asked, and done")


async def _asks_otherwise(life: Life) -> dict[str, Any]:
    await life.ask(WITHOUT_MODE, _BY_URL)
    return text_result("asked, and done")


async def _samples(life: Life) -> dict[str, Any]:
    await life.ask(SAMPLING)
    return text_result("asked, and done")


async def _long(life: Life) -> dict[str, Any]:
    await life.work(2_500)
    return text_result("nobody stopped it")


async def _cut(actor: LegacyActor, heard: Heard) -> None:
    await actor.cut(heard, retry_ms=600)


async def _late(actor: LegacyActor, heard: Heard) -> None:
    stream = await heard.stream()
    actor.session_of(heard).running[repr(heard.entry.body["id"])] = stream
    await asyncio.sleep(2.5)
    answer = {"jsonrpc": "2.0", "id": heard.entry.body["id"], "result": text_result("late")}
    await stream.say(answer)
    await stream.close()


_QUICK: Final = Tool("quick", "Is done soon. Call it as a task.")
_REQUIRED: Final = Tool("required", "Has to be called as a task.", "required")
_UNMARKED: Final = Tool("unmarked", "Has to be called plainly.", None)
_FORBIDDEN: Final = Tool("forbidden", "Has to be called plainly.", "forbidden")

SCENARIOS: Final = (
    Scenario(
        "lifecycle",
        "tasks from begin to end, without any notification; several pages of tools",
        _REVISION,
        (
            (
                _QUICK,
                Tool("paced", "Changes its poll interval. Call it as a task.", live=paced),
                _REQUIRED,
                _UNMARKED,
                _FORBIDDEN,
                Tool("fails", "Ends as failed. Call it as a task.", live=fails),
                Tool("breaks", "Ends with an error. Call it as a task.", live=breaks),
            ),
            (),
            (Tool("last", "Is on the last page. Call it as a task."),),
        ),
        transports=("http", "stdio"),
        hello_ms=300,
    ),
    Scenario(
        "asking",
        "tasks that ask, on each kind of stream",
        _REVISION,
        (
            (
                Tool("asks", "Asks while you wait for the result.", live=_asks),
                Tool("asks_listening", "Asks on the GET stream.", live=_asks_listening),
                Tool("asks_poll", "Asks on the stream of a poll.", live=_asks_poll),
                Tool("asks_otherwise", "Asks in other modes.", live=_asks_otherwise),
                Tool("samples", "Asks for sampling.", live=_samples),
            ),
        ),
        transports=("http", "stdio"),
        old_error=-32602,
    ),
    Scenario(
        "notified",
        "a status notification, and then silence",
        _REVISION,
        ((Tool("notified", "Tells once, then ends. Call it as a task.", live=_notified),),),
        patience_s=10,
    ),
    Scenario(
        "no_tasks",
        "a server without tasks, whatever its tools say",
        _REVISION,
        ((_QUICK, _REQUIRED, _UNMARKED),),
        capabilities={"tools": {}},
        patience_s=10,
        transports=("http", "stdio"),
        old_error=-32000,
    ),
    Scenario(
        "no_tool_tasks",
        "a server with tasks, but not for tools",
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
        "a stream that is closed before the answer",
        _REVISION,
        ((Tool("cut", "Its answer comes on a second stream.", None, respond=_cut), _QUICK),),
        patience_s=15,
    ),
    Scenario(
        "cancel",
        "calls to be cancelled or given up",
        _REVISION,
        (
            (
                Tool("cancel_me", "Call it as a task, and cancel that at once.", live=_long),
                Tool("give_up", "Give up this plain call after a second.", None, respond=_late),
                _QUICK,
            ),
        ),
        transports=("http", "stdio"),
    ),
    Scenario(
        "versions",
        "a server that answers with a version that nobody knows",
        _REVISION,
        ((_QUICK,),),
        version="2099-01-01",
        patience_s=6,
    ),
    Scenario(
        "receiver",
        "requests of the server that are to become tasks of the client",
        _REVISION,
        ((Tool("drive", "Asks the client for tasks meanwhile.", None, respond=drive),),),
        transports=("http", "stdio"),
        patience_s=25,
    ),
)
