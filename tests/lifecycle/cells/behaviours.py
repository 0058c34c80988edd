"""What requestors see of each cell of the two tables, in JSON.  Nothing here reads a table."""

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from taskmachine.adapters.runtime.claims import give_back
from taskmachine.adapters.runtime.maintenance import expire_overdue, sweep
from taskmachine.statemachine import (
    Call,
    IllegalTransition,
    Outcome,
    Progress,
    Question,
    Task,
    lifecycle,
)
from taskmachine.statemachine.lifecycle import Step
from tests.cells.world import G1, G2, OWN, Message, Peer, World, within

__all__ = ["BEHAVIOURS", "Behaviour"]

Behaviour = Callable[[World], Awaitable[None]]

CROWD: Final = 1_000
"""Tasks that an engine reads from the queue at a time."""

DONE: Final = Outcome.of_result(b'{"content":[{"type":"text","text":"from outside"}]}')
ERROR: Final = Outcome.of_error(-32000, "from outside")
MINUTE: Final = 60_000

complete = partial(lifecycle.complete, outcome=DONE)
fail = partial(lifecycle.fail, outcome=ERROR)
cancel = partial(lifecycle.cancel, reason="from outside")
ENDS: Final[dict[str, Callable[[Task, int], Step]]] = {
    "completed": complete,
    "failed": fail,
    "cancelled": cancel,
}


BEHAVIOURS: Final[dict[str, Behaviour]] = {}


def behaviour(*states: str) -> Callable[[Callable[..., Awaitable[None]]], None]:
    """Add a behaviour, or one for each of these states."""

    def add(act: Callable[..., Awaitable[None]]) -> None:
        name = act.__name__
        if not states:
            BEHAVIOURS[name] = act
        for state in states:
            BEHAVIOURS[f"{name}[{state}]"] = partial(_swapped, act, state)

    return add


def _swapped(act: Callable[..., Awaitable[None]], state: str, world: World) -> Awaitable[None]:
    return act(world, state)


def text_of(answer: Message) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


def of_end(answer: Message) -> str:
    """What the answer to `tasks/result` says of the end."""
    if "result" in answer:
        return "completed"
    return "cancelled" if "cancel" in answer["error"]["message"].lower() else "failed"


async def occupied(world: World) -> str:
    """The only worker has a task, so that the next one stays in the queue."""
    await world.start(concurrency=1)
    first = await (await world.peer(G2)).begin("hold")
    await within(world, world.began)
    return first


async def in_queue(world: World, ttl: int = 60 * MINUTE) -> tuple[Peer, str]:
    await occupied(world)
    peer = await world.peer(G1)
    return peer, await peer.begin("quick", ttl)


async def at_work(world: World) -> tuple[Peer, str]:
    await world.start(concurrency=1)
    peer = await world.peer(G1)
    task_id = await peer.begin("hold")
    await within(world, world.began)
    return peer, task_id


async def asking(world: World, tool: str = "greet") -> tuple[Peer, str, int, Message]:
    """A call that waits for the outcome, and the question that it got."""
    await world.start(concurrency=1)
    peer = await world.peer(G1)
    task_id = await peer.begin(tool)
    waiting = peer.collect(task_id)
    return peer, task_id, waiting, await peer.hears("elicitation/create")


# --- a life without incidents ------------------------------------------------------------------


@behaviour()
async def a_task_runs_and_its_result_can_be_read(world: World) -> None:
    await world.start()
    peer = await world.peer(G1)
    task_id = await peer.begin("quick")
    assert text_of(await peer.answer(peer.collect(task_id))) == "done"
    assert (await peer.get(task_id))["status"] == "completed"
    shown = await (await world.peer(G2)).get(task_id)
    assert (shown["status"], "inputRequests" in shown) == ("completed", False)


@behaviour()
async def a_tool_that_raises_fails(world: World) -> None:
    await world.start()
    peer = await world.peer(G1)
    task_id = await peer.begin("broken")
    answer = await peer.answer(peer.collect(task_id))
    assert "error" in answer or answer["result"].get("isError"), answer
    assert (await peer.get(task_id))["status"] == "failed"


@behaviour()
async def progress_of_a_working_task_is_notified(world: World) -> None:
    await world.start()
    peer = await world.peer(G1)
    task_id = await peer.begin("report")
    await within(world, world.began)
    assert (await peer.hears("notifications/progress"))["params"]["progress"] == 1
    assert (await peer.hears("notifications/tasks/status"))["params"]["status"] == "working"
    shown = await (await world.peer(G2)).get(task_id)
    assert (shown["status"], shown["statusMessage"]) == ("working", "halfway")
    assert (await (await world.peer(OWN)).get(task_id))["status"] == "processing"
    assert "inputRequests" not in shown
    world.may_end.set()
    assert text_of(await peer.answer(peer.collect(task_id))) == "done"


# --- the queue ---------------------------------------------------------------------------------


@behaviour()
async def a_task_in_the_queue_is_run_when_there_is_room(world: World) -> None:
    peer, task_id = await in_queue(world)
    own = await world.peer(OWN)
    assert (await own.get(task_id))["status"] == "pending"
    shown = await (await world.peer(G2)).get(task_id)
    assert (shown["status"], "inputRequests" in shown) == ("working", False)
    waiting = peer.collect(task_id)
    params = {"progressToken": task_id, "progress": 0.5}
    assert await own.result("tasks/progress", params) == {"progress": 0.5}
    assert (await peer.hears("notifications/progress"))["params"]["progress"] == 0.5
    assert (await own.get(task_id))["status"] == "pending"
    peer.says_nothing_to(waiting)
    world.may_end.set()
    assert text_of(await peer.answer(waiting)) == "done"


@behaviour()
async def a_task_in_the_queue_can_be_cancelled(world: World) -> None:
    peer, task_id = await in_queue(world)
    assert (await peer.result("tasks/cancel", {"taskId": task_id}))["status"] == "cancelled"
    assert (await peer.get(task_id))["status"] == "cancelled"


@behaviour()
async def a_task_in_the_queue_expires(world: World) -> None:
    peer, task_id = await in_queue(world, MINUTE)
    waiting = peer.collect(task_id)
    world.clock.ahead += 2 * MINUTE
    await expire_overdue(world.elsewhere)
    assert of_end(await peer.answer(waiting)) == "failed"
    assert (await peer.get(task_id))["status"] == "failed"


@behaviour("completed", "failed")
async def a_task_in_the_queue_ends_elsewhere(world: World, status: str) -> None:
    peer, task_id = await in_queue(world)
    waiting = peer.collect(task_id)
    await world.move(task_id, ENDS[status])
    assert of_end(await peer.answer(waiting)) == status
    assert (await peer.get(task_id))["status"] == status


# --- the worker --------------------------------------------------------------------------------


@behaviour()
async def a_worker_whose_task_was_requeued_stops_and_the_task_is_run_again(world: World) -> None:
    """There is one place: the second run begins when the first has stopped."""
    peer, task_id = await at_work(world)
    waiting = peer.collect(task_id)
    world.began.clear()
    seen = await world.store.load(task_id)
    assert seen is not None
    with suppress(IllegalTransition):
        await give_back(world.elsewhere, seen, lost=True, why="The worker seemed to be lost.")
    await within(world, world.began)
    assert (await (await world.peer(OWN)).get(task_id))["status"] == "processing"
    peer.says_nothing_to(waiting)
    world.may_end.set()
    assert text_of(await peer.answer(waiting)) == "run 2"


@behaviour(*ENDS)
async def a_worker_stops_when_its_task_ends_elsewhere(world: World, status: str) -> None:
    """There is one place: the next task begins when the tool of the first has stopped."""
    peer, task_id = await at_work(world)
    waiting = peer.collect(task_id)
    other = await world.peer(G2)
    if status == "cancelled":
        await peer.result("tasks/cancel", {"taskId": task_id})
    else:
        await world.move(task_id, ENDS[status])
    assert of_end(await peer.answer(waiting)) == status
    assert (await other.get(task_id))["status"] == status
    assert "inputRequests" not in await other.get(task_id)
    following = await peer.begin("quick")
    assert text_of(await peer.answer(peer.collect(following))) == "done"
    assert (await peer.get(task_id))["status"] == status


@behaviour()
async def a_working_task_expires(world: World) -> None:
    peer, task_id = await at_work(world)
    waiting = peer.collect(task_id)
    world.clock.ahead += 24 * 60 * MINUTE
    await expire_overdue(world.elsewhere)
    assert of_end(await peer.answer(waiting)) == "failed"
    assert (await peer.get(task_id))["status"] == "failed"


# --- questions ---------------------------------------------------------------------------------


@behaviour()
async def an_answer_lets_the_waiting_tool_go_on(world: World) -> None:
    peer, task_id, waiting, question = await asking(world)
    assert (await peer.get(task_id))["status"] == "input_required"
    shown = await (await world.peer(G2)).get(task_id)
    assert shown["inputRequests"].keys() == {"name"}
    peer.says_nothing_to(waiting)
    peer.reply(question)
    await within(world, world.began)
    assert (await peer.get(task_id))["status"] == "working"
    world.may_end.set()
    assert text_of(await peer.answer(waiting)) == "Hello, Ada! (run 1)"


@behaviour()
async def a_parked_task_is_run_again_by_its_last_answer(world: World) -> None:
    peer, task_id, waiting, question = await asking(world, "parked")
    other = await world.peer(G2)
    following = await peer.begin("quick")
    assert text_of(await peer.answer(peer.collect(following))) == "done", "no worker is kept"
    assert (await other.get(task_id))["status"] == "input_required"
    peer.reply(question)
    assert text_of(await peer.answer(waiting)) == "Hello, Ada! (run 2)"


@behaviour()
async def two_questions_are_answered_one_by_one(world: World) -> None:
    await world.start()
    peer, caller = await world.peer(G2), await world.peer(G1)
    task_id = await caller.begin("two")
    waiting = caller.collect(task_id)
    await caller.hears("elicitation/create", message="First?")
    await caller.hears("elicitation/create", message="Second?")
    shown = await peer.get(task_id)
    assert (shown["status"], [*shown["inputRequests"]]) == ("input_required", ["a", "b"])
    answer = {"action": "accept", "content": {"name": "Ada"}}
    await peer.result("tasks/update", {"taskId": task_id, "inputResponses": {"a": answer}})
    shown = await peer.get(task_id)
    assert (shown["status"], [*shown["inputRequests"]]) == ("input_required", ["b"])
    await peer.result("tasks/update", {"taskId": task_id, "inputResponses": {"b": answer}})
    assert text_of(await caller.answer(waiting)) == "Ada and Ada"


@behaviour()
async def progress_flows_while_a_question_is_open(world: World) -> None:
    peer, task_id, waiting, question = await asking(world)
    own = await world.peer(OWN)
    await own.result("tasks/progress", {"progressToken": task_id, "progress": 0.5})
    assert (await peer.hears("notifications/progress"))["params"]["progress"] == 0.5
    assert (await peer.get(task_id))["status"] == "input_required"
    world.may_end.set()
    peer.reply(question)
    assert text_of(await peer.answer(waiting)) == "Hello, Ada! (run 1)"


@behaviour()
async def a_tool_that_does_not_wait_withdraws_its_question(world: World) -> None:
    peer, task_id, waiting, question = await asking(world, "shrug")
    world.may_end.set()
    assert text_of(await peer.answer(waiting)) == "never mind"
    withdrawn = await peer.hears("notifications/cancelled")
    assert withdrawn["params"]["requestId"] == question["id"]
    shown = await (await world.peer(G2)).get(task_id)
    assert (shown["status"], "inputRequests" in shown) == ("completed", False)


@behaviour(*ENDS)
async def an_end_elsewhere_withdraws_the_question(world: World, status: str) -> None:
    peer, task_id, waiting, question = await asking(world)
    if status == "cancelled":
        await peer.result("tasks/cancel", {"taskId": task_id})
    else:
        await world.move(task_id, ENDS[status])
    assert of_end(await peer.answer(waiting)) == status
    withdrawn = await peer.hears("notifications/cancelled")
    assert withdrawn["params"]["requestId"] == question["id"]
    assert (await peer.get(task_id))["status"] == status
    following = await peer.begin("quick")
    assert text_of(await peer.answer(peer.collect(following))) == "done"


@behaviour()
async def a_task_that_waits_for_an_answer_expires(world: World) -> None:
    peer, task_id, waiting, question = await asking(world)
    world.clock.ahead += 24 * 60 * MINUTE
    await expire_overdue(world.elsewhere)
    assert of_end(await peer.answer(waiting)) == "failed"
    withdrawn = await peer.hears("notifications/cancelled")
    assert withdrawn["params"]["requestId"] == question["id"]
    assert (await peer.get(task_id))["status"] == "failed"


# --- progress and the end ----------------------------------------------------------------------


@behaviour(*ENDS)
async def no_progress_comes_with_the_end(world: World, status: str) -> None:
    """A stream that missed the last report does not catch up on it when the task has ended."""
    peer, task_id = await at_work(world)
    waiting = peer.collect(task_id)
    moved = partial(lifecycle.report, progress=Progress(0.9))
    await world.move(task_id, moved, ENDS[status])
    assert of_end(await peer.answer(waiting)) == status
    assert (await peer.hears("notifications/tasks/status"))["params"]["status"] == status
    assert "notifications/progress" not in json.dumps(peer.messages)


# --- forgetting --------------------------------------------------------------------------------


@behaviour(*ENDS)
async def a_task_is_forgotten_after_its_time(world: World, status: str) -> None:
    peer, task_id = await at_work(world)
    waiting = peer.collect(task_id)
    await world.move(task_id, ENDS[status])
    assert of_end(await peer.answer(waiting)) == status
    world.clock.ahead += 48 * 60 * MINUTE
    await sweep(world.elsewhere)
    await not_found(peer, task_id)


@behaviour(*ENDS)
async def a_task_that_was_deleted_is_gone_at_once(world: World, status: str) -> None:
    peer, task_id = await at_work(world)
    await world.move(task_id, ENDS[status], lifecycle.purge)
    await not_found(peer, task_id)


async def not_found(peer: Peer, task_id: str) -> None:
    answer = await peer.answer(peer.request("tasks/get", {"taskId": task_id}))
    assert answer["error"]["code"] == -32602


# --- a long queue -------------------------------------------------------------------------------


@behaviour("working", "input_required", *ENDS)
async def tasks_that_nobody_may_claim_crowd_nobody_out(world: World, state: str) -> None:
    """The engine reads a bounded part of the queue, the oldest first."""
    await world.enlist("w")
    now = world.clock()
    for number in range(CROWD):
        steps = [lifecycle.submit(f"c{number:04}", "bob", Call("other"), now, ttl_ms=None)]
        if state != "cancelled":
            steps.append(lifecycle.start(steps[-1].task, now, worker="w"))
        if state == "input_required":
            steps.append(asked(steps[-1].task, now))
        elif state != "working":
            steps.append(ENDS[state](steps[-1].task, now))
        await world.store.adopt(steps[-1].task, [step.entry for step in steps])
    world.clock.ahead += 1
    task = await world.elsewhere.create("alice", Call("tools/call", "quick"))
    await world.start()
    peer = await world.peer(G1)
    assert text_of(await peer.answer(peer.collect(task.id))) == "done"


def asked(task: Task, now: int) -> Step:
    step = lifecycle.ask(task, now, [Question("k", "elicitation/create", b"{}")])
    assert step is not None
    return step
