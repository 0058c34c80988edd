"""Recorded steps: what comes back in later runs, and the mistakes that a tool can make."""

import asyncio
import dataclasses
import functools
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from pydantic import BaseModel, ConfigDict, Field

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.recorded import MAX_RECORDS, StepError
from taskmachine.adapters.tools.registry import Threads, ToolError
from taskmachine.adapters.tools.retries import Retry
from taskmachine.adapters.tools.steps import retrying
from taskmachine.adapters.tools.sync_context import SyncContext
from taskmachine.adapters.tools.work import Parked
from taskmachine.protocol.caller import Caller
from taskmachine.statemachine import ConfigurationError
from tests.adapters.tools.test_tools import Notes

if TYPE_CHECKING:
    from decimal import Decimal as Unknown


class Book(Notes):
    """The work of a task whose records outlive its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[bytes] = []
        self.reads = 0
        self.time = 0

    async def recorded(self) -> Sequence[bytes]:
        self.reads += 1
        found = [*self.records]
        await asyncio.sleep(0)
        return found

    async def record(self, data: bytes) -> None:
        await asyncio.sleep(0)
        self.records.append(data)

    def now(self) -> int:
        return self.time

    async def sleep(self, until: int) -> None:
        if self.time < until:
            raise Parked(due_at=until)


def context_of(book: Book) -> Context:
    return Context(book, Caller("alice"), lambda: None, Threads(4).run)


def play(tool: Callable[[Context], Awaitable[Any]], runs: int = 2, book: Book | None = None) -> Any:
    """Run a tool several times as one task; return what each run returned."""
    book = book or Book()
    return [asyncio.run(_awaited(tool(context_of(book)))) for _ in range(runs)]


async def _awaited(tool: Awaitable[Any]) -> Any:
    return await tool


def refused(tool: Callable[[Context], Awaitable[Any]], book: Book | None = None) -> str:
    """The only line of the error of a tool."""
    with pytest.raises((StepError, ConfigurationError)) as error:
        play(tool, 1, book)
    said = str(error.value)
    assert "\n" not in said
    assert len(said) < 400
    return said


@attrs.frozen
class Point:
    x: int
    when: datetime | None = None


@dataclasses.dataclass
class Place:
    name: str
    days: set[datetime] = dataclasses.field(default_factory=set)


class Order(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    number: int = Field(alias="No")
    places: list[Place] = []


NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
VALUES: list[tuple[Any, Any]] = [
    (Point, Point(1, NOON)),
    (Place, Place("Oslo", {NOON})),
    (Order, Order(No=3, places=[Place("Oslo", {NOON})])),
    (list[Order], [Order(No=3), Order(No=4)]),
    (datetime, NOON),
    (bytes, b"\xff\x00"),
    (set[int], {1, 2}),
    (tuple[int, str], (1, "a")),
    (None, None),
    (Point | None, Point(2)),
    ("Point", Point(3)),
    (Awaitable[Point], Point(4)),
]


# --- what comes back -------------------------------------------------------------------------


@pytest.mark.parametrize("is_coroutine", [True, False])
@pytest.mark.parametrize(("hint", "value"), VALUES, ids=[str(hint) for hint, _ in VALUES])
def test_typed_results_are_the_same_in_all_runs(hint: Any, value: Any, is_coroutine: bool) -> None:
    calls: list[int] = []

    async def coroutine() -> Any:
        calls.append(1)
        return value

    def plain() -> Any:
        calls.append(1)
        return value

    function: Any = coroutine if is_coroutine else plain
    function.__annotations__["return"] = hint

    first, second = play(lambda ctx: ctx.step("a", function))
    assert first == second == value
    assert type(first) is type(second) is type(value)
    assert len(calls) == 1


@pytest.mark.parametrize("value", [None, 5, "é", [1, {"a": (2,)}], Point(1, NOON)], ids=str)
def test_a_function_without_annotation_returns_json_in_all_runs(value: Any) -> None:
    first, second = play(lambda ctx: ctx.step("a", lambda: value))
    assert first == second
    assert not isinstance(first, Point)


def test_a_class_is_a_function_that_returns_its_objects() -> None:
    first, second = play(lambda ctx: ctx.step("a", Point, 5))
    assert first == second == Point(5)


def test_a_method_a_partial_and_a_callable_object() -> None:
    class Shop:
        def price(self, item: str, tax: int = 0) -> Point:
            return Point(len(item) + tax)

        async def __call__(self, item: str) -> Point:
            return Point(-len(item))

    async def tool(ctx: Context) -> list[Point]:
        shop = Shop()
        return [
            await ctx.step("method", shop.price, "tea"),
            await ctx.step("partial", functools.partial(shop.price, tax=2), "tea"),
            await ctx.step("object", shop, "tea"),
        ]

    first, second = play(tool)
    assert first == second == [Point(3), Point(5), Point(-3)]


def test_a_step_has_the_same_id_in_each_run_and_in_a_thread() -> None:
    seen: list[str | None] = []

    async def tool(ctx: Context) -> None:
        def in_thread() -> None:
            seen.append(ctx.step_id)

        async def on_loop() -> None:
            seen.append(ctx.step_id)
            raise ToolError("not recorded")

        seen.append(ctx.step_id)
        await ctx.step("a", in_thread)
        async with ctx.step("b") as step:
            seen.append(ctx.step_id)
            step.result = 1
        with pytest.raises(ToolError):
            await ctx.step("c", on_loop)
        seen.append(ctx.step_id)

    play(tool)
    assert seen == [None, "t-1:a", "t-1:b", "t-1:c", None, None, "t-1:b", "t-1:c", None]


def test_a_block_is_done_once() -> None:
    seen: list[bool] = []

    async def tool(ctx: Context) -> Any:
        async with ctx.step("a") as step:
            seen.append(step.is_recorded)
            if not step.is_recorded:
                step.result = (Point(1), 2)
        return step.result

    first, second = play(tool)
    assert first == second == [{"x": 1, "when": None}, 2]
    assert seen == [False, True]


def test_a_block_that_raises_is_done_again() -> None:
    begun: list[int] = []

    async def tool(ctx: Context) -> Any:
        async with ctx.step("a") as step:
            begun.append(1)
            step.result = 1
            raise ToolError("no")

    book = Book()
    for _ in range(2):
        with pytest.raises(ToolError):
            play(tool, 1, book)
    assert begun == [1, 1]


def test_an_error_is_not_recorded() -> None:
    calls: list[int] = []

    async def fetch() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("unreachable")
        return 5

    async def tool(ctx: Context) -> int | None:
        try:
            return await ctx.step("a", fetch)
        except OSError:
            return None

    assert play(tool, 3) == [None, 5, 5]
    assert len(calls) == 2


# --- requests --------------------------------------------------------------------------------


def echo(*args: object, **kwargs: object) -> None: ...


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (((1,), {}), ((2,), {})),
        (((1,), {}), ((), {})),
        (((1,), {}), ((), {"a": 1})),
        ((([1, 2],), {}), (([2, 1],), {})),
        (((), {"a": Point(1)}), ((), {"a": Point(2)})),
        (((b"\xff",), {}), ((b"\xfe",), {})),
    ],
)
def test_other_arguments_under_a_used_key_are_refused(one: Any, other: Any) -> None:
    book = Book()
    play(lambda ctx: ctx.step("a", echo, *one[0], **one[1]), 2, book)
    said = refused(lambda ctx: ctx.step("a", echo, *other[0], **other[1]), book)
    assert said == "the step 'a' was recorded with other arguments"


def test_arguments_that_are_equal_are_one_request() -> None:
    book = Book()
    play(lambda ctx: ctx.step("a", echo, {"x": 1, "y": (2,)}, b=1, c=Point(1)), 1, book)
    play(lambda ctx: ctx.step("a", echo, {"y": [2], "x": 1}, c=Point(1), b=1), 1, book)
    assert len(book.records) == 1


SETS = """
import dataclasses, attrs, pydantic
from taskmachine.adapters.tools.steps import _digest
words = {"tea", "milk", "sugar", "lemon"}
@attrs.frozen
class A:
    words: set[str]
@dataclasses.dataclass
class D:
    words: set[str]
class M(pydantic.BaseModel):
    words: set[str]
print(_digest("a", [words, A(words), D(words), M(words=words), [A(M(words=words))]], {"b": words}))
"""


def test_sets_are_one_request_in_every_process() -> None:
    """Python orders them differently in each process."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", SETS],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(digests) == 1, digests


def test_a_sleep_and_a_step_cannot_share_a_key() -> None:
    book = Book()
    play(lambda ctx: ctx.step("a", echo), 1, book)
    assert refused(lambda ctx: ctx.sleep("a", 5), book) == "the key 'a' already names a step of " \
        "this task"  # fmt: skip


# --- mistakes --------------------------------------------------------------------------------


def unresolved() -> "Unknown":
    raise NotImplementedError


def threads() -> list[threading.Thread]:
    raise NotImplementedError


def functions() -> Callable[[int], int]:
    raise NotImplementedError


class OneWay(BaseModel):
    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    total: int = Field(serialization_alias="sum")


REFUSED: list[tuple[Any, str]] = [
    (lambda ctx: ctx.step("a", threads), "step 'a': the return type: list[threading.Thread] can"),
    (lambda ctx: ctx.step("a", functions), "step 'a': the return type: "),
    (lambda ctx: ctx.step("a", unresolved), "name 'Unknown' is not defined; define or import it"),
    (lambda ctx: ctx.step("a", object), "step 'a' cannot be recorded: result cannot be JSON"),
    (lambda ctx: ctx.step("a", lambda: float("nan")), "a number that is not finite: nan"),
    (lambda ctx: ctx.step("a", lambda: "\ud800"), "cannot be recorded: "),
    (lambda ctx: ctx.step("a", OneWay, total=1), "does not fit the return type when it is read"),
    (lambda ctx: ctx.step("a", echo, object()), "bind others, such as clients, with functools.par"),
    (lambda ctx: ctx.step("a", asyncio.sleep(0)), "ctx.step('a', fetch, url); got coroutine"),
    (lambda ctx: ctx.step("a", 5), "step 'a' needs a function and then its arguments"),
    (lambda ctx: ctx.step("", echo), "a key must be a text of 1 to 256 characters, got ''"),
    (lambda ctx: ctx.step("k" * 10_000, echo), "characters, got 'kkkkkkkkk"),
    (lambda ctx: ctx.step("\ud800", echo), r"characters, got '\ud800'"),
    (lambda ctx: ctx.step(echo, 1), "a key must be a text of 1 to 256 characters, got <function"),
    (lambda ctx: ctx.step("a", lambda: "x" * 300_000), "the limit is 262144: store it elsewhere"),
    (lambda ctx: ctx.sleep(5), "a key must be a text of 1 to 256 characters, got 5"),
    (lambda ctx: ctx.sleep("a", -1), "a sleep lasts from 0 s to 7 days, got -1 s"),
    (lambda ctx: ctx.sleep("a", days=365), "a sleep lasts from 0 s to 7 days, got 3.1536e+07 s"),
    (lambda ctx: ctx.sleep("a", float("nan")), "a sleep lasts from 0 s to 7 days, got nan s"),
]


@pytest.mark.parametrize(("tool", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_cannot_be_recorded_is_refused_in_one_line(tool: Any, words: str) -> None:
    book = Book()
    assert words in refused(tool, book)
    assert book.records == []


def test_a_return_type_that_cannot_be_json_is_refused_before_the_call() -> None:
    calls: list[int] = []

    def fetch() -> threading.Thread:
        calls.append(1)
        return threading.current_thread()

    assert "threading.Thread cannot be JSON" in refused(lambda ctx: ctx.step("a", fetch))
    assert calls == []


def test_a_key_is_used_once_at_a_time() -> None:
    async def tool(ctx: Context) -> None:
        await ctx.gather(ctx.step("a", asyncio.sleep, 0), ctx.step("a", asyncio.sleep, 0))

    assert refused(tool) == "the key 'a' is in use: each step needs a key of its own"


@pytest.mark.parametrize("at_once", [True, False])
def test_more_steps_than_a_task_can_record_are_refused_before_they_are_done(at_once: bool) -> None:
    book = Book()
    calls: list[int] = []

    async def work(number: int) -> None:
        calls.append(number)

    async def tool(ctx: Context) -> None:
        if at_once:
            await ctx.gather(*(ctx.step(f"step {n}", work, n) for n in range(10_000)))
        for n in range(10_000):
            await ctx.step(f"step {n}", work, n)

    most = 0 if at_once else MAX_RECORDS
    for _ in range(2):
        said = refused(tool, book)
        assert said.startswith("a task can record 1000 steps; 'step ")
        assert at_once or f"'step {most}' is one more" in said
        assert calls == [*range(most)], "a later run calls none again"


# --- at the same time ------------------------------------------------------------------------


def test_steps_run_at_the_same_time_and_read_the_records_once() -> None:
    book = Book()

    async def tool(ctx: Context) -> list[int]:
        meeting = asyncio.Barrier(3)

        async def meet(number: int) -> int:
            async with asyncio.timeout(5):
                await meeting.wait()
            return number

        found = await ctx.gather(*(ctx.step(f"{n}", meet, n) for n in range(3)))
        assert await ctx.step("0", meet, 0) == 0, "it is remembered in this run too"
        return found

    assert play(tool, 2, book) == [[0, 1, 2], [0, 1, 2]]
    assert (book.reads, len(book.records)) == (2, 3)


def test_the_first_error_stops_the_other_steps() -> None:
    stopped: list[str] = []

    async def tool(ctx: Context) -> None:
        async def fail() -> None:
            await asyncio.sleep(0)
            raise OSError("unreachable")

        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append("wait")

        await ctx.gather(ctx.step("a", wait), ctx.step("b", fail))

    with pytest.raises(OSError, match="unreachable"):
        play(tool, 1)
    assert stopped == ["wait"]


def test_a_step_that_parks_lets_the_others_record_first() -> None:
    """And several sleeps end with the shortest."""
    book = Book()
    calls: list[str] = []

    async def tool(ctx: Context) -> None:
        async def slow() -> None:
            await asyncio.sleep(0.05)
            calls.append("slow")

        await ctx.gather(ctx.sleep("b", 20), ctx.sleep("c", 10), ctx.step("a", slow))

    for time, due_at in ((0, 10_000), (10_000, 20_000)):
        book.time = time
        with pytest.raises(Parked) as parked:
            play(tool, 1, book)
        assert parked.value.due_at == due_at
    book.time = 20_000
    play(tool, 1, book)
    assert calls == ["slow"]


def test_an_error_of_a_step_wins_over_one_that_parks() -> None:
    async def tool(ctx: Context) -> None:
        async def fail() -> None:
            await asyncio.sleep(0.01)
            raise OSError("unreachable")

        await ctx.gather(ctx.sleep("a", 5), ctx.step("b", fail))

    with pytest.raises(OSError, match="unreachable"):
        play(tool, 1)


# --- retries of a step -----------------------------------------------------------------------


def flaky(errors: list[BaseException], calls: list[int]) -> Callable[..., Awaitable[int]]:
    async def fetch(number: int) -> int:
        calls.append(number)
        if errors:
            raise errors.pop(0)
        return number

    return fetch


def now(failures: int) -> float:
    return 0


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_step_is_retried_as_often_as_it_says(is_bound: bool) -> None:
    calls: list[int] = []
    fetch: Any = retrying(flaky([OSError(), Retry(after=0)], calls), retries=2, backoff=now)
    step = functools.partial(fetch, 5) if is_bound else fetch
    args = () if is_bound else (5,)
    assert play(lambda ctx: ctx.step("a", step, *args)) == [5, 5]
    assert calls == [5, 5, 5]


@pytest.mark.parametrize(
    ("error", "options", "attempts"),
    [
        (OSError(), {"retries": 1}, 2),
        (OSError(), {}, 1),
        (OSError(), {"retries": 3, "give_up_on": OSError}, 1),
        (OSError(), {"retries": 3, "retry_on": (KeyError, ValueError)}, 1),
        (ToolError("no"), {"retries": 3}, 1),
        (ToolError("no"), {"retries": 3, "retry_on": ToolError}, 4),
        (StepError("no"), {"retries": 3}, 1),
        (Gone("lost"), {"retries": 3, "retry_on": Gone}, 1),
    ],
)
def test_a_step_gives_up_when_it_should(
    error: Exception, options: dict[str, Any], attempts: int
) -> None:
    calls: list[int] = []
    options = {**options, "backoff": now} if options else options
    fetch = retrying(flaky([error] * 5, calls), **options)
    with pytest.raises(type(error)):
        play(lambda ctx: ctx.step("a", fetch, 5), 1)
    assert len(calls) == attempts


def test_a_step_has_a_time_out_of_its_own_in_each_attempt() -> None:
    calls: list[int] = []

    async def hang() -> None:
        calls.append(1)
        await asyncio.Event().wait()

    fetch = retrying(hang, retries=1, backoff=now, timeout=0.01)
    with pytest.raises(TimeoutError, match=r"^step 'a' took longer than 0\.01 s$"):
        play(lambda ctx: ctx.step("a", fetch), 1)
    assert len(calls) == 2


def test_a_time_out_inside_of_a_function_is_its_own() -> None:
    async def fetch() -> None:
        raise TimeoutError

    for function in (fetch, retrying(fetch, timeout=60)):
        with pytest.raises(TimeoutError, match=r"^$"):
            play(lambda ctx, function=function: ctx.step("a", function), 1)  # type: ignore[misc]


RETRYING: list[tuple[dict[str, Any], str]] = [
    ({"timeout": 0}, "retrying: timeout must be 1 ms to 7 days, got 0"),
    ({"timeout": float("nan")}, "retrying: timeout must be 1 ms to 7 days, got nan"),
    ({"timeout": "5"}, "retrying: timeout must be 1 ms to 7 days, got '5'"),
    ({"retries": -1}, "retrying: retries must be from 0 to 1000, got -1"),
    ({"retries": 1, "backoff": 0}, "retrying: backoff must be a function, such as exponential("),
    ({"function": 5}, "retrying: needs a function without retries, got 5"),
    ({"function": retrying(echo)}, "retrying: needs a function without retries, got "),
]


@pytest.mark.parametrize(("options", "words"), RETRYING, ids=[words for _, words in RETRYING])
def test_retries_of_a_step_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        retrying(**{"function": echo, **options})
    assert str(refused.value).startswith(words)


# --- in a thread -----------------------------------------------------------------------------


def test_a_tool_in_a_thread_records_steps_and_sleeps() -> None:
    book = Book()
    calls: list[str | None] = []

    async def tool(ctx: Context) -> Any:
        blocking = SyncContext(ctx, asyncio.get_running_loop())

        def fetch(x: int) -> Point:
            calls.append(blocking.step_id)
            return Point(x)

        async def fetch_on_loop(x: int) -> Point:
            calls.append(blocking.step_id)
            return Point(x)

        def work() -> list[Point]:
            found = [blocking.step("a", fetch, 1), blocking.step("b", fetch_on_loop, 2)]
            blocking.sleep("c", minutes=1)
            return found

        return await Threads(4).run(work, "tool")

    with pytest.raises(Parked) as parked:
        play(tool, 1, book)
    assert parked.value.due_at == 60_000
    book.time = 60_000
    assert play(tool, 1, book) == [[Point(1), Point(2)]]
    assert calls == ["t-1:a", "t-1:b"]
