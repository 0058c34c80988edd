"""Promises of the runtime that are not the subject of another file."""

import asyncio
import json
import logging
from pathlib import Path

import pytest

from taskmachine.adapters.runtime.claims import claim
from taskmachine.adapters.runtime.maintenance import sweep
from taskmachine.adapters.runtime.runtime import new_id, open_runtime, start_runtime
from taskmachine.adapters.stores import StoreError, open_store
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.jsonrpc import encode_message
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Call, ConfigurationError, NotFound, TaskmachineError
from tests.adapters.connections import Connection, greeting_tools
from tests.adapters.memory_service import DONE, HOUR, MemoryService, call, run


def test_task_ids_are_unique_random_and_32_characters_long() -> None:
    """192 random bits as text."""
    ids = {new_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert {len(task_id) for task_id in ids} == {32}


def test_a_task_leaves_the_store_only_by_a_sweep_after_its_time() -> None:

    async def main() -> None:
        memory = MemoryService()
        task = await memory.ended(ttl_ms=HOUR)
        assert task.deadline == task.created_at + HOUR
        memory.clock.now = task.deadline
        assert await memory.service.get("alice", task.id) == task, "its time alone does nothing"
        await sweep(memory.service)
        with pytest.raises(NotFound):
            await memory.service.get("alice", task.id)

    run(main())


def test_task_record_keeps_the_call_metadata_and_timeout() -> None:

    async def main() -> None:
        memory = MemoryService()
        asked = Call("tools/call", "greet", b'{"name":"Ada"}', progress_token="p-1")
        task = await memory.service.create("alice", asked, metadata=b'{"a":1}', timeout_ms=5_000)
        await (await memory.claim(task.id)).settle(DONE)
        kept = await memory.service.get("alice", task.id)
        assert (kept.call, kept.metadata, kept.timeout_ms) == (asked, b'{"a":1}', 5_000)

    run(main())


def test_time_never_goes_back_for_an_observer() -> None:
    """Even if the clock does."""

    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        memory.clock.now -= HOUR
        await (await memory.claim(task.id)).report(message="on it")
        assert (await memory.service.get("alice", task.id)).updated_at == task.updated_at

    run(main())


def test_a_task_has_one_worker() -> None:

    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        claims = await asyncio.gather(*(claim(memory.service, task.id, f"w{n}") for n in range(10)))
        assert sum(held is not None for held in claims) == 1

    run(main())


def test_a_refused_call_never_touches_the_tool() -> None:
    """And an accepted one is answered before the tool has begun."""
    begun = []

    async def main() -> None:
        tools = Tools()

        @tools.task()
        async def work() -> None:
            begun.append(1)

        runtime = await start_runtime(MemoryStore(b"s" * 32), tools)
        for wish in (
            Create(call("work"), ttl_ms=-1),
            Create(call("work", key="")),
            Create(call("missing")),
        ):
            with pytest.raises(TaskmachineError):
                await runtime.create("alice", wish)
        assert begun == []
        task = await runtime.create("alice", Create(call("work")))
        assert (task.is_terminal, begun) == (False, [])
        await runtime.service.collect("alice", task.id)
        assert begun == [1]
        await runtime.stop()

    run(main())


def test_progress_goes_only_to_requests_with_a_token_and_stops_at_the_end() -> None:
    """With the task that it belongs to."""

    async def main() -> None:
        tools = greeting_tools()

        @tools.task()
        async def count(ctx: Context) -> None:
            await ctx.progress(1, 3)
            await ctx.status("thinking")
            await ctx.progress(2, 3, "nearly")

        runtime = await start_runtime(MemoryStore(b"s" * 32), tools)
        line = Connection(runtime, "2025-11-25", "alice")
        await line.introduce()
        call = {"name": "count", "task": {}, "_meta": {"progressToken": "p-1"}}
        sent = [json.loads(message) for message in await line.ask("tools/call", call)]
        task_id = sent[0]["result"]["task"]["taskId"]
        told = [m["params"] for m in sent if m.get("method") == "notifications/progress"]
        assert [(params["progressToken"], params["progress"]) for params in told] == [
            ("p-1", 1),
            ("p-1", 2),
        ]
        related = {"io.modelcontextprotocol/related-task": {"taskId": task_id}}
        assert all(params["_meta"] == related for params in told)
        last = max(i for i, m in enumerate(sent) if m.get("method") == "notifications/progress")
        end = [m.get("params", {}).get("status") for m in sent].index("completed")
        assert last < end
        silent = await line.ask("tools/call", {"name": "count", "task": {}})
        assert not [message for message in silent if b"notifications/progress" in message]
        await line.conversation.close()
        await runtime.stop()

    run(main())


@pytest.mark.parametrize("url", ["", "tasks.db", "mysql://host/db", "sqlite:", "memory:x"])
def test_a_store_that_is_none_is_refused_in_words(url: str) -> None:
    with pytest.raises(ConfigurationError, match="store"):
        run(open_store(url))


def test_a_store_that_cannot_be_opened_stops_the_runtime(tmp_path: Path) -> None:

    async def main() -> None:
        (tmp_path / "tasks.db").write_text("this is not a database, but long enough to check")
        with pytest.raises((StoreError, ConfigurationError), match=r"tasks\.db"):
            async with open_runtime(f"sqlite:{tmp_path / 'tasks.db'}", Tools()):
                raise AssertionError("it was opened")

    run(main())


def test_every_event_is_one_structured_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:

    async def main() -> None:
        memory = MemoryService()
        with caplog.at_level(logging.INFO, "taskmachine"):
            task = await memory.create()
            memory.clock.now += 250
            await (await memory.claim(task.id)).settle(DONE)
        names = ("event", "from", "to", "version", "age_ms", "tool")
        assert [tuple(vars(record)[name] for name in names) for record in caplog.records] == [
            ("submit", "new", "submitted", 1, 0, "greet"),
            ("start", "submitted", "working", 2, 250, "greet"),
            ("complete", "working", "completed", 3, 250, "greet"),
        ]
        assert {vars(record)["owner"] for record in caplog.records} == {
            memory.service.sealer.alias("alice")
        }
        assert all(task.id in record.getMessage() for record in caplog.records)

    run(main())


def test_memory_store_keeps_nothing_of_deleted_tasks() -> None:
    """Not one entry is left of tasks, waiters and owners that are gone."""

    async def main() -> None:
        memory = MemoryService()
        for n in range(50):
            task = await memory.service.create(f"owner-{n}", call(key=f"k-{n}"), ttl_ms=1_000)
            await memory.service.wait(f"owner-{n}", task.id, after=1, timeout_s=0)
            await memory.store.enqueue(task.id, b"{}", 10)
            await (await memory.claim(task.id)).settle(DONE)
        memory.clock.now += 24 * HOUR
        assert await sweep(memory.service) == 50
        store = memory.store
        assert isinstance(store, MemoryStore)
        left = {
            name: value
            for name, value in vars(store).items()
            if hasattr(value, "__len__") and name != "_secret" and len(value)
        }
        assert left == {}
        assert vars(store)["_followers"].by_task == {}

    run(main())


def test_a_late_answer_of_a_wire_is_the_tasks_last_word() -> None:
    async def main() -> None:
        runtime = await start_runtime(MemoryStore(b"s" * 32), greeting_tools())
        line = Connection(runtime, "2025-11-25", "alice")
        await line.introduce()
        task_id = await line.create("hang", {})
        cancelled = (await line.call("tasks/cancel", {"taskId": task_id}))["result"]
        assert cancelled["statusMessage"] == "The task was cancelled by request."
        again = (await line.call("tasks/cancel", {"taskId": task_id}))["error"]
        assert (again["code"], "cancelled" in again["message"]) == (-32602, True)
        result = (await line.call("tasks/result", {"taskId": task_id}))["error"]
        assert (result["code"], result["message"]) == (-32000, "Task cancelled")
        assert encode_message(line.sent[-1].message)
        await line.conversation.close()
        await runtime.stop()

    run(main())
