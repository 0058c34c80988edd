"""Time as promised: live work expires in the open, ended work is forgotten in batches."""

import asyncio
import os
import subprocess
import sys

import pytest

from taskmachine.adapters.runtime import processes
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.maintenance import (
    BATCH,
    Leases,
    expire_overdue,
    recover,
    sweep,
    sweep_pause_s,
)
from taskmachine.adapters.stores import Caps, KeptSession, Worker
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.statemachine import Cause, Event, NotFound, State
from tests.adapters.memory_service import DONE, FORM, HOUR, MINUTE, SECOND, MemoryService, run


def test_overdue_queued_task_expires_and_is_deleted_after_the_grace() -> None:
    """Expiry is a move, then a purge; every waiter is answered."""

    async def main() -> None:
        memory = MemoryService()
        queued = await memory.create(ttl_ms=100)
        waiter = asyncio.create_task(memory.service.collect("alice", queued.id))
        while not memory.service.waiting("alice"):
            await asyncio.sleep(0)
        memory.clock.now += 99
        assert await expire_overdue(memory.service) == 0
        memory.clock.now += 1
        assert await expire_overdue(memory.service) == 1
        expired = await waiter
        assert expired.outcome is not None
        assert (expired.state, expired.outcome.cause) == (State.FAILED, Cause.EXPIRED)
        assert expired.deadline == memory.clock.now + MINUTE, "the ttl that is shown is true"
        memory.clock.now += MINUTE - 1
        assert await sweep(memory.service) == 0
        assert await memory.service.get("alice", queued.id) == expired
        memory.clock.now += 1
        assert await sweep(memory.service) == 1
        with pytest.raises(NotFound):
            await memory.service.get("alice", queued.id)

    run(main())


def test_unanswered_question_expires_with_the_ttl_of_the_task() -> None:

    async def main() -> None:
        memory = MemoryService()
        task = await memory.create(ttl_ms=10 * MINUTE)
        held = await memory.claim(task.id)
        await held.ask([FORM])
        memory.clock.now += 10 * MINUTE
        assert await expire_overdue(memory.service) == 1
        ended = await memory.service.get("alice", task.id)
        assert (ended.state, ended.worker) == (State.FAILED, None)
        assert ended.questions[0].withdrawn

    run(main())


def test_work_within_its_timeout_is_not_killed_by_a_ttl() -> None:
    async def main() -> None:
        memory = MemoryService()
        task = await memory.create(ttl_ms=1 * SECOND)
        held = await memory.claim(task.id)
        memory.clock.now += 5 * MINUTE
        assert await expire_overdue(memory.service) == 0
        await held.settle(DONE)
        assert (await memory.service.get("alice", task.id)).state is State.COMPLETED

    run(main())


@pytest.mark.parametrize(("end", "kept"), [("complete", 24 * HOUR), ("cancel", HOUR)])
def test_ended_task_is_kept_for_its_promised_time(end: str, kept: int) -> None:
    async def main() -> None:
        memory = MemoryService()
        task = await memory.create()
        if end == "complete":
            await (await memory.claim(task.id)).settle(DONE)
        else:
            await memory.service.cancel("alice", task.id)
        memory.clock.now += kept - 1
        assert await sweep(memory.service) == 0
        memory.clock.now += 1
        assert await sweep(memory.service) == 1

    run(main())


def test_a_chosen_ttl_counts_from_the_creation_also_after_the_end() -> None:
    async def main() -> None:
        memory = MemoryService()
        task = await memory.create(ttl_ms=HOUR)
        memory.clock.now += 10 * MINUTE
        await (await memory.claim(task.id)).settle(DONE)
        memory.clock.now += 50 * MINUTE - 1
        assert await sweep(memory.service) == 0
        memory.clock.now += 1
        assert await sweep(memory.service) == 1

    run(main())


def test_sweep_deletes_ended_tasks_in_batches_and_no_live_task() -> None:

    async def main() -> None:
        memory = MemoryService(Limits(caps=Caps(live=10_000)))
        for _ in range(250):
            await memory.service.cancel("alice", (await memory.create()).id)
        live = await memory.create(ttl_ms=2 * HOUR)
        memory.clock.now += HOUR
        assert await sweep(memory.service) == 250
        assert [task.id for task in (await memory.service.page("alice")).tasks] == [live.id]

    run(main())


@pytest.mark.parametrize("count", [0, 1, 2 * BATCH, 2 * BATCH + 1])
def test_sweeps_forget_sessions_in_batches_and_count_tasks_only(count: int) -> None:
    limits = list[int]()

    class Watched(MemoryStore):
        async def forget_sessions(self, now: int, limit: int) -> int:
            limits.append(limit)
            return await super().forget_sessions(now, limit)

    async def main() -> None:
        memory = MemoryService(store=Watched(b"s" * 32))
        await memory.service.cancel("alice", (await memory.create()).id)
        memory.clock.now += HOUR
        for number in range(count):
            await memory.store.keep_session(
                KeptSession(f"old {number}", b"", memory.clock.now), 1_000
            )
        still = KeptSession("still", b"", memory.clock.now + 1)
        await memory.store.keep_session(still, 1_000)
        assert await sweep(memory.service) == 1
        assert set(limits) == {BATCH}
        assert [await memory.store.session(f"old {number}") for number in range(count)] == (
            [None] * count
        )
        assert await memory.store.session("still") == still
        memory.clock.now += 1
        assert await sweep(memory.service) == 0, "no such task"
        assert await memory.store.session("still") is None

    run(main())


def test_the_next_sweep_comes_the_sooner_the_more_there_was() -> None:
    assert [sweep_pause_s(n) for n in (0, 10, 11, 100, 101)] == [300, 300, 180, 180, 60]


# --- workers ---------------------------------------------------------------------------------


def test_worker_is_lost_without_a_heartbeat_for_one_observed_lease() -> None:
    leases = Leases(lambda worker: False)
    still = Worker("a", "h", 1)
    for beat, now_s in enumerate((100.0, 105.0, 110.0, 114.9)):
        assert leases.lost([still, Worker("b", "h", 2, beat)], now_s) == []
    last = Worker("b", "h", 2, beat=4)
    assert leases.lost([still, last], 115.0) == ["a"]
    assert [leases.lost([last], now_s) for now_s in (120.0, 125.0, 129.9)] == [[], [], []]
    assert leases.lost([last], 130.0) == ["b"]


def test_a_store_that_was_away_costs_no_worker() -> None:
    leases = Leases(lambda worker: False)
    worker = Worker("a", "h", 1)
    assert [leases.lost([worker], now_s) for now_s in (0.0, 5.0)] == [[], []]
    # No worker could send a heartbeat meanwhile; live ones do before the next check.
    assert leases.lost([worker], 65.0) == []
    assert leases.lost([worker], 70.0) == ["a"]


def test_worker_with_a_dead_process_is_lost_at_once() -> None:
    leases = Leases(lambda worker: worker.pid == 1)
    assert leases.lost([Worker("a", "h", 1), Worker("b", "h", 2)], 0.0) == ["a"]


def test_the_tasks_of_lost_workers_go_to_others_questions_stay_open() -> None:

    async def main() -> None:
        memory = MemoryService()
        await memory.store.register_worker(Worker("dead", "h", 1))
        work, ask, once = [await memory.create(is_repeatable=r) for r in (True, True, False)]
        await memory.claim(work.id, "dead")
        await (await memory.claim(ask.id, "dead")).ask([FORM])
        await memory.claim(once.id, "dead")
        assert await recover(memory.service, Leases(lambda worker: True)) == 3
        after = [await memory.service.get("alice", task.id) for task in (work, ask, once)]
        assert [(task.state.value, task.losses, task.worker) for task in after] == [
            ("submitted", 1, None),
            ("input_required", 1, None),
            ("failed", 0, None),
        ]
        assert after[1].open_questions
        assert await memory.store.workers() == ()
        assert await recover(memory.service, Leases(lambda worker: True)) == 0
        [*_, last] = await memory.store.history(work.id)
        assert (last.event, last.note) == (Event.REQUEUE, "The worker of this task was lost.")

    run(main())


def test_a_process_of_this_host_is_known_to_live_or_to_be_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    here = processes.host()
    assert not processes.is_dead(Worker("w", here, child.pid))
    assert child.stdin is not None
    child.stdin.write(b"\n")
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.is_dead(Worker("w", here, child.pid)), "it is not reaped yet"
    child.wait()
    assert processes.is_dead(Worker("w", here, child.pid))
    assert not processes.is_dead(Worker("w", "elsewhere", child.pid))
    assert not processes.is_dead(Worker("w", here, os.getpid()))
    assert not processes.is_dead(Worker("w", here, 1))
