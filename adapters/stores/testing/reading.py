"""Tests of pages, queues, workers and messages.  Part of the test kit, see `contract`."""

import attrs

from taskmachine.adapters.stores import (
    Store,
    Totals,
    Worker,
)
from taskmachine.adapters.stores.testing.scenes import (
    created,
    deleted,
    ended,
    ids,
    moved,
    scenario,
    started,
    submit,
    waiting,
)
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import lifecycle

__all__ = ["ReadingContract"]


class ReadingContract:
    """Queries return the requested tasks only, in their order."""

    # --- pages -------------------------------------------------------------------------------

    @scenario
    async def test_pages_are_newest_first_and_complete(self, store: Store) -> None:
        made = [("b", 5), ("a", 5), ("d", 2), ("C", 9), ("\u00e9", 5), ("e", 7)]
        for task_id, at in made:
            await created(store, task_id, at=at)
            await created(store, f"{task_id} of bob", "bob", at=at)
        newest = sorted(made, key=lambda pair: (pair[1], pair[0]), reverse=True)
        for limit in (1, 2, 6, 100):
            after: Position | None = None
            found: list[tuple[str, int]] = []
            while page := await store.page("alice", after, limit):
                assert len(page) == min(limit, len(made) - len(found))
                found += [(task.id, task.created_at) for task in page]
                after = Position(page[-1].created_at, page[-1].id)
            assert found == newest
        assert list(await store.page("stranger", None, 9)) == []

    @scenario
    async def test_a_page_continues_after_the_position_of_a_deleted_task(
        self, store: Store
    ) -> None:
        tasks = [await created(store, task_id, at=5) for task_id in "abc"]
        await deleted(store, tasks[1])
        assert await ids(store.page("alice", Position(5, "b"), 9)) == ["a"]
        assert await ids(store.page("alice", Position(5, "bb"), 9)) == ["a"]
        assert await ids(store.page("alice", Position(6, ""), 9)) == ["c", "a"]
        assert list(await store.page("alice", Position(4, "z"), 9)) == []

    @scenario
    async def test_browse_shows_the_tasks_of_all_owners(self, store: Store) -> None:
        for number, owner in enumerate(("alice", "bob", "carol", "bob")):
            await created(store, f"t{number}", owner, at=number // 2)
        assert await ids(store.browse(None, 3)) == ["t3", "t2", "t1"]
        assert await ids(store.browse(Position(0, "t1"), 3)) == ["t0"]

    # --- queues ------------------------------------------------------------------------------

    @scenario
    async def test_queued_returns_only_submitted_tasks_oldest_first(self, store: Store) -> None:
        tasks = {i: await created(store, i, at=at) for i, at in (("b", 5), ("a", 5), ("c", 1))}
        assert await ids(store.queued(0, 9)) == ["c", "a", "b"]
        assert await ids(store.queued(0, 2)) == ["c", "a"]
        await moved(store, lifecycle.report(tasks["c"], 2_000, message="still waiting"))
        assert await ids(store.queued(0, 9)) == ["c", "a", "b"]
        taken = await moved(store, started(tasks["a"]))
        await moved(store, lifecycle.cancel(tasks["b"], 2_000, reason="enough"))
        assert await ids(store.queued(0, 9)) == ["c"]
        await moved(store, lifecycle.requeue(taken, 2_000))
        assert await ids(store.queued(0, 9)) == ["c", "a"]

    @scenario
    async def test_a_task_is_queued_when_it_is_due(self, store: Store) -> None:
        for task_id, due_at in (("c", 5_000), ("b", 5_000), ("a", 9_000)):
            task = await moved(store, started(await created(store, task_id, at=1_000)))
            await moved(store, lifecycle.requeue(task, 2_000, due_at=due_at))
        await created(store, "d", at=1_500)
        assert await ids(store.queued(4_999, 9)) == ["d"]
        assert await ids(store.due(4_999, 9)) == []
        assert await ids(store.queued(5_000, 9)) == ["d", "b", "c"]
        assert await ids(store.due(5_000, 9)) == ["b", "c"]
        assert await ids(store.due(9_000, 2)) == ["b", "c"]
        [first, *_] = await store.due(9_000, 9)
        await moved(store, lifecycle.start(first, 9_000, worker="w1"))
        assert await ids(store.due(9_000, 9)) == ["c", "a"]

    @scenario
    async def test_totals_count_created_and_adopted_tasks(self, store: Store) -> None:
        assert await store.totals() == Totals(0, 0, 0)
        steps = waiting("a")
        await created(store, "a")
        second = await created(store, "b", "bob")
        for step in steps[1:]:
            await moved(store, step)
        assert await store.totals() == Totals(live=2, waiting=1, retained=2)
        await moved(store, ended(steps[-1].task))
        assert await store.totals() == Totals(live=1, waiting=0, retained=2)
        await deleted(store, second)
        assert await store.totals() == Totals(live=0, waiting=0, retained=1)
        steps = waiting("c")
        await store.adopt(steps[-1].task, [step.entry for step in steps])
        assert await store.totals() == Totals(live=1, waiting=1, retained=2)

    @scenario
    async def test_held_tasks_are_those_that_a_worker_has(self, store: Store) -> None:
        tasks = [await created(store, task_id) for task_id in "abcd"]
        taken = [await moved(store, started(task, "w1")) for task in tasks[:3]]
        await moved(store, started(tasks[3], "w2"))
        assert sorted(await ids(store.held("w1", 9))) == ["a", "b", "c"]
        assert len(await store.held("w1", 2)) == 2
        await moved(store, ended(taken[0]))
        await moved(store, lifecycle.requeue(taken[1], 2_000))
        assert await ids(store.held("w1", 9)) == ["c"]
        assert await ids(store.held("w2", 9)) == ["d"]
        assert list(await store.held("w3", 9)) == []
        steps = [submit("e"), started(submit("e").task), ended(started(submit("e").task).task)]
        odd = attrs.evolve(steps[-1].task, worker="w3")
        await store.adopt(odd, [step.entry for step in steps])
        assert list(await store.held("w3", 9)) == [], "only live tasks are held"

    @scenario
    async def test_orphans_are_held_tasks_without_an_enlisted_worker(self, store: Store) -> None:
        for worker_id in ("w1", "w2"):
            await store.register_worker(Worker(worker_id, "here", 1))
        workers = ("w1", "w2", "w1", "w3", "w3")
        tasks = [
            await moved(store, started(await created(store, f"t{number}"), worker))
            for number, worker in enumerate(workers)
        ]
        await created(store, "queued")
        assert sorted(await ids(store.orphans(9))) == ["t3", "t4"], "w3 was never registered"
        await store.remove_worker("w1")
        assert sorted(await ids(store.orphans(9))) == ["t0", "t2", "t3", "t4"]
        assert len(await store.orphans(3)) == 3
        await moved(store, ended(tasks[0]))
        await moved(store, lifecycle.requeue(tasks[2], 2_000))
        assert sorted(await ids(store.orphans(9))) == ["t3", "t4"]

    @scenario
    async def test_deadlines_come_in_their_order(self, store: Store) -> None:
        ttls = {"late": 30, "b": 20, "a": 20, "soon": 10, "never": None}
        tasks = {i: await created(store, i, at=1_000, ttl_ms=ttl) for i, ttl in ttls.items()}
        assert await ids(store.overdue(1_009, 9)) == []
        assert await ids(store.overdue(1_010, 9)) == ["soon"]
        assert await ids(store.overdue(1_020, 9)) == ["soon", "a", "b"]
        assert await ids(store.overdue(1_020, 2)) == ["soon", "a"]
        assert await ids(store.overdue(10**12, 9)) == ["soon", "a", "b", "late"]
        longer = lifecycle.start(tasks["soon"], 1_000, worker="w1", until=1_025)
        await moved(store, longer)
        assert await ids(store.overdue(10**12, 9)) == ["a", "b", "soon", "late"]
        assert list(await store.forgettable(10**12, 9)) == []
        for task_id in ("never", "late", "b", "a"):
            await moved(store, ended(tasks[task_id]))
        assert await ids(store.overdue(10**12, 9)) == ["soon"]
        assert await ids(store.forgettable(1_019, 9)) == []
        assert await ids(store.forgettable(1_020, 9)) == ["a", "b"]
        assert await ids(store.forgettable(10**12, 2)) == ["a", "b"]
        assert await ids(store.forgettable(10**12, 9)) == ["a", "b", "late"]

    # --- workers and messages ----------------------------------------------------------------

    @scenario
    async def test_workers_beat_until_they_are_struck_off(self, store: Store) -> None:
        assert not await store.beat("w1")
        for worker_id, pid in (("w1", 1), ("w2", 2)):
            await store.register_worker(Worker(worker_id, "here", pid))
        task = await moved(store, started(await created(store)))
        assert await store.beat("w1")
        assert await store.beat("w1")
        assert {w.id: (w.host, w.pid, w.beat) for w in await store.workers()} == {
            "w1": ("here", 1, 2),
            "w2": ("here", 2, 0),
        }
        assert await store.load("t1") == task, "a beat touches no task"
        await store.register_worker(Worker("w2", "there", 3, 7))
        await store.remove_worker("w1")
        await store.remove_worker("w1")
        assert not await store.beat("w1")
        assert list(await store.workers()) == [Worker("w2", "there", 3, 7)]
        assert await ids(store.held("w1", 9)) == ["t1"]

    @scenario
    async def test_messages_are_taken_in_order_and_the_oldest_are_dropped(
        self, store: Store
    ) -> None:
        await created(store)
        await created(store, "t2")
        assert [await store.enqueue("t1", b"%d" % n, 3) for n in range(5)] == [0, 0, 0, 1, 1]
        assert await store.enqueue("t2", b"\x00", 3) == 0
        assert list(await store.dequeue("t1", 2)) == [b"2", b"3"]
        assert await store.enqueue("t1", b"5", 3) == 0
        assert await store.enqueue("t1", b"6", 1) == 2
        assert list(await store.dequeue("t1", 9)) == [b"6"]
        assert list(await store.dequeue("t1", 9)) == []
        assert list(await store.dequeue("t2", 9)) == [b"\x00"]

    @scenario
    async def test_nothing_is_kept_for_a_task_that_does_not_exist(self, store: Store) -> None:
        assert await store.enqueue("t1", b"message", 9) == 0
        await created(store)
        assert list(await store.dequeue("t1", 9)) == []
        assert list(await store.dequeue("t2", 9)) == []
        assert list(await store.history("t2")) == []
