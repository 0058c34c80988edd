# mypy: ignore-errors
"""The two interfaces of `mcp` 1.x, called as its own code and that of a server may call them."""

import asyncio
import itertools
import os

import anyio
import pytest
from mcp import McpError
from mcp.shared.experimental.tasks.helpers import task_execution
from mcp.shared.experimental.tasks.message_queue import QueuedMessage
from mcp.shared.experimental.tasks.resolver import Resolver
from mcp.types import JSONRPCNotification, JSONRPCRequest, TaskMetadata

from taskmachine.adapters.bridges.mcp1 import BoundedQueue, TaskmachineStore
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.stores import Caps
from taskmachine.adapters.tools.errors import Gone
from taskmachine.statemachine import LimitExceeded, Times
from tests.adapters.bridges.mcp1.served import PATIENCE_S, alive, said, text_of, until

WISH = TaskMetadata(ttl=60_000)


# --- the store --------------------------------------------------------------------------------

STATUSES = ("working", "input_required", "completed", "failed", "cancelled")
ENDED = {"completed", "failed", "cancelled"}


async def moved(store, *statuses):
    """Create a task and set these statuses in turn; return the status after each."""
    task = await store.create_task(WISH)
    seen = []
    for status in statuses:
        try:
            seen.append((await store.update_task(task.taskId, status=status)).status)
        except Gone:
            seen.append((await store.get_task(task.taskId)).status)
    return seen


@alive
async def test_a_task_takes_every_path_that_there_is_and_no_other():
    """2025-11-25: from working and input_required to every status, from final ones to none."""
    store = TaskmachineStore("memory:", limits=Limits(caps=Caps(live_of_owner=10_000)))
    for path in itertools.product(STATUSES, repeat=3):
        expected, now = [], "working"
        for status in path:
            now = now if now in ENDED else status
            expected.append(now)
        assert await moved(store, *path) == expected, path


@alive
async def test_ended_task_keeps_its_result_status_and_message():
    store = TaskmachineStore("memory:")
    task = await store.create_task(WISH)
    await store.store_result(task.taskId, said("first"))
    ended = await store.update_task(task.taskId, "completed", "in time")
    assert (ended.status, ended.statusMessage) == ("completed", "in time")
    await store.store_result(task.taskId, said("second"))
    for status in ("completed", "failed", "cancelled", "working"):
        assert await store.update_task(task.taskId, status=status) == ended
    with pytest.raises(Gone):
        await store.update_task(task.taskId, status_message="too late")
    with pytest.raises(Gone):
        await store.update_task(task.taskId, status="input_required")
    assert await store.get_task(task.taskId) == ended
    assert (await store.get_result(task.taskId)).content == [{"type": "text", "text": "first"}]


@alive
async def test_ids_that_are_known_and_ids_that_are_not():
    store = TaskmachineStore("memory:")
    task = await store.create_task(WISH, "mine")
    assert task.taskId == "mine"
    with pytest.raises(ValueError, match="mine"):
        await store.create_task(WISH, "mine")
    assert await store.get_task("yours") is None
    assert await store.get_result("yours") is None
    assert await store.get_result("mine") is None, "it has not ended"
    for call in (
        store.update_task("yours", status="completed"),
        store.store_result("yours", said("done")),
        store.wait_for_update("yours"),
    ):
        with pytest.raises(ValueError, match="yours"):
            await call


@pytest.mark.parametrize("ttl", [0, -1])
@alive
async def test_a_ttl_that_cannot_be(ttl):
    store = TaskmachineStore("memory:")
    with pytest.raises(McpError) as refused:
        await store.create_task(TaskMetadata(ttl=ttl))
    assert refused.value.error.code == -32602


@alive
async def test_no_ttl_is_the_default_and_a_long_one_is_cut():
    hour, week = 3_600_000, 7 * 24 * 3_600_000
    store = TaskmachineStore("memory:")
    assert (await store.create_task(TaskMetadata())).ttl == hour
    assert (await store.create_task(TaskMetadata(ttl=10 * week))).ttl == week


@alive
async def test_expired_tasks_make_room_for_new_ones():
    times, caps = Times(timeout_ms=1, grace_ms=1), Caps(retained_of_owner=1)
    store = TaskmachineStore("memory:", times=times, limits=Limits(caps=caps))
    first = await store.create_task(TaskMetadata(ttl=1))
    with pytest.raises(McpError, match="1 stored tasks of this caller"):
        await store.create_task(TaskMetadata(ttl=1))
    with anyio.fail_after(PATIENCE_S):
        while (await store.get_task(first.taskId)).status != "failed":
            await anyio.sleep(0.01)
        second = None
        while second is None:  # until the first one may be deleted
            try:
                second = await store.create_task(TaskMetadata(ttl=1))
            except McpError:
                await anyio.sleep(0.01)
    assert second.status == "working"
    assert await store.get_task(first.taskId) is None


@alive
async def test_deleting_a_task_wakes_waiters_and_late_updates_return_cancelled():
    store = TaskmachineStore("memory:")
    task = await store.create_task(WISH)
    async with anyio.create_task_group() as group:
        group.start_soon(store.wait_for_update, task.taskId)
        await anyio.wait_all_tasks_blocked()
        assert await store.delete_task(task.taskId)
    assert await store.get_task(task.taskId) is None
    assert not await store.delete_task(task.taskId)
    late = await store.update_task(task.taskId, status="failed", status_message="late")
    assert late.status == "cancelled", "its tool is not to end the process"


@alive
async def test_status_change_wakes_all_waiters_and_a_message_change_does_not():
    store = TaskmachineStore("memory:")
    task = await store.create_task(WISH)
    for status in ("input_required", "working", "completed"):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(store.wait_for_update, task.taskId)
            await anyio.wait_all_tasks_blocked()
            await store.update_task(task.taskId, status_message="no change of the status")
            await anyio.wait_all_tasks_blocked()
            assert group.cancel_scope.cancel_called is False
            await store.update_task(task.taskId, status=status)
    await store.wait_for_update(task.taskId)  # at once: the status is final


@alive
async def test_work_outside_of_any_request():
    """As the SDK's own `task_execution` does it, in another process with the same file."""
    store = TaskmachineStore("memory:")
    done, failed = [await store.create_task(WISH) for _ in range(2)]
    async with task_execution(done.taskId, store) as context:
        await context.update_status("half")
        await context.complete(said("whole"))
    async with task_execution(failed.taskId, store):
        raise RuntimeError("broken")
    assert (await store.get_task(done.taskId)).status == "completed"
    assert (await store.get_task(failed.taskId)).statusMessage == "broken"
    listed, cursor = await store.list_tasks()
    assert ({task.taskId for task in listed}, cursor) == ({done.taskId, failed.taskId}, None)


@alive
async def test_two_servers_on_one_file(tmp_path):
    one, other = [TaskmachineStore(f"sqlite:{tmp_path / 'tasks.db'}") for _ in range(2)]
    done, stopped = [await one.create_task(WISH) for _ in range(2)]
    async with anyio.create_task_group() as group:
        group.start_soon(other.wait_for_update, done.taskId)
        await one.store_result(done.taskId, said("done"))
        await one.update_task(done.taskId, status="completed")
    assert text_of(said("done")) in str(await other.get_result(done.taskId))
    await other.update_task(stopped.taskId, status="cancelled")
    with pytest.raises(Gone):
        await one.update_task(stopped.taskId, status_message="still there")
    running = await one.create_task(WISH)
    await other.close()
    assert (await one.get_task(running.taskId)).status == "working", "that one was not its"
    await one.close()
    assert (await other.get_task(running.taskId)).status == "failed"


def test_every_event_loop_opens_the_store_for_itself(tmp_path):
    """Even while another loop has it open and is not running."""
    store = TaskmachineStore(f"sqlite:{tmp_path / 'tasks.db'}")
    loops = [asyncio.new_event_loop() for _ in range(2)]
    try:
        task = loops[0].run_until_complete(store.create_task(WISH))
        report = store.update_task(task.taskId, status_message="from the other one")
        reported = loops[1].run_until_complete(asyncio.wait_for(report, PATIENCE_S))
        assert (reported.status, reported.statusMessage) == ("working", "from the other one")
    finally:
        for loop in loops:
            for left in (all_left := asyncio.all_tasks(loop)):
                left.cancel()
            loop.run_until_complete(asyncio.wait(all_left))
            loop.close()


@alive
async def test_the_work_of_a_dead_process_has_failed_before_anybody_can_ask(tmp_path):
    url, child = f"sqlite:{tmp_path / 'tasks.db'}", os.fork()
    if not child:
        store = TaskmachineStore(url)
        asyncio.new_event_loop().run_until_complete(store.create_task(WISH, "orphan"))
        os._exit(0)  # like a kill, without cleanup
    os.waitpid(child, 0)

    shown = await TaskmachineStore(url).get_task("orphan")
    assert (shown.status, shown.statusMessage) == ("failed", "The worker of this task was lost.")


@alive
async def test_closing_the_store_fails_running_tasks_and_the_next_call_reopens_it(tmp_path):
    store = TaskmachineStore(f"sqlite:{tmp_path / 'tasks.db'}")
    task, heard = await store.create_task(WISH), []
    store.on_end(heard.append)
    await store.close()
    assert heard == [task.taskId]
    shown = await store.update_task(task.taskId, status="completed")
    assert (shown.status, shown.statusMessage) == ("failed", "The server was stopped.")


@alive
async def test_a_task_has_so_many_questions_in_its_life():
    store = TaskmachineStore("memory:", limits=Limits(questions=2))
    task = await store.create_task(WISH)
    for _ in range(2):
        await store.update_task(task.taskId, status="input_required")
        await store.update_task(task.taskId, status="working")
    with pytest.raises(LimitExceeded):
        await store.update_task(task.taskId, status="input_required")
    assert (await store.get_task(task.taskId)).status == "working"


@alive
async def test_nothing_is_kept_of_tools_that_have_ended():
    store = TaskmachineStore("memory:")
    await moved(store, "completed")
    await moved(store, "cancelled", "failed")
    task = await store.create_task(WISH)
    await store.store_result(task.taskId, said("done"))
    await store.update_task(task.taskId, status="cancelled")
    await store.store_result(task.taskId, said("late"))
    assert not store._results
    await store.update_task(task.taskId, status="completed")
    assert not store._tools


# --- the queue --------------------------------------------------------------------------------

NOTE = QueuedMessage("notification", JSONRPCNotification(jsonrpc="2.0", method="x"))


def question(number=1):
    request = JSONRPCRequest(jsonrpc="2.0", id=number, method="elicitation/create")
    return QueuedMessage("request", request, resolver=Resolver(), original_request_id=number)


@alive
async def test_messages_come_in_order_and_leave_nothing_behind():
    queue, messages = BoundedQueue(), [question(1), NOTE, question(2)]
    for message in messages:
        await queue.enqueue("t", message)
    assert await queue.peek("t") is messages[0]
    assert not await queue.is_empty("t")
    assert [await queue.dequeue("t") for _ in range(4)] == [*messages, None]
    assert await queue.is_empty("t")
    for message in messages:
        await queue.enqueue("t", message)
    assert await queue.clear("t") == messages
    assert await queue.peek("t") is None
    messages[0].resolver.set_result({})
    assert queue.withdraw("t") == [messages[2]], "delivered, and not answered"
    assert (queue._queued, queue._delivered, queue._waiters) == ({}, {}, {})


@alive
async def test_message_wakes_all_waiters_of_the_queue():
    queue = BoundedQueue()
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(queue.wait_for_message, "t")
        await anyio.wait_all_tasks_blocked()
        await queue.enqueue("t", NOTE)
    await queue.wait_for_message("t")
    with anyio.move_on_after(0.01):
        await queue.wait_for_message("other")
    assert not queue._waiters


@alive
async def test_woken_waiter_does_not_unregister_a_later_waiter():
    queue = BoundedQueue()
    first = asyncio.create_task(queue.wait_for_message("t"))
    await anyio.wait_all_tasks_blocked()
    await queue.enqueue("t", NOTE)
    await queue.clear("t")
    second = asyncio.create_task(queue.wait_for_message("t"))
    await first
    await anyio.wait_all_tasks_blocked()
    await queue.enqueue("t", NOTE)
    await until(second.done)


@alive
async def test_a_tool_cannot_ask_without_end():
    queue = BoundedQueue(2)
    asked = [question(1), question(2)]
    for message in asked:
        await queue.enqueue("t", message)
    await queue.dequeue("t")
    with pytest.raises(LimitExceeded):
        await queue.enqueue("t", question(3))
    await queue.enqueue("other", question(4))
    asked[0].resolver.set_result({})
    await queue.enqueue("t", question(5))
