"""Tests of creating, committing and following.  Part of the test kit, see `contract`."""

import asyncio
from collections.abc import Callable

import attrs
import pytest

from taskmachine.adapters.stores import (
    MAX_REPORTS,
    Caps,
    Conflict,
    Store,
)
from taskmachine.adapters.stores.testing.scenes import (
    NO_CAPS,
    created,
    deleted,
    ended,
    ids,
    moved,
    scenario,
    started,
    state_of,
    submit,
)
from taskmachine.statemachine import (
    Call,
    Event,
    LimitExceeded,
    Outcome,
    Progress,
    Question,
    Reply,
    Task,
    lifecycle,
)

__all__ = ["WritingContract"]


class WritingContract:
    """Each write is stored once, and followers are notified."""

    # --- create and load ---------------------------------------------------------------------

    @scenario
    async def test_the_store_loads_every_field_of_a_task_unchanged(self, store: Store) -> None:
        name = "Umfang \u00fcber \U0001f600"
        call = Call("tools/call", name, b'{"a":[1]}', 2**80, frozenset("ab"), "k", caller=b"\xff\0")
        step = lifecycle.submit(
            "t1", "alice", call, 1_000, ttl_ms=5, is_ttl_chosen=True, timeout_ms=7, metadata=b"{} "
        )
        await store.create(step.task, [step.entry], NO_CAPS)
        task = attrs.evolve(
            started(step.task).task,
            losses=2,
            message="line\nbreak\0",
            progress=Progress(0.1, 3, "so far"),
            questions=(
                Question("a", "elicitation/create", b"{}", Reply(b"\x00\xff", is_error=True)),
                Question("b", "sampling/createMessage", b"[]", withdrawn=True),
            ),
            partial=b"partial",
            outcome=Outcome.of_error(-(2**70), "message", b"data"),
        )
        await store.commit(task, [started(step.task).entry], 1)
        assert await store.load("t1") == task
        assert await store.load("t2") is None

    @scenario
    async def test_the_same_call_under_the_same_key_is_the_same_task(self, store: Store) -> None:
        call = Call("tools/call", "tool", key="k")
        first = await created(store, "t1", call=call)
        first = await moved(store, started(first))
        again = await created(store, "t2", call=attrs.evolve(call, arguments=b'{"other":1}'))
        assert again == first, "the task is returned as it is now"
        first = await moved(store, ended(first))
        assert await created(store, "t3", call=call) == first, "for as long as the task is kept"
        assert await ids(store.browse(None, 9)) == ["t1"]
        assert list(await store.history("t2")) == []
        await deleted(store, first)
        assert (await created(store, "t4", call=call)).id == "t4"

    @scenario
    async def test_owner_method_name_and_key_tell_calls_apart(self, store: Store) -> None:
        call = Call("tools/call", "tool", key="k")
        others = [
            attrs.evolve(call, method="sampling/createMessage"),
            attrs.evolve(call, name="other"),
            attrs.evolve(call, name=""),
            attrs.evolve(call, name=None),
            attrs.evolve(call, key="other"),
            attrs.evolve(call, key=""),
            attrs.evolve(call, key=None),
            attrs.evolve(call, key=None),
        ]
        await created(store, "t0", call=call)
        for number, other in enumerate(others, start=1):
            assert (await created(store, f"t{number}", call=other)).id == f"t{number}"
        assert (await created(store, "bob's", "bob", call=call)).id == "bob's"
        again = await created(store, "again", call=attrs.evolve(call, name=None))
        assert again.id == "t4", "a call without a name has a key as well"

    @scenario
    async def test_a_known_id_is_a_conflict(self, store: Store) -> None:
        await created(store)
        before = await state_of(store)
        for owner in ("alice", "bob"):
            with pytest.raises(Conflict):
                await created(store, "t1", owner)
        assert await state_of(store) == before

    @scenario
    async def test_each_cap_is_a_cap(self, store: Store) -> None:
        live = await created(store, "live")
        await moved(store, ended(await created(store, "ended")))
        other = await created(store, "bob's", "bob")
        for caps, owner_who_may in (
            (Caps(live_of_owner=1), "carol"),
            (Caps(live=2), None),
            (Caps(retained_of_owner=2), "bob"),
            (Caps(retained=3), None),
        ):
            before = await state_of(store)
            step = submit("more")
            with pytest.raises(LimitExceeded):
                await store.create(step.task, [step.entry], caps)
            assert await state_of(store) == before
            assert list(await store.history("more")) == []
            if owner_who_may is not None:
                step = submit("more", owner_who_may)
                assert await store.create(step.task, [step.entry], caps) == step.task
                await deleted(store, step.task)
        await deleted(store, live)
        await deleted(store, other)
        step = submit("room again")
        await store.create(step.task, [step.entry], Caps(1, 1, 2, 2))

    @scenario
    async def test_a_terminal_task_counts_as_retained_and_not_as_live(self, store: Store) -> None:
        await moved(store, ended(await created(store, "t1")))
        step = submit("t2")
        with pytest.raises(LimitExceeded):
            await store.create(step.task, [step.entry], Caps(1, 1, 1, 1))
        assert await store.create(step.task, [step.entry], Caps(1, 1, 2, 2)) == step.task

    @scenario
    async def test_a_known_call_needs_no_room(self, store: Store) -> None:
        first = await created(store, call=Call("tools/call", key="k"))
        step = submit("t2", call=Call("tools/call", key="k"))
        assert await store.create(step.task, [step.entry], Caps(1, 1, 1, 1)) == first

    @scenario
    async def test_concurrent_create_calls_are_atomic(self, store: Store) -> None:
        call = Call("tools/call", key="k")
        same = await asyncio.gather(*(created(store, f"t{n}", call=call) for n in range(9)))
        assert len({task.id for task in same}) == 1
        steps = [submit(f"u{number}") for number in range(9)]
        answers = await asyncio.gather(
            *(store.create(step.task, [step.entry], Caps(live=4)) for step in steps),
            return_exceptions=True,
        )
        assert sum(isinstance(answer, LimitExceeded) for answer in answers) == 6
        assert len(await store.browse(None, 100)) == 4

    @scenario
    async def test_a_task_may_be_claimed_by_the_write_that_creates_it(self, store: Store) -> None:
        step = submit("t1")
        claim = started(step.task)
        entries = [step.entry, claim.entry]
        heard: list[Task | None] = []
        store.follow("t1", heard.append)
        assert await store.create(claim.task, entries, Caps(live=1)) == claim.task
        assert await store.load("t1") == claim.task
        assert list(await store.history("t1")) == entries
        assert list(await store.queued(0, 9)) == []
        assert list(await store.held(str(claim.task.worker), 9)) == [claim.task]
        assert heard == [claim.task]
        more = submit("t2")
        with pytest.raises(LimitExceeded):
            await store.create(more.task, [more.entry], Caps(live=1))

    # --- commit ------------------------------------------------------------------------------

    @scenario
    async def test_a_commit_replaces_the_task_and_appends_to_its_history(
        self, store: Store
    ) -> None:
        task = await created(store)
        first, second = started(task), lifecycle.report(started(task).task, 2_001, message="on")
        await store.commit(second.task, [first.entry, second.entry], 1)
        assert await store.load("t1") == second.task
        last = await moved(store, ended(second.task))
        assert await store.load("t1") == last
        events = [(entry.seq, entry.event) for entry in await store.history("t1")]
        assert events == [(1, "submit"), (2, "start"), (3, "report"), (4, "complete")]

    @scenario
    async def test_a_commit_on_another_version_changes_nothing(self, store: Store) -> None:
        task = await moved(store, started(await created(store)))
        told: list[Task | None] = []
        leave = store.follow("t1", told.append)
        before = await state_of(store)
        for step in (ended(task), lifecycle.purge(ended(task).task, 4_000)):
            for expected in (0, 1, 3):
                with pytest.raises(Conflict):
                    await store.commit(step.task, [step.entry], expected)
        with pytest.raises(Conflict):
            await store.commit(submit("t2").task, [submit("t2").entry], 0)
        assert await state_of(store) == before
        assert await store.load("t2") is None
        assert list(await store.history("t2")) == []
        assert told == []
        leave()

    @scenario
    async def test_of_many_commits_on_one_version_one_wins(self, store: Store) -> None:
        task = await created(store)
        steps = [lifecycle.start(task, 2_000, worker=f"w{number}") for number in range(9)]
        answers = await asyncio.gather(
            *(store.commit(step.task, [step.entry], 1) for step in steps), return_exceptions=True
        )
        assert sum(isinstance(answer, Conflict) for answer in answers) == 8
        winner = steps[answers.index(None)]
        assert await store.load("t1") == winner.task
        assert list(await store.history("t1")) == [submit().entry, winner.entry]

    @scenario
    async def test_a_removed_task_is_deleted_with_all_that_belongs_to_it(
        self, store: Store
    ) -> None:
        task = await created(store)
        await store.enqueue("t1", b"message", 9)
        await created(store, "t2")
        await store.enqueue("t2", b"of another", 9)
        await deleted(store, task)
        assert await store.load("t1") is None
        assert list(await store.history("t1")) == []
        assert await ids(store.browse(None, 9)) == ["t2"]
        assert await ids(store.page("alice", None, 9)) == ["t2"]
        assert list(await store.forgettable(10**12, 9)) == []
        again = await created(store)
        assert list(await store.history("t1")) == [submit().entry]
        assert list(await store.dequeue("t1", 9)) == []
        assert list(await store.dequeue("t2", 9)) == [b"of another"]
        assert await store.load("t1") == again

    @scenario
    async def test_a_history_leaves_out_late_reports_of_tools_only(self, store: Store) -> None:
        first, second = submit(), started(submit().task)
        task = attrs.evolve(second.task, version=MAX_REPORTS - 1)
        await store.adopt(task, [first.entry, second.entry])
        for _ in range(3):
            task = await moved(store, lifecycle.report(task, 2_000, message="on"))
        asked = lifecycle.ask(task, 2_000, [Question("name", "elicitation/create", b"{}")])
        assert asked is not None
        task = await moved(store, asked)
        task = await moved(store, lifecycle.requeue(task, 2_000, note="parked"))
        await moved(store, ended(task))
        kept = [(entry.seq, entry.event) for entry in await store.history("t1")]
        assert kept[2:] == [
            (MAX_REPORTS, Event.REPORT),
            (MAX_REPORTS + 3, Event.ASK),
            (MAX_REPORTS + 4, Event.REPORT),
            (MAX_REPORTS + 5, Event.COMPLETE),
        ]

    @scenario
    async def test_a_history_has_every_recorded_step(self, store: Store) -> None:
        first, second = submit(), started(submit().task)
        task = attrs.evolve(second.task, version=MAX_REPORTS)
        await store.adopt(task, [first.entry, second.entry])
        for data in (b"", b"\xff{}"):
            task = await moved(store, lifecycle.record(task, 2_000, data))
        task = await moved(store, lifecycle.requeue(task, 2_000, note="parked"))
        assert task.recorded == 2
        recorded = [(entry.seq - MAX_REPORTS, entry.data) for entry in await store.history("t1")]
        assert recorded[2:] == [(1, b""), (2, b"\xff{}"), (3, None)]
        assert [entries async for _, entries in store.export()] == [await store.history("t1")]
        await deleted(store, task)
        await created(store)
        assert list(await store.history("t1")) == [submit().entry]

    # --- follow ------------------------------------------------------------------------------

    @scenario
    async def test_followers_receive_each_version_before_the_commit_returns(
        self, store: Store
    ) -> None:
        told: list[Task | None] = []
        leave = store.follow("t1", told.append)
        task = await created(store)
        assert told == [task]
        await created(store, "t2")
        for step in (started(task), ended(started(task).task)):
            task = await moved(store, step)
            assert told[-1] == task
        await moved(store, lifecycle.purge(task, 9_000))
        assert [seen and seen.state for seen in told] == ["submitted", "working", "completed", None]
        adopted = await created(store)
        assert told[4:] == [adopted], "a task of the same id is news"
        leave()

    @scenario
    async def test_followers_receive_concurrent_commits_in_version_order(
        self, store: Store
    ) -> None:
        task = await created(store)
        told: list[Task | None] = []
        leave = store.follow("t1", told.append)
        steps = [started(task)]
        while len(steps) < 9:
            steps.append(lifecycle.report(steps[-1].task, 2_000, message=str(len(steps))))
        await asyncio.gather(*(moved(store, step) for step in steps))
        assert told == [step.task for step in steps]
        leave()

    @scenario
    async def test_a_follower_that_left_receives_no_commits(self, store: Store) -> None:
        task = await created(store)
        stays: list[Task | None] = []
        leaves: list[Task | None] = []
        leave_both = store.follow("t1", stays.append), store.follow("t1", leaves.append)
        leave_both[1]()
        leave_both[1]()
        task = await moved(store, started(task))
        assert (stays, leaves) == ([task], [])
        leave_both[0]()
        await moved(store, ended(task))
        assert stays == [task]

    @scenario
    async def test_a_follower_may_add_and_remove_followers_during_a_notification(
        self, store: Store
    ) -> None:
        task = await created(store)
        told: list[str] = []
        leave: list[Callable[[], None]] = []

        def first(_: Task | None) -> None:
            told.append("first")
            for each in leave:
                each()
            leave.append(store.follow("t1", lambda _: told.append("third")))

        leave.append(store.follow("t1", first))
        leave.append(store.follow("t1", lambda _: told.append("second")))
        task = await moved(store, started(task))
        assert told == ["first"], "the second one had left by then, the third came later"
        await moved(store, ended(task))
        assert told == ["first", "third"]
        leave[-1]()

    @scenario
    async def test_a_follower_that_raises_does_not_affect_the_others(self, store: Store) -> None:
        def broken(_: Task | None) -> None:
            raise RuntimeError

        told: list[Task | None] = []
        task = await created(store)
        leave_both = store.follow("t1", broken), store.follow("t1", told.append)
        task = await moved(store, started(task))
        assert await store.load("t1") == task
        assert told == [task]
        for leave in leave_both:
            leave()
