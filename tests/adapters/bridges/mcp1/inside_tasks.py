# mypy: ignore-errors
"""Tasks of a `mcp` 1.x server on our store from start to end, seen by its own SDK's client."""

from functools import partial

import anyio
import pytest
from mcp.shared.experimental.tasks.helpers import RELATED_TASK_METADATA_KEY
from mcp.types import ElicitResult, TaskStatusNotification

from taskmachine.adapters.bridges.mcp1 import enable_tasks
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.maintenance import sweep
from taskmachine.adapters.stores import Caps
from taskmachine.statemachine import ConfigurationError, Times
from tests.adapters.bridges.mcp1.served import Served, accept, alive, never, refusal, text_of, until

pytestmark = pytest.mark.filterwarnings("ignore:The experimental tasks API:DeprecationWarning")

INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
SHORT = Times(timeout_ms=1, grace_ms=1)
"""No grace beyond the requested TTL."""


@pytest.fixture(params=["memory:", "sqlite"])
def url(request, tmp_path):
    return "memory:" if request.param == "memory:" else f"sqlite:{tmp_path / 'tasks.db'}"


@pytest.fixture
def served(url):
    return Served(partial(enable_tasks, url=url))


@alive
async def test_a_tool_that_returns(served):
    async with served.client() as caller:
        task = await caller.create("say", text="hello")
        assert task.status == "working"
        result = await caller.result(task.taskId)
        assert text_of(result) == "hello"
        assert result.meta[RELATED_TASK_METADATA_KEY] == {"taskId": task.taskId}
        shown = await caller.get(task.taskId)
        assert shown.status == "completed"
        assert shown.createdAt == task.createdAt
        assert shown.lastUpdatedAt >= task.lastUpdatedAt


@alive
async def test_a_tool_that_reports(served):
    heard = []

    async def hear(message):
        if isinstance(getattr(message, "root", None), TaskStatusNotification):
            heard.append((message.root.params.status, message.root.params.statusMessage))

    async with served.client(message_handler=hear) as caller:
        task = await caller.create("report")
        await until(lambda: heard)
        assert (await caller.get(task.taskId)).statusMessage == "before"
        served.go[task.taskId].set()
        await caller.result(task.taskId)
        await until(lambda: len(heard) == 3)
        assert heard == [("working", "before"), ("working", "after"), ("completed", None)]


@alive
async def test_a_result_that_is_an_error_is_a_failure(served):
    async with served.client() as caller:
        task = await caller.create("refuse")
        result = await caller.result(task.taskId)
        assert (result.isError, text_of(result)) == (True, "no")
        assert await caller.status(task.taskId) == "failed"


@alive
async def test_a_tool_that_raises(served):
    async with served.client() as caller:
        task = await caller.create("crash")
        error = await refusal(caller.result(task.taskId))
        assert (error.code, error.message) == (INTERNAL_ERROR, "it does not work")
        shown = await caller.get(task.taskId)
        assert (shown.status, shown.statusMessage) == ("failed", "it does not work")


@alive
async def test_a_result_that_is_not_json_is_a_failure(served):
    async with served.client() as caller:
        task = await caller.create("unfit")
        await refusal(caller.result(task.taskId))
        assert await caller.status(task.taskId) == "failed"


@alive
async def test_a_question(served):
    async with served.client(elicitation_callback=accept) as caller:
        task = await caller.create("ask")
        await caller.sees(task.taskId, "input_required")
        assert text_of(await caller.result(task.taskId)) == "accept Ada"
        assert await caller.status(task.taskId) == "completed"


@alive
async def test_a_tool_that_is_cancelled_and_then_returns(served):
    async with served.client() as caller:
        task = await caller.create("wait")
        assert (await caller.cancel(task.taskId)).status == "cancelled"
        served.go[task.taskId].set()
        await served.ends(task.taskId, "returned")
        again = await caller.create("say")
        assert text_of(await caller.result(again.taskId)) == "done"
        assert await caller.status(task.taskId) == "cancelled"
        error = await refusal(caller.result(task.taskId))
        assert error.data["_meta"][RELATED_TASK_METADATA_KEY] == {"taskId": task.taskId}


@alive
async def test_a_tool_that_is_cancelled_and_then_raises(served):
    async with served.client() as caller:
        task = await caller.create("crash", after=True)
        await caller.cancel(task.taskId)
        served.go[task.taskId].set()
        await served.ends(task.taskId, "RuntimeError")
        again = await caller.create("say")
        await caller.result(again.taskId)
        assert await caller.status(task.taskId) == "cancelled"


@alive
async def test_cancelled_tool_gets_gone_at_its_next_report(served):
    async with served.client() as caller:
        task = await caller.create("report")
        await until(lambda: task.taskId in served.go)
        await caller.cancel(task.taskId)
        served.go[task.taskId].set()
        await served.ends(task.taskId, "Gone")
        assert (await caller.get(task.taskId)).statusMessage != "after"


@alive
async def test_a_tool_that_is_cancelled_waits_no_longer_for_an_answer(served):
    asked, over = anyio.Event(), anyio.Event()

    async def hear(context, params):
        asked.set()
        await over.wait()  # until then this client receives no other messages
        return ElicitResult(action="decline")

    async with (
        served.client() as other,
        served.client(elicitation_callback=hear) as caller,
        anyio.create_task_group() as group,
    ):
        undelivered, delivered = [await caller.create("ask") for _ in range(2)]
        await caller.sees(undelivered.taskId, "input_required")
        group.start_soon(refusal, caller.result(delivered.taskId))
        await asked.wait()
        for task in (undelivered, delivered):
            await other.cancel(task.taskId)
            await served.ends(task.taskId, "McpError")
            assert await other.status(task.taskId) == "cancelled"
        over.set()


@alive
async def test_ended_task_cannot_be_cancelled_through_the_sdk(served):
    async with served.client() as caller:
        task = await caller.create("say")
        await caller.result(task.taskId)
        assert (await refusal(caller.cancel(task.taskId))).code == INVALID_PARAMS
        assert await caller.status(task.taskId) == "completed"


@alive
async def test_an_unknown_task(served):
    async with served.client() as caller:
        for ask in (caller.get, caller.result, caller.cancel):
            assert (await refusal(ask("nobody's"))).code == INVALID_PARAMS
            assert (await refusal(ask("x" * 10_000))).code == INVALID_PARAMS


@alive
async def test_concurrent_tasks_result_requests_all_get_the_result(served):
    async with served.client() as caller:
        task, results = await caller.create("wait"), []

        async def collect():
            results.append(text_of(await caller.result(task.taskId)))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(collect)
            service, owner = await served.store.opened()
            await until(lambda: service.waiting(owner) == 5)
            served.go[task.taskId].set()
        assert results == ["done"] * 5


@alive
async def test_a_list_is_paged_newest_first(url):
    served = Served(partial(enable_tasks, url=url, limits=Limits(page=3)))
    async with served.client() as caller:
        made = []
        for _ in range(8):
            made.append((await caller.create("say")).taskId)
            await caller.result(made[-1])
        pages, cursor = [], None
        while cursor is not None or not pages:
            page = await caller.list(cursor)
            pages.append([task.taskId for task in page.tasks])
            cursor = page.nextCursor
        assert [len(page) for page in pages] == [3, 3, 2]
        assert sorted(task_id for page in pages for task_id in page) == sorted(made)
        assert (await refusal(caller.list("elsewhere"))).code == INVALID_PARAMS


@alive
async def test_a_ttl_that_is_shorter_than_the_run_grows(served):
    async with served.client() as caller:
        task = await caller.create("wait", ttl=1)
        assert task.ttl > 300_000, "said truthfully from the beginning"
        served.go[task.taskId].set()
        assert text_of(await caller.result(task.taskId)) == "done"


@alive
async def test_tool_running_beyond_the_purge_of_its_task_does_not_stop_the_server(url):
    served = Served(partial(enable_tasks, url=url, times=SHORT))
    async with served.client() as caller:
        returns, raises, reports = [
            await caller.create(tool, ttl=1, **more)
            for tool, more in (("wait", {}), ("crash", {"after": True}), ("report", {}))
        ]
        for task in (returns, raises, reports):
            await caller.sees(task.taskId, "failed")
        service, _ = await served.store.opened()
        forgotten = 0
        while forgotten < 3:
            forgotten += await sweep(service)
        for task, how in ((returns, "returned"), (raises, "RuntimeError"), (reports, "Gone")):
            assert (await refusal(caller.get(task.taskId))).code == INVALID_PARAMS
            served.go[task.taskId].set()
            await served.ends(task.taskId, how)
        assert await caller.session.send_ping(), "and the server lives"


@alive
async def test_a_tool_whose_task_expires_waits_no_longer_for_an_answer(url):
    served = Served(partial(enable_tasks, url=url, times=SHORT))
    async with served.client(elicitation_callback=never) as caller:
        task = await caller.create("ask", ttl=1)
        await served.ends(task.taskId, "McpError")
    # The session also ends: it waits for its tools.


@alive
async def test_beyond_a_limit_nothing_is_created(url):
    limits = Limits(caps=Caps(live_of_owner=1))
    served = Served(partial(enable_tasks, url=url, limits=limits))
    async with served.client() as caller:
        task = await caller.create("wait")
        assert "1 unfinished tasks of this caller" in await caller.refused("wait")
        assert len((await caller.list()).tasks) == 1
        served.go[task.taskId].set()
        await caller.result(task.taskId)
        assert (await caller.create("say")).status == "working"


@alive
async def test_sessions_come_and_go(served):
    """The parent process is the owner: each session sees the tasks of the previous one."""
    made = []
    for _ in range(20):
        async with served.client() as caller:
            for earlier in made:
                assert text_of(await caller.result(earlier)) == "done"
            made.append((await caller.create("say")).taskId)
            await caller.result(made[-1])
    async with served.client() as caller:
        assert [task.taskId for task in (await caller.list()).tasks] == made[::-1]


@alive
async def test_closing_one_session_refuses_new_tasks_in_the_other_sessions(served):
    """A limit of the SDK that no store can remove; the documentation page states it."""
    async with served.client() as first:
        task = await first.create("wait")
        async with served.client():
            pass
        assert "TaskSupport not running" in await first.refused("say")
        served.go[task.taskId].set()
        assert text_of(await first.result(task.taskId)) == "done", "running tasks continue"
        async with served.client() as another:
            assert text_of(await another.result((await another.create("say")).taskId)) == "done"


def test_two_event_loops_one_after_the_other(tmp_path):
    served = Served(partial(enable_tasks, url=f"sqlite:{tmp_path / 'tasks.db'}"))

    async def first():
        async with served.client() as caller:
            task = await caller.create("say", text="kept")
            await caller.result(task.taskId)
            return task.taskId

    async def second(task_id):
        async with served.client() as caller:
            assert text_of(await caller.result(task_id)) == "kept"

    anyio.run(second, anyio.run(first))


def test_an_unknown_store_is_refused_before_anything_is_served():
    with pytest.raises(ConfigurationError, match="no store for 'nowhere:'"):
        Served(partial(enable_tasks, url="nowhere:"))


@alive
async def test_file_that_is_not_a_store_gives_an_internal_error_without_traceback(tmp_path):
    (tmp_path / "tasks.db").write_text("something else, and long enough to be looked at")
    served = Served(partial(enable_tasks, url=f"sqlite:{tmp_path / 'tasks.db'}"))
    async with served.client() as caller:
        error = await refusal(caller.get("any"))
        assert error.code == INTERNAL_ERROR
        assert "Traceback" not in error.message
