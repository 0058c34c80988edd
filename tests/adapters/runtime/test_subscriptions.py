"""Subscriptions: bounded for slow readers, complete for fast ones."""

import asyncio
from random import Random

import pytest

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.subscriptions import Subscriptions
from taskmachine.adapters.runtime.testing.virtual_loop import VirtualLoop
from taskmachine.statemachine import LimitExceeded, State
from tests.adapters.memory_service import DONE, MemoryService, run


def test_subscriber_gets_every_version_in_order_until_the_end() -> None:
    """Ten reports of progress are ten notifications."""

    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        subscription = await Subscriptions(memory.service).subscribe("alice", [task.id])
        assert [known.version for known in subscription.known] == [1]
        held = await memory.claim(task.id)
        for n in range(10):
            await held.report(message=f"step {n}")
        await held.settle(DONE)
        heard = [version async for version in subscription]
        assert [version.version for version in heard] == list(range(2, 14))
        assert heard[-1].state is State.COMPLETED
        assert subscription.dropped == 0

    run(main())


def test_subscription_iterator_waits_for_new_versions() -> None:
    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        subscription = await Subscriptions(memory.service).subscribe("alice", [task.id])
        heard: list[str] = []

        async def listen() -> None:
            heard.extend([version.state.value async for version in subscription])

        listening = asyncio.create_task(listen())
        await asyncio.sleep(0)
        await memory.claim(task.id)
        await asyncio.sleep(0)
        await memory.service.cancel("alice", task.id)
        await listening
        assert heard == ["working", "cancelled"]

    run(main())


def test_full_subscription_drops_and_counts_the_oldest_versions() -> None:

    async def main() -> None:
        memory = MemoryService(Limits(buffer=3))
        task = await memory.create()
        subscription = await Subscriptions(memory.service).subscribe("alice", [task.id])
        held = await memory.claim(task.id)
        for n in range(5):
            await held.report(message=str(n))
        assert subscription.dropped == 3
        assert [version.message for version in subscription.drain(2)] == ["2", "3"]
        assert [version.message for version in subscription.drain(10)] == ["4"]
        subscription.close()

    run(main())


def test_foreign_and_missing_tasks_are_not_mentioned() -> None:
    async def main() -> None:
        memory = MemoryService()
        mine, theirs = await memory.create(), await memory.create("bob")
        subscriptions = Subscriptions(memory.service)
        subscription = await subscriptions.subscribe("alice", [theirs.id, "none", mine.id, mine.id])
        assert [known.id for known in subscription.known] == [mine.id]
        await memory.service.cancel("bob", theirs.id)
        assert subscription.drain(10) == []
        subscription.close()

    run(main())


def test_subscription_without_live_tasks_ends_at_once() -> None:
    async def main() -> None:
        memory = MemoryService()
        done = await memory.ended()
        subscription = await Subscriptions(memory.service).subscribe("alice", [done.id])
        assert [version async for version in subscription] == []

    run(main())


def test_closed_subscription_gets_no_versions_and_frees_its_slot() -> None:
    async def main() -> None:
        memory = MemoryService(Limits(subscriptions=1, watched=2))
        task = await memory.create()
        subscriptions = Subscriptions(memory.service)
        subscription = await subscriptions.subscribe("alice", [task.id])
        with pytest.raises(LimitExceeded, match="1 subscriptions"):
            await subscriptions.subscribe("alice", [task.id])
        assert await subscriptions.subscribe("bob", [task.id])
        with pytest.raises(LimitExceeded, match="2 tasks of one subscription"):
            await subscriptions.subscribe("alice", ["a", "b", "c"])
        subscription.close()
        subscription.close()
        await memory.claim(task.id)
        assert subscription.drain(10) == []
        assert [version async for version in subscription] == []
        (await subscriptions.subscribe("alice", [task.id])).close()

    run(main())


def test_a_failure_while_subscribing_leaves_nothing_behind() -> None:
    async def main() -> None:
        memory = MemoryService(Limits(subscriptions=1))
        task = await memory.create()
        subscriptions = Subscriptions(memory.service)
        await memory.store.close()
        with pytest.raises(Exception, match="closed"):
            await subscriptions.subscribe("alice", [task.id])
        with pytest.raises(Exception, match="closed"):
            await subscriptions.subscribe("alice", [task.id])

    run(main())


def test_purge_ends_the_subscription_of_a_task() -> None:
    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        subscription = await Subscriptions(memory.service).subscribe("alice", [task.id])
        subscription.on_version(task.id, None)  # all that came before was missed
        assert [version async for version in subscription] == []

    run(main())


def test_unread_subscription_is_closed_after_an_hour() -> None:

    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        subscriptions = Subscriptions(memory.service)
        idle = await subscriptions.subscribe("alice", [task.id])
        read = await subscriptions.subscribe("alice", [task.id])
        for _ in range(11):
            await asyncio.sleep(subscriptions.close_idle())
            read.drain(1)
        assert (idle.is_closed, read.is_closed) == (True, False)
        assert asyncio.get_running_loop().time() <= 4_000
        read.close()

    loop = VirtualLoop(Random(0))
    loop.run(main())
    loop.close()
