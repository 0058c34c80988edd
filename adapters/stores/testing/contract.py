"""The test kit of the store contract, for authors of stores.

Requires pytest and hypothesis, which the package itself does not.  Provide one fixture: a function
that makes a new place on each call and returns an async function that opens a store there.

    class TestMyStore(PersistentStoreContract):
        @pytest.fixture
        def new_place(self, tmp_path):
            numbers = itertools.count()

            def new_place():
                path = tmp_path / str(next(numbers))
                return lambda: open_my_store(path)

            return new_place

`StoreContract` applies to any store, `PersistentStoreContract` to those whose places can be opened
again, also by several processes at once.
"""

import asyncio
from typing import ClassVar

import attrs
import pytest
from hypothesis.stateful import run_state_machine_as_test

from taskmachine.adapters.stores import (
    Caps,
    Conflict,
    KeptSession,
    Store,
    StoreError,
    Worker,
)
from taskmachine.adapters.stores.testing.machine import NewPlace, Place, StoreMachine
from taskmachine.adapters.stores.testing.reading import ReadingContract
from taskmachine.adapters.stores.testing.scenes import (
    NO_CAPS,
    NOTICED_S,
    created,
    deleted,
    ended,
    ids,
    moved,
    pair,
    scenario,
    started,
    state_of,
    submit,
)
from taskmachine.adapters.stores.testing.sessions import (
    PersistentSessionContract,
    SessionContract,
)
from taskmachine.adapters.stores.testing.writing import WritingContract
from taskmachine.statemachine import Call, Entry, LimitExceeded, Task, lifecycle

__all__ = ["NewPlace", "PersistentStoreContract", "Place", "StoreContract"]


class StoreContract(WritingContract, ReadingContract, SessionContract):
    """The requirements on every store, one test for each."""

    persists: ClassVar[bool] = False

    # --- as a whole --------------------------------------------------------------------------

    def test_a_store_has_a_secret_of_its_own(self, new_place: NewPlace) -> None:
        async def run() -> None:
            stores = [await new_place()() for _ in range(2)]
            secrets = [await store.secret() for store in stores for _ in range(2)]
            for store in stores:
                await store.close()
            assert {len(secret) for secret in secrets} == {32}
            assert secrets[0] == secrets[1] != secrets[2]

        with asyncio.Runner() as runner:
            runner.run(run())

    @scenario
    async def test_a_secret_is_taken_over_only_by_an_empty_store(self, store: Store) -> None:
        await store.adopt_secret(b"s" * 32)
        assert await store.secret() == b"s" * 32
        task = await created(store)
        with pytest.raises(Conflict):
            await store.adopt_secret(b"t" * 32)
        assert await store.secret() == b"s" * 32
        await deleted(store, task)
        await store.adopt_secret(b"t" * 32)
        assert await store.secret() == b"t" * 32

    @scenario
    async def test_a_commit_in_the_same_state_updates_overdue_and_held(self, store: Store) -> None:
        task = await moved(store, started(await created(store)))
        for ttl_ms, worker in ((10, "w1"), (10, "w2")):
            step = lifecycle.report(task, 2_000, message="busy")
            changed = attrs.evolve(step.task, ttl_ms=ttl_ms, worker=worker)
            await store.commit(changed, [step.entry], task.version)
            assert await ids(store.overdue(task.created_at + 10, 9)) == ["t1"]
            assert await ids(store.held(worker, 9)) == ["t1"]
            task = changed
        assert await ids(store.held("w1", 9)) == []

    @scenario
    async def test_export_yields_every_task_with_its_entries(self, store: Store) -> None:
        expected: dict[str, tuple[Task, list[Entry]]] = {}
        for number in range(250):
            step = submit(f"t{number}", f"owner {number % 3}", at=number)
            await store.create(step.task, [step.entry], NO_CAPS)
            expected[step.task.id] = step.task, [step.entry]
        more = started(expected["t7"][0])
        expected["t7"] = await moved(store, more), [*expected["t7"][1], more.entry]
        found = [(task, list(entries)) async for task, entries in store.export()]
        assert len(found) == 250
        assert {task.id: (task, entries) for task, entries in found} == expected

    @scenario
    async def test_tasks_may_go_while_others_are_exported(self, store: Store) -> None:
        tasks = [await created(store, f"t{number}") for number in range(9)]
        async for task, entries in store.export():
            assert entries[-1].seq == task.version
            for other in tasks:
                await deleted(store, other)
            tasks.clear()

    @scenario
    async def test_an_adopted_task_is_as_any_other(self, store: Store) -> None:
        first = submit("t1", call=Call("tools/call", key="k"))
        second = started(first.task)
        await store.adopt(second.task, [first.entry, second.entry])
        assert await store.load("t1") == second.task
        assert list(await store.history("t1")) == [first.entry, second.entry]
        assert await ids(store.held("w1", 9)) == ["t1"]
        assert await created(store, "t2", call=first.task.call) == second.task
        before = await state_of(store)
        for task in (first.task, attrs.evolve(first.task, id="t2")):
            with pytest.raises(Conflict):
                await store.adopt(task, [first.entry])
        assert await state_of(store) == before
        step = submit("t3")
        with pytest.raises(LimitExceeded):
            await store.create(step.task, [step.entry], Caps(live=1))
        await deleted(store, second.task)

    @scenario
    async def test_a_closed_store_does_nothing(self, store: Store) -> None:
        task = await created(store)
        leave = store.follow("t1", lambda _: None)
        await store.close()
        await store.close()
        leave()
        step = started(task)
        for call in (
            lambda: created(store, "t2"),
            lambda: store.load("t1"),
            lambda: store.commit(step.task, [step.entry], 1),
            lambda: store.page("alice", None, 9),
            lambda: store.page("stranger", None, 9),
            lambda: store.browse(None, 9),
            lambda: store.queued(0, 9),
            store.totals,
            lambda: store.held("w1", 9),
            lambda: store.orphans(9),
            lambda: store.overdue(0, 9),
            lambda: store.forgettable(0, 9),
            lambda: store.history("t1"),
            lambda: store.register_worker(Worker("w1", "here", 1)),
            lambda: store.beat("w1"),
            lambda: store.remove_worker("w1"),
            lambda: store.workers(),
            lambda: store.enqueue("t1", b"", 9),
            lambda: store.dequeue("t1", 9),
            lambda: store.keep_session(KeptSession("s1", b"", 0), 9),
            lambda: store.session("s1"),
            lambda: store.end_session("s1"),
            lambda: store.forget_sessions(0, 9),
            lambda: store.secret(),
            lambda: store.adopt_secret(b"s" * 32),
            lambda: anext(aiter(store.export())),
            lambda: store.adopt(submit("t3").task, []),
        ):
            with pytest.raises(StoreError):
                await call()
        with pytest.raises(StoreError):
            store.follow("t1", lambda _: None)

    def test_random_operations_agree_with_the_model(self, new_place: NewPlace) -> None:
        contract = self

        class Here(StoreMachine):
            def __init__(self) -> None:
                super().__init__(new_place, persists=contract.persists)

        run_state_machine_as_test(Here)


class PersistentStoreContract(StoreContract, PersistentSessionContract):
    """The requirements on stores whose places can be opened again."""

    persists = True

    def test_acknowledged_writes_survive_closing_and_reopening_the_store(
        self, new_place: NewPlace
    ) -> None:
        async def run() -> None:
            place = new_place()
            store = await place()
            call = Call("tools/call", key="k")
            await store.adopt_secret(b"s" * 32)
            await created(store, "t1", call=call)
            task = await moved(store, started(await created(store, "t2")))
            await store.enqueue("t2", b"message", 9)
            await store.register_worker(Worker("w1", "here", 1))
            await store.beat("w1")
            before, secret = await state_of(store), await store.secret()
            assert secret == b"s" * 32
            await store.close()
            store = await place()
            assert await state_of(store) == before
            assert await store.secret() == secret
            assert await ids(store.held("w1", 9)) == ["t2"]
            assert list(await store.workers()) == [Worker("w1", "here", 1, 1)]
            assert list(await store.dequeue("t2", 9)) == [b"message"]
            assert (await created(store, "t3", call=call)).id == "t1"
            step = submit("t3")
            with pytest.raises(LimitExceeded):
                await store.create(step.task, [step.entry], Caps(live=2))
            await moved(store, ended(task))
            assert await store.create(step.task, [step.entry], Caps(live=2)) == step.task
            await store.close()

        with asyncio.Runner() as runner:
            runner.run(run())

    @pair
    async def test_two_store_instances_share_the_same_data(self, one: Store, other: Store) -> None:
        assert await one.secret() == await other.secret()
        call = Call("tools/call", key="k")
        task = await created(one, "t1", call=call)
        assert await other.load("t1") == task
        assert await created(other, "t2", call=call) == task
        step = submit("t3")
        with pytest.raises(LimitExceeded):
            await other.create(step.task, [step.entry], Caps(live=1))
        task = await moved(other, started(task))
        assert await state_of(one) == await state_of(other)
        with pytest.raises(Conflict):
            await moved(one, started(submit("t1").task))
        await one.enqueue("t1", b"message", 9)
        assert list(await other.dequeue("t1", 9)) == [b"message"]
        assert list(await one.dequeue("t1", 9)) == []
        await deleted(one, task)
        assert await other.load("t1") is None
        assert await other.create(step.task, [step.entry], Caps(live=1)) == step.task

    @pair
    async def test_a_follower_receives_commits_by_another_store_instance(
        self, one: Store, other: Store
    ) -> None:
        told: asyncio.Queue[Task | None] = asyncio.Queue()
        both = one.follow("t1", told.put_nowait), one.follow("t1", lambda _: None)

        async def next_told() -> Task | None:
            return await asyncio.wait_for(told.get(), NOTICED_S)

        task = await created(other)
        assert await next_told() == task
        task = await moved(other, started(task))
        assert await next_told() == task
        task = await moved(one, lifecycle.report(task, 2_000, message="from here"))
        assert told.get_nowait() == task
        task = await moved(other, ended(task))
        assert await next_told() == task
        await moved(other, lifecycle.purge(task, 9_000))
        assert await next_told() is None
        for leave in both:
            leave()
        assert told.empty()
