"""Operations of callers on tasks, and their refusals."""

import asyncio

import pytest

from taskmachine.adapters.runtime import service
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.stores import Caps, Conflict
from taskmachine.adapters.tools.errors import Gone
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.operations import Advance, Amend, Answer
from taskmachine.statemachine import (
    Event,
    IllegalTransition,
    LimitExceeded,
    NotFound,
    Progress,
    Reply,
    State,
    lifecycle,
)
from tests.adapters.memory_service import DONE, FORM, HOUR, MemoryService, call, run

# --- create ----------------------------------------------------------------------------------


def test_created_task_can_be_read_and_listed_at_once() -> None:
    """Every created task can be retrieved, the same ids in order."""

    async def main() -> None:
        memory = MemoryService()
        made = []
        for _ in range(20):
            memory.clock.now += 1
            made.append(await memory.create())
        assert [await memory.service.get("alice", task.id) for task in made] == made
        page = await memory.service.page("alice")
        assert [task.id for task in page.tasks] == [task.id for task in reversed(made)]

    run(main())


@pytest.mark.parametrize("ttl", [0, -1, -(10**30), 1.5, "60000", True, [], float("nan")])
def test_a_ttl_that_cannot_be_is_refused_and_makes_no_task(ttl: object) -> None:
    async def main() -> None:
        memory = MemoryService()
        with pytest.raises(InvalidParams, match="positive number of milliseconds"):
            await memory.service.create("alice", call(), ttl_ms=ttl)  # type: ignore[arg-type]
        assert (await memory.service.page("alice")).tasks == []

    run(main())


def test_a_requested_ttl_is_honoured_and_a_huge_one_is_cut() -> None:
    async def main() -> None:
        memory = MemoryService()
        assert (await memory.create(ttl_ms=90_000)).ttl_ms == 90_000
        assert (await memory.create(ttl_ms=10**30)).ttl_ms == 7 * 24 * HOUR
        assert (await memory.create()).ttl_ms == HOUR

    run(main())


def test_the_same_call_under_the_same_key_is_the_same_task() -> None:
    """A lost answer to a create makes no duplicate."""

    async def main() -> None:
        memory = MemoryService()
        create = memory.service.create
        first = await create("alice", call(arguments=b'{"a":1,"b":2}', key="k"))
        again = await create("alice", call(arguments=b'{"b":2,"a":1}', key="k"))
        assert again == first
        await (await memory.claim(first.id)).settle(DONE)
        later = await create("alice", call(arguments=b'{"a":1,"b":2}', key="k"))
        assert (later.id, later.state) == (first.id, State.COMPLETED), "the task as it is now"
        with pytest.raises(InvalidParams, match="other arguments"):
            await create("alice", call(arguments=b'{"a":2}', key="k"))
        others = [
            await create("bob", call(arguments=b'{"a":2}', key="k")),
            await create("alice", call("other", b'{"a":2}', key="k")),
            await create("alice", call(arguments=b'{"a":2}', key="K")),
        ]
        assert len({first.id, *(task.id for task in others)}) == 4

    run(main())


@pytest.mark.parametrize("key", ["", "x" * 257])
def test_a_key_that_cannot_be_is_refused(key: str) -> None:
    with pytest.raises(InvalidParams, match="1 to 256 characters"):
        run(MemoryService().service.create("alice", call(key=key)))


@pytest.mark.parametrize(
    ("caps", "words"),
    [
        (Caps(live_of_owner=3), "3 unfinished tasks of this caller"),
        (Caps(live=3), "3 unfinished tasks"),
        (Caps(retained_of_owner=3), "3 stored tasks of this caller"),
        (Caps(retained=3), "3 stored tasks"),
    ],
)
def test_beyond_a_cap_nothing_is_created(caps: Caps, words: str) -> None:
    async def main() -> None:
        memory = MemoryService(Limits(caps=caps))
        tasks = [await memory.create() for _ in range(3)]
        with pytest.raises(LimitExceeded) as refused:
            await memory.create()
        assert refused.value.limit == words
        assert refused.value.retry_after_ms > 0
        await memory.service.cancel("alice", tasks[0].id)
        if "unfinished" in words:
            await memory.create()  # a finished task frees its place
        else:
            with pytest.raises(LimitExceeded):
                await memory.create()

    run(main())


def test_the_default_cap_is_a_thousand_live_tasks() -> None:
    async def main() -> None:
        memory = MemoryService()
        for n in range(1_000):
            await memory.create(f"owner-{n}")
        with pytest.raises(LimitExceeded, match="1000 unfinished tasks"):
            await memory.create()

    run(main())


# --- read ------------------------------------------------------------------------------------


def test_reading_changes_nothing() -> None:
    """Neither the version nor the time of the last change."""

    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        memory.clock.now += 10 * HOUR
        await memory.service.wait("alice", task.id, after=0)
        await memory.service.page("alice")
        await memory.service.history("alice", task.id)
        assert await memory.service.get("alice", task.id) == task

    run(main())


@pytest.mark.parametrize("task_id", ["", "no-such-task", "x" * 1_000_000, "\0", "task-1 "])
def test_an_id_of_nothing_is_not_found(task_id: str) -> None:
    async def main() -> None:
        memory = MemoryService()
        await memory.create()
        for act in (
            memory.service.get("alice", task_id),
            memory.service.wait("alice", task_id, after=0),
            memory.service.collect("alice", task_id),
            memory.service.cancel("alice", task_id),
            memory.service.history("alice", task_id),
        ):
            with pytest.raises(NotFound):
                await act

    run(main())


def test_pages_are_complete_disjoint_and_end() -> None:
    async def main() -> None:
        memory = MemoryService()
        for n in range(50):
            memory.clock.now += n % 3  # some of the same millisecond
            await memory.create()
        seen: list[str] = []
        sizes = []
        cursor = None
        while True:
            page = await memory.service.page("alice", cursor, 20)
            sizes.append(len(page.tasks))
            seen += [task.id for task in page.tasks]
            cursor = page.cursor
            if cursor is None:
                break
        assert sizes == [20, 20, 10]
        assert len(set(seen)) == 50

    run(main())


def test_a_page_that_is_exactly_full_has_no_cursor() -> None:
    async def main() -> None:
        memory = MemoryService()
        for _ in range(3):
            await memory.create()
        assert (await memory.service.page("alice", None, 3)).cursor is None
        assert len((await memory.service.page("alice", None, 10**9)).tasks) == 3
        with pytest.raises(InvalidParams):
            await memory.service.page("alice", None, 0)

    run(main())


def test_foreign_or_invalid_cursor_is_refused() -> None:
    async def main() -> None:
        memory = MemoryService()
        for _ in range(3):
            await memory.create()
            await memory.create("bob")
        cursor = (await memory.service.page("alice", None, 1)).cursor
        assert cursor is not None
        damaged = cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB")
        for bad in ("", "x", damaged, cursor + "A", "x" * 1_000_000):
            with pytest.raises(InvalidParams):
                await memory.service.page("alice", bad)
        with pytest.raises(InvalidParams):
            await memory.service.page("bob", cursor)

    run(main())


# --- wait ------------------------------------------------------------------------------------


def test_wait_for_a_past_change_returns_at_once() -> None:
    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        assert await memory.service.wait("alice", task.id, after=0) == task
        await memory.service.cancel("alice", task.id)
        assert (await memory.service.collect("alice", task.id)).state is State.CANCELLED

    run(main())


def test_wait_with_zero_timeout_returns_the_current_task() -> None:
    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        assert await memory.service.wait("alice", task.id, after=1, timeout_s=0) == task

    run(main())


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "purge"])
def test_every_kind_of_end_wakes_all_waiters(end: str) -> None:
    """Every cause of an end wakes everybody."""

    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        waiters = [asyncio.create_task(memory.service.collect("alice", task.id)) for _ in range(10)]
        while memory.service.waiting("alice") < 10:
            await asyncio.sleep(0)
        held = await memory.claim(task.id)
        if end == "complete":
            await held.settle(DONE)
        elif end == "fail":
            await held.settle(DONE.of_error(1, "no"))
        else:
            await memory.service.cancel("alice", task.id)
        ended = {(await waiter).state.value for waiter in waiters}
        assert ended == {{"fail": "failed", "complete": "completed"}.get(end, "cancelled")}
        assert memory.service.waiting("alice") == 0

    run(main())


def test_the_calls_that_one_caller_can_block_are_bounded() -> None:
    async def main() -> None:
        memory = MemoryService(Limits(blocked_calls=2))
        task = await memory.create()
        other = await memory.create("bob")
        waiters = [asyncio.create_task(memory.service.collect("alice", task.id)) for _ in range(2)]
        while memory.service.waiting("alice") < 2:
            await asyncio.sleep(0)
        with pytest.raises(LimitExceeded):
            await memory.service.collect("alice", task.id)
        assert await memory.service.wait("bob", other.id, after=0)
        waiters[0].cancel()
        await asyncio.gather(waiters[0], return_exceptions=True)
        await memory.service.cancel("alice", task.id)
        assert (await memory.service.collect("alice", task.id)).is_terminal
        await waiters[1]

    run(main())


# --- change ----------------------------------------------------------------------------------


def test_cancelling_an_ended_task_returns_it_unchanged() -> None:
    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        first = await memory.service.cancel("alice", task.id, "changed my mind")
        assert first.outcome is not None
        assert first.outcome.message == "changed my mind"
        assert await memory.service.cancel("alice", task.id) == first
        done = await memory.ended()
        assert await memory.service.cancel("alice", done.id) == done

    run(main())


def test_answers_with_unknown_or_repeated_keys_change_nothing() -> None:
    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        held = await memory.claim(task.id)
        await held.ask([FORM])
        before = await memory.service.get("alice", task.id)
        unknown = Answer(task.id, {"nobody-asked": Reply(b"{}")})
        assert await memory.service.perform("alice", unknown) == (before, ())
        first = Answer(task.id, {"name": Reply(b'{"action":"accept"}')})
        after, steps = await memory.service.perform("alice", first)
        assert [step.entry.event for step in steps] == [Event.RESUME]
        second = Answer(task.id, {"name": Reply(b'{"action":"decline"}')})
        assert await memory.service.perform("alice", second) == (after, ())
        assert after.questions[0].answer == Reply(b'{"action":"accept"}')

    run(main())


def test_illegal_transition_raises_and_leaves_the_task_unchanged() -> None:
    async def main() -> None:
        memory = MemoryService()
        done = await memory.ended()
        with pytest.raises(IllegalTransition):
            await memory.service.perform("alice", Advance(done.id, Progress(1)))
        assert await memory.service.get("alice", done.id) == done

    run(main())


def test_every_step_is_a_line_of_the_history() -> None:
    async def main() -> None:
        memory = MemoryService()
        done = await memory.ended()
        events = [entry.event for entry in await memory.service.history("alice", done.id)]
        assert events == [Event.SUBMIT, Event.START, Event.COMPLETE]
        with pytest.raises(NotFound):
            await memory.service.history("bob", done.id)

    run(main())


# --- two processes ---------------------------------------------------------------------------


def two() -> tuple[MemoryService, MemoryService]:
    """Two services on one store: the version that one cached may be outdated."""
    one = MemoryService()
    return one, MemoryService(store=one.store)


def test_service_does_not_trust_its_cached_version() -> None:
    async def main() -> None:
        one, other = two()
        task = await one.create()
        held = await one.claim(task.id)
        cancelled = await other.service.cancel("alice", task.id)
        assert await one.service.get("alice", task.id) == cancelled
        assert await one.service.cancel("alice", task.id) == cancelled
        with pytest.raises(Gone):
            await held.settle(DONE)
        assert await one.service.get("alice", task.id) == cancelled

    run(main())


def test_service_retries_an_illegal_transition_on_the_newest_version() -> None:
    async def main() -> None:
        one, other = two()
        task = await one.create()
        await one.service.perform("alice", Amend(task.id, b'{"a":1}'))
        await other.claim(task.id)
        asked, _ = await one.service.perform("alice", Amend(task.id, asks=True))
        assert asked.state is State.INPUT_REQUIRED

    run(main())


def test_action_without_effect_returns_the_newest_version() -> None:
    async def main() -> None:
        one, other = two()
        task = await one.create()
        await one.claim(task.id)
        moved, _ = await other.service.perform("alice", Amend(task.id, b'{"a":1}'))
        nothing = Answer(task.id, {"nobody-asked": Reply(b"{}")})
        assert await one.service.perform("alice", nothing) == (moved, ())

    run(main())


def test_only_so_many_guesses_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_MOST_REMEMBERED", 2)

    async def main() -> None:
        memory = MemoryService()
        for _ in range(5):
            await memory.claim((await memory.create()).id)
        assert len(memory.service._last) == 2
        done = await memory.ended()
        await memory.service.move(done.id, lambda task, now: (lifecycle.purge(task, now),))
        assert done.id not in memory.service._last, "a finished task does not move again"

    run(main())


def test_a_task_that_never_stands_still_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_TRIES", 3)

    async def main() -> None:
        one, other = two()
        task = await one.create()

        async def overtaken(*_: object) -> None:
            raise Conflict("another writer was faster")

        monkeypatch.setattr(one.store, "commit", overtaken)
        with pytest.raises(LimitExceeded, match="3 attempts to update one task"):
            await one.service.cancel("alice", task.id)
        assert await other.service.get("alice", task.id) == task

    run(main())
