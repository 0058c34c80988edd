"""What becomes of a call: every way in which a tool can end has one outcome."""

import asyncio
import json
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

from taskmachine.adapters.tools.content import ToolResult
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.questions import Request, form, url
from taskmachine.adapters.tools.registry import CallError, Threads, ToolError, Tools
from taskmachine.adapters.tools.sampling import sampling
from taskmachine.adapters.tools.sync_context import SyncContext
from taskmachine.adapters.tools.work import Parked
from taskmachine.protocol.caller import Caller
from taskmachine.statemachine import (
    Cause,
    LimitExceeded,
    Outcome,
    Progress,
    Question,
    Reply,
)
from tests.requirements import covers


class Notes:
    """The work behind a context, written down."""

    task_id = "t-1"
    failures = 0
    last_error: str | None = None
    observe_step = None

    def __init__(self, answers: Mapping[str, Reply] | None = None) -> None:
        self.reports: list[tuple[Progress | None, str | None]] = []
        self.asked: list[Question] = []
        self.answers = answers or {}

    async def report(self, *, progress: Progress | None, message: str | None) -> None:
        self.reports.append((progress, message))

    async def ask(
        self, questions: Sequence[Question], *, park: bool, partial: bytes | None
    ) -> Mapping[str, Reply]:
        self.asked += questions
        if park:
            raise Parked(questions)
        return self.answers

    async def recorded(self) -> Sequence[bytes]:
        return []

    async def record(self, data: bytes) -> None:
        raise NotImplementedError

    def now(self) -> int:
        return 0

    async def sleep(self, until: int) -> None:
        raise Parked(due_at=until)


def outcome_of(
    function: Any, arguments: bytes = b"{}", notes: Notes | None = None, **options: Any
) -> Outcome:
    tools = Tools()
    tools.task("it", **options)(function)
    context = Context(notes or Notes(), Caller("alice"), lambda: None, Threads(4).run)
    return asyncio.run(tools["it"].run(arguments, context, Threads(4), lambda error: None))


def result_of(function: Any, arguments: bytes = b"{}", notes: Notes | None = None) -> Any:
    outcome = outcome_of(function, arguments, notes)
    assert outcome.cause is Cause.RESULT, outcome
    assert outcome.result is not None
    return json.loads(outcome.result)


@attrs.frozen
class Point:
    x: int
    y: int = 0


# --- results ---------------------------------------------------------------------------------


def test_text_is_shown_as_text() -> None:
    async def greet(name: str) -> str:
        return f"Hello, {name}!"

    assert result_of(greet, b'{"name":"Ada"}') == {
        "content": [{"type": "text", "text": "Hello, Ada!"}],
        "structuredContent": {"result": "Hello, Ada!"},
    }


def test_an_object_is_shown_as_structure_and_as_text() -> None:
    def mirror(point: Point) -> Point:
        return Point(point.y, point.x)

    assert result_of(mirror, b'{"point":{"x":1,"y":2}}') == {
        "content": [{"type": "text", "text": '{"x":2,"y":1}'}],
        "structuredContent": {"x": 2, "y": 1},
    }


@pytest.mark.parametrize(
    ("value", "content"),
    [(None, []), ([1, "a"], ['[1,"a"]']), (2.5, ["2.5"])],
)
def test_values_without_annotation_are_shown_as_text(value: Any, content: list[str]) -> None:
    async def tool() -> Any:
        return value

    assert result_of(tool) == {"content": [{"type": "text", "text": text} for text in content]}


def test_tool_can_return_a_complete_tool_result() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}

    async def draw() -> ToolResult:
        return ToolResult([image], {"a": 1}, meta={"k": "v"})

    assert result_of(draw) == {
        "content": [image],
        "structuredContent": {"a": 1},
        "_meta": {"k": "v"},
    }
    tools = Tools()
    tools.task("draw")(draw)
    assert "outputSchema" not in tools["draw"].offered.definition


def test_a_tool_can_fail_in_words_for_the_model() -> None:
    async def book(city: str) -> str:
        raise ToolError(f"no flights to {city}")

    outcome = outcome_of(book, b'{"city":"Atlantis"}')
    assert outcome.is_error
    assert json.loads(outcome.result or b"") == {
        "content": [{"type": "text", "text": "no flights to Atlantis"}],
        "isError": True,
    }


def test_a_tool_can_answer_with_an_error_of_its_own() -> None:
    async def limited() -> None:
        raise CallError(-31000, "slow down", {"seconds": 5})

    assert outcome_of(limited) == Outcome.of_error(-31000, "slow down", b'{"seconds":5}')

    async def odd() -> None:
        raise CallError(-31000, "slow down", object())

    assert outcome_of(odd) == Outcome.of_error(-31000, "slow down")


# --- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [b'{"n":"x"}', b"{}", b'{"n":1,"m":2}', b'{"n":[]}'])
def test_arguments_that_break_the_schema_never_reach_the_tool(arguments: bytes) -> None:
    touched = []

    async def tool(n: int) -> None:
        touched.append(n)

    outcome = outcome_of(tool, arguments)
    assert outcome.is_error
    assert b"Invalid arguments for tool 'it': arguments." in (outcome.result or b"")
    assert touched == []


@pytest.mark.parametrize(
    "raised",
    [
        ValueError("secret detail"),
        RecursionError(),
        MemoryError(),
        SystemExit("secret detail"),
        StopIteration("secret detail"),
        ExceptionGroup("secret detail", [ValueError()]),
    ],
)
@pytest.mark.parametrize("in_thread", [True, False])
def test_an_exception_is_an_internal_error_without_its_details(
    raised: BaseException, in_thread: bool
) -> None:
    async def tool() -> None:
        raise raised

    def plain() -> None:
        raise raised

    outcome = outcome_of(plain if in_thread else tool)
    assert (outcome.cause, outcome.code) == (Cause.ERROR, -32603)
    assert outcome.message == "Tool 'it' failed"


@pytest.mark.parametrize(
    "value",
    [object(), float("nan"), {"a": {"b": float("inf")}}, "\ud800", [object()]],
)
def test_a_result_that_is_not_json_is_an_error_that_says_so(value: Any) -> None:
    async def tool() -> Any:
        return value

    outcome = outcome_of(tool)
    assert (outcome.cause, outcome.code) == (Cause.ERROR, -32603)
    assert "returned an invalid result" in str(outcome.message)


def test_result_that_violates_the_output_schema_is_an_internal_error() -> None:
    async def tool() -> Point:
        return {"x": "one"}  # type: ignore[return-value]

    outcome = outcome_of(tool)
    assert outcome.code == -32603
    assert "result.x must be a valid integer" in str(outcome.message)


def test_a_result_that_fits_into_no_message_is_an_error() -> None:
    async def tool() -> str:
        return "x" * 3_000_000

    assert "the limit is 3145728" in str(outcome_of(tool).message)


def test_a_value_that_refers_to_itself_is_an_error() -> None:
    async def tool() -> Any:
        value: list[Any] = []
        value.append(value)
        return value

    assert outcome_of(tool).code == -32603


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_progress_that_is_not_finite_raises_value_error_in_the_tool(value: float) -> None:
    notes = Notes()

    async def tool(ctx: Context) -> None:
        with pytest.raises(ValueError, match="finite"):
            await ctx.progress(value)

    assert result_of(tool, notes=notes) == {"content": []}
    assert notes.reports == []


def test_gone_and_parked_pass_through_the_tool_call() -> None:
    async def gone() -> None:
        raise Gone("it is over")

    with pytest.raises(Gone):
        outcome_of(gone)

    async def parks(ctx: Context) -> None:
        try:
            await ctx.ask("k", form("?", {}), park=True)
        except Exception:  # noqa: BLE001, as careless tools do
            return

    with pytest.raises(Parked):
        outcome_of(parks)


# --- the context -----------------------------------------------------------------------------


def test_a_context_reports_and_asks() -> None:
    accepted = Reply(b'{"action":"accept","content":{"n":1}}')
    said = Reply(b'{"model":"m","content":{"type":"text","text":"Hi"}}')
    notes = Notes({"f": accepted, "u": Reply(b'{"action":"accept"}'), "s": said})
    requests: dict[str, Request[Any]] = {
        "f": form("Number?", {"type": "object"}),
        "u": url("Pay", "https://example.org", "e-1"),
        "s": sampling([], 5, systemPrompt="be brief"),
    }

    async def tool(ctx: Context) -> None:
        assert ctx.task_id == "t-1"
        await ctx.progress(1, 2, "half")
        await ctx.status("thinking")
        answers = await ctx.ask_all(requests)
        assert (answers["f"].action, answers["f"].content) == ("accept", {"n": 1})
        assert (answers["u"].action, answers["u"].content) == ("accept", {})
        assert (answers["s"].text, answers["s"].model) == ("Hi", "m")

    def plain(ctx: SyncContext) -> None:
        assert ctx.task_id == "t-1"
        assert not ctx.is_cancelled
        ctx.progress(1, 2, "half")
        ctx.status("thinking")
        assert ctx.ask_all(requests)["s"].text == "Hi"
        assert ctx.ask("f", requests["f"]).content == {"n": 1}
        ctx.on_cancel(lambda: None)

    for function in (tool, plain):
        notes.reports.clear()
        assert result_of(function, notes=notes) == {"content": []}
        assert notes.reports == [(Progress(1, 2, "half"), "half"), (None, "thinking")]
    assert [json.loads(question.params) for question in notes.asked[:3]] == [
        {"mode": "form", "message": "Number?", "requestedSchema": {"type": "object"}},
        {"mode": "url", "message": "Pay", "url": "https://example.org", "elicitationId": "e-1"},
        {"messages": [], "maxTokens": 5, "systemPrompt": "be brief"},
    ]


def test_a_function_that_parks_does_so_from_its_thread() -> None:
    def plain(ctx: SyncContext) -> None:
        ctx.ask("k", form("?", {}), park=True)

    with pytest.raises(Parked):
        outcome_of(plain)


# --- threads ---------------------------------------------------------------------------------


def test_a_thread_that_never_returns_counts_and_does_not_hold_up_the_process() -> None:
    free = threading.Event()

    async def main() -> None:
        threads = Threads(2)
        stuck = [asyncio.create_task(threads.run(free.wait, "stuck")) for _ in range(2)]
        await asyncio.sleep(0)
        for running in stuck:
            running.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        with pytest.raises(LimitExceeded, match="2 threads"):
            await threads.run(lambda: 1, "late")
        free.set()
        while threads.alive:
            await asyncio.sleep(0)
        assert await threads.run(lambda: 1, "late") == 1

    asyncio.run(main())


def test_a_function_runs_in_a_daemon_thread_of_its_own() -> None:
    def plain() -> list[Any]:
        thread = threading.current_thread()
        return [thread.daemon, thread is threading.main_thread()]

    assert result_of(plain)["content"][0]["text"] == "[true,false]"


def test_a_thread_that_ends_after_the_loop_was_closed_is_forgotten() -> None:
    free, ended = threading.Event(), threading.Event()

    def slow() -> None:
        free.wait()
        sys.setprofile(None)
        ended.set()

    async def main() -> None:
        running = asyncio.create_task(Threads(1).run(slow, "slow"))
        await asyncio.sleep(0)
        running.cancel()

    asyncio.run(main())
    free.set()
    assert ended.wait(5)
    for thread in threading.enumerate():
        if thread.name == "tool slow":
            thread.join(5)


# --- the registry ----------------------------------------------------------------------------


def test_registered_tool_is_offered_with_name_schemas_and_settings() -> None:
    tools = Tools()

    @tools.task(support="required", immediate="Moving.", poll_interval=2.5, priority="high")
    async def move(to: Point, ctx: Context, fast: bool = False) -> Point:
        """Moves a point."""
        return to

    tool = tools["move"]
    assert (tool.timeout_ms, tool.poll_interval_ms, tool.is_repeatable) == (300_000, 2_500, True)
    offered = tool.offered
    assert (offered.task_support, offered.immediate) == ("required", "Moving.")
    assert offered.definition["name"] == "move"
    assert offered.definition["description"] == "Moves a point."
    assert offered.definition["inputSchema"]["properties"].keys() == {"to", "fast"}
    assert offered.definition["outputSchema"]["type"] == "object"
    assert [*tools] == ["move"]
    assert len(tools) == 1


@covers("2025-11-25:elicitation-url-valid")
@pytest.mark.parametrize("address", ["not a url", "/pay", "", "https://a b", "https://a\n"])
def test_a_link_needs_a_whole_address(address: str) -> None:
    with pytest.raises(ValueError, match="absolute URL"):
        url("Pay", address, "e-1")
