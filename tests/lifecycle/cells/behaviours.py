"""The effect of each cell of the two tables on clients, in JSON.  Nothing here reads a table."""

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
from tests.lifecycle.cells.environment import G1, G2, OWN, Environment, Message, Peer, within

__all__ = ["BEHAVIOURS", "Behaviour"]

Behaviour = Callable[[Environment], Awaitable[None]]

BATCH: Final = 1_000
"""Number of tasks that an engine reads from the queue at a time."""

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


def _swapped(act: Callable[..., Awaitable[None]], state: str, env: Environment) -> Awaitable[None]:
    return act(env, state)


def text_of(answer: Message) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


def of_end(answer: Message) -> str:
    """Return the state in which a task ended, from its `tasks/result` response."""
    if "result" in answer:
        return "completed"
    return "cancelled" if "cancel" in answer["error"]["message"].lower() else "failed"


async def occupied(env: Environment) -> str:
    """Give the only worker a task, so that the next task stays in the queue."""
    await env.start(concurrency=1)
    first = await (await env.peer(G2)).begin("hold")
    await within(env, env.started)
    return first


async def in_queue(env: Environment, ttl: int = 60 * MINUTE) -> tuple[Peer, str]:
    await occupied(env)
    peer = await env.peer(G1)
    return peer, await peer.begin("quick", ttl)


async def at_work(env: Environment) -> tuple[Peer, str]:
    await env.start(concurrency=1)
    peer = await env.peer(G1)
    task_id = await peer.begin("hold")
    await within(env, env.started)
    return peer, task_id


async def asking(env: Environment, tool: str = "greet") -> tuple[Peer, str, int, Message]:
    """Wait for the outcome of a task on which a question is open."""
    await env.start(concurrency=1)
    peer = await env.peer(G1)
    task_id = await peer.begin(tool)
    waiting = peer.collect(task_id)
    return peer, task_id, waiting, await peer.receives("elicitation/create")


# --- one run of a tool -----------------------------------------------------------------------


@behaviour()
async def a_task_runs_and_its_result_can_be_read(env: Environment) -> None:
    await env.start()
    peer = await env.peer(G1)
    task_id = await peer.begin("quick")
    assert text_of(await peer.answer(peer.collect(task_id))) == "done"
    assert (await peer.get(task_id))["status"] == "completed"
    shown = await (await env.peer(G2)).get(task_id)
    assert (shown["status"], "inputRequests" in shown) == ("completed", False)


@behaviour()
async def a_tool_that_raises_fails(env: Environment) -> None:
    await env.start()
    peer = await env.peer(G1)
    task_id = await peer.begin("broken")
    answer = await peer.answer(peer.collect(task_id))
    assert "error" in answer or answer["result"].get("isError"), answer
    assert (await peer.get(task_id))["status"] == "failed"


@behaviour()
async def progress_of_a_working_task_is_notified(env: Environment) -> None:
    await env.start()
    peer = await env.peer(G1)
    task_id = await peer.begin("report")
    await within(env, env.started)
    assert (await peer.receives("notifications/progress"))["params"]["progress"] == 1
    assert (await peer.receives("notifications/tasks/status"))["params"]["status"] == "working"
    shown = await (await env.peer(G2)).get(task_id)
    assert (shown["status"], shown["statusMessage"]) == ("working", "halfway")
    assert (await (await env.peer(OWN)).get(task_id))["status"] == "processing"
    assert "inputRequests" not in shown
    env.may_end.set()
    assert text_of(await peer.answer(peer.collect(task_id))) == "done"


# --- the queue ---------------------------------------------------------------------------------


@behaviour()
async def a_task_in_the_queue_is_run_when_there_is_room(env: Environment) -> None:
    peer, task_id = await in_queue(env)
    own = await env.peer(OWN)
    assert (await own.get(task_id))["status"] == "pending"
    shown = await (await env.peer(G2)).get(task_id)
    assert (shown["status"], "inputRequests" in shown) == ("working", False)
    waiting = peer.collect(task_id)
    params = {"progressToken": task_id, "progress": 0.5}
    assert await own.result("tasks/progress", params) == {"progress": 0.5}
    assert (await peer.receives("notifications/progress"))["params"]["progress"] == 0.5
    assert (await own.get(task_id))["status"] == "pending"
    peer.has_not_answered(waiting)
    env.may_end.set()
    assert text_of(await peer.answer(waiting)) == "done"


@behaviour()
async def a_task_in_the_queue_can_be_cancelled(env: Environment) -> None:
    peer, task_id = await in_queue(env)
    assert (await peer.result("tasks/cancel", {"taskId": task_id}))["status"] == "cancelled"
    assert (await peer.get(task_id))["status"] == "cancelled"


@behaviour()
async def a_task_in_the_queue_expires(env: Environment) -> None:
    peer, task_id = await in_queue(env, MINUTE)
    waiting = peer.collect(task_id)
    env.clock.ahead += 2 * MINUTE
    await expire_overdue(env.elsewhere)
    assert of_end(await peer.answer(waiting)) == "failed"
    assert (await peer.get(task_id))["status"] == "failed"


@behaviour("completed", "failed")
async def a_task_in_the_queue_ends_elsewhere(env: Environment, status: str) -> None:
    peer, task_id = await in_queue(env)
    waiting = peer.collect(task_id)
    await env.move(task_id, ENDS[status])
    assert of_end(await peer.answer(waiting)) == status
    assert (await peer.get(task_id))["status"] == status


# --- the worker --------------------------------------------------------------------------------


@behaviour()
async def a_requeued_task_stops_its_worker_and_is_run_again(
    env: Environment,
) -> None:
    """With one worker slot, the second run begins when the first has stopped."""
    peer, task_id = await at_work(env)
    waiting = peer.collect(task_id)
    env.started.clear()
    seen = await env.store.load(task_id)
    assert seen is not None
    with suppress(IllegalTransition):
        await give_back(env.elsewhere, seen, lost=True, why="The worker seemed to be lost.")
    await within(env, env.started)
    assert (await (await env.peer(OWN)).get(task_id))["status"] == "processing"
    peer.has_not_answered(waiting)
    env.may_end.set()
    assert text_of(await peer.answer(waiting)) == "run 2"


@behaviour(*ENDS)
async def a_worker_stops_when_its_task_ends_elsewhere(env: Environment, status: str) -> None:
    """With one worker slot, the next task begins when the first tool has stopped."""
    peer, task_id = await at_work(env)
    waiting = peer.collect(task_id)
    other = await env.peer(G2)
    if status == "cancelled":
        await peer.result("tasks/cancel", {"taskId": task_id})
    else:
        await env.move(task_id, ENDS[status])
    assert of_end(await peer.answer(waiting)) == status
    assert (await other.get(task_id))["status"] == status
    assert "inputRequests" not in await other.get(task_id)
    following = await peer.begin("quick")
    assert text_of(await peer.answer(peer.collect(following))) == "done"
    assert (await peer.get(task_id))["status"] == status


@behaviour()
async def a_working_task_expires(env: Environment) -> None:
    peer, task_id = await at_work(env)
    waiting = peer.collect(task_id)
    env.clock.ahead += 24 * 60 * MINUTE
    await expire_overdue(env.elsewhere)
    assert of_end(await peer.answer(waiting)) == "failed"
    assert (await peer.get(task_id))["status"] == "failed"


# --- questions ---------------------------------------------------------------------------------


@behaviour()
async def an_answer_lets_the_waiting_tool_go_on(env: Environment) -> None:
    peer, task_id, waiting, question = await asking(env)
    assert (await peer.get(task_id))["status"] == "input_required"
    shown = await (await env.peer(G2)).get(task_id)
    assert shown["inputRequests"].keys() == {"name"}
    peer.has_not_answered(waiting)
    peer.reply(question)
    await within(env, env.started)
    assert (await peer.get(task_id))["status"] == "working"
    env.may_end.set()
    assert text_of(await peer.answer(waiting)) == "Hello, Ada! (run 1)"


@behaviour()
async def a_parked_task_is_run_again_by_its_last_answer(env: Environment) -> None:
    peer, task_id, waiting, question = await asking(env, "parked")
    other = await env.peer(G2)
    following = await peer.begin("quick")
    assert text_of(await peer.answer(peer.collect(following))) == "done", "no worker is kept"
    assert (await other.get(task_id))["status"] == "input_required"
    peer.reply(question)
    assert text_of(await peer.answer(waiting)) == "Hello, Ada! (run 2)"


@behaviour()
async def two_questions_are_answered_one_by_one(env: Environment) -> None:
    await env.start()
    peer, caller = await env.peer(G2), await env.peer(G1)
    task_id = await caller.begin("two")
    waiting = caller.collect(task_id)
    await caller.receives("elicitation/create", message="First?")
    await caller.receives("elicitation/create", message="Second?")
    shown = await peer.get(task_id)
    assert (shown["status"], [*shown["inputRequests"]]) == ("input_required", ["a", "b"])
    answer = {"action": "accept", "content": {"name": "Ada"}}
    await peer.result("tasks/update", {"taskId": task_id, "inputResponses": {"a": answer}})
    shown = await peer.get(task_id)
    assert (shown["status"], [*shown["inputRequests"]]) == ("input_required", ["b"])
    await peer.result("tasks/update", {"taskId": task_id, "inputResponses": {"b": answer}})
    assert text_of(await caller.answer(waiting)) == "Ada and Ada"


@behaviour()
async def progress_flows_while_a_question_is_open(env: Environment) -> None:
    peer, task_id, waiting, question = await asking(env)
    own = await env.peer(OWN)
    await own.result("tasks/progress", {"progressToken": task_id, "progress": 0.5})
    assert (await peer.receives("notifications/progress"))["params"]["progress"] == 0.5
    assert (await peer.get(task_id))["status"] == "input_required"
    env.may_end.set()
    peer.reply(question)
    assert text_of(await peer.answer(waiting)) == "Hello, Ada! (run 1)"


@behaviour()
async def a_tool_that_does_not_wait_withdraws_its_question(env: Environment) -> None:
    peer, task_id, waiting, question = await asking(env, "shrug")
    env.may_end.set()
    assert text_of(await peer.answer(waiting)) == "never mind"
    withdrawn = await peer.receives("notifications/cancelled")
    assert withdrawn["params"]["requestId"] == question["id"]
    shown = await (await env.peer(G2)).get(task_id)
    assert (shown["status"], "inputRequests" in shown) == ("completed", False)


@behaviour(*ENDS)
async def an_end_elsewhere_withdraws_the_question(env: Environment, status: str) -> None:
    peer, task_id, waiting, question = await asking(env)
    if status == "cancelled":
        await peer.result("tasks/cancel", {"taskId": task_id})
    else:
        await env.move(task_id, ENDS[status])
    assert of_end(await peer.answer(waiting)) == status
    withdrawn = await peer.receives("notifications/cancelled")
    assert withdrawn["params"]["requestId"] == question["id"]
    assert (await peer.get(task_id))["status"] == status
    following = await peer.begin("quick")
    assert text_of(await peer.answer(peer.collect(following))) == "done"


@behaviour()
async def a_task_that_waits_for_an_answer_expires(env: Environment) -> None:
    peer, task_id, waiting, question = await asking(env)
    env.clock.ahead += 24 * 60 * MINUTE
    await expire_overdue(env.elsewhere)
    assert of_end(await peer.answer(waiting)) == "failed"
    withdrawn = await peer.receives("notifications/cancelled")
    assert withdrawn["params"]["requestId"] == question["id"]
    assert (await peer.get(task_id))["status"] == "failed"


# --- progress and the end ----------------------------------------------------------------------


@behaviour(*ENDS)
async def no_progress_comes_with_the_end(env: Environment, status: str) -> None:
    """A stream that missed the last report does not get it after the task has ended."""
    peer, task_id = await at_work(env)
    waiting = peer.collect(task_id)
    moved = partial(lifecycle.report, progress=Progress(0.9))
    await env.move(task_id, moved, ENDS[status])
    assert of_end(await peer.answer(waiting)) == status
    assert (await peer.receives("notifications/tasks/status"))["params"]["status"] == status
    assert "notifications/progress" not in json.dumps(peer.messages)


# --- deletion ----------------------------------------------------------------------------------


@behaviour(*ENDS)
async def a_task_is_forgotten_after_its_time(env: Environment, status: str) -> None:
    peer, task_id = await at_work(env)
    waiting = peer.collect(task_id)
    await env.move(task_id, ENDS[status])
    assert of_end(await peer.answer(waiting)) == status
    env.clock.ahead += 48 * 60 * MINUTE
    await sweep(env.elsewhere)
    await not_found(peer, task_id)


@behaviour(*ENDS)
async def a_task_that_was_deleted_is_gone_at_once(env: Environment, status: str) -> None:
    peer, task_id = await at_work(env)
    await env.move(task_id, ENDS[status], lifecycle.purge)
    await not_found(peer, task_id)


async def not_found(peer: Peer, task_id: str) -> None:
    answer = await peer.answer(peer.request("tasks/get", {"taskId": task_id}))
    assert answer["error"]["code"] == -32602


# --- a long queue -------------------------------------------------------------------------------


@behaviour("working", "input_required", *ENDS)
async def unclaimable_tasks_do_not_crowd_out_the_queue(env: Environment, state: str) -> None:
    """The engine reads a bounded part of the queue, the oldest first."""
    await env.register_worker("w")
    now = env.clock()
    for number in range(BATCH):
        steps = [lifecycle.submit(f"c{number:04}", "bob", Call("other"), now, ttl_ms=None)]
        if state != "cancelled":
            steps.append(lifecycle.start(steps[-1].task, now, worker="w"))
        if state == "input_required":
            steps.append(asked(steps[-1].task, now))
        elif state != "working":
            steps.append(ENDS[state](steps[-1].task, now))
        await env.store.adopt(steps[-1].task, [step.entry for step in steps])
    env.clock.ahead += 1
    task = await env.elsewhere.create("alice", Call("tools/call", "quick"))
    await env.start()
    peer = await env.peer(G1)
    assert text_of(await peer.answer(peer.collect(task.id))) == "done"


def asked(task: Task, now: int) -> Step:
    step = lifecycle.ask(task, now, [Question("k", "elicitation/create", b"{}")])
    assert step is not None
    return step
