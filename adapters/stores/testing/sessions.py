"""Tests of transport sessions.  Part of the test kit, see `contract`."""

import asyncio
from collections.abc import Iterable

import attrs
import pytest

from taskmachine.adapters.stores import Caps, KeptSession, Store
from taskmachine.adapters.stores.testing.machine import NewPlace
from taskmachine.adapters.stores.testing.scenes import created, pair, scenario, submit
from taskmachine.statemachine import LimitExceeded

__all__ = ["PersistentSessionContract", "SessionContract"]

FEW = 4
MANY = 1_000


def some(key: str = "s1", until: int = 1_000) -> KeptSession:
    return KeptSession(key, f"body of {key}".encode(), until)


async def kept(store: Store, *sessions: KeptSession) -> None:
    for session in sessions:
        await store.keep_session(session, MANY)


async def known(store: Store, keys: Iterable[str]) -> str:
    """Return those of these keys, each one letter, that have a session."""
    return "".join([key for key in keys if await store.session(key) is not None])


async def refused(store: Store, session: KeptSession, maximum: int) -> None:
    with pytest.raises(LimitExceeded) as error:
        await store.keep_session(session, maximum)
    assert (error.value.limit, error.value.retry_after_ms) == (f"{maximum} sessions", 60_000)


class SessionContract:
    """Sessions are stored until they end or expire, and their number is limited."""

    @scenario
    async def test_the_store_returns_a_kept_session_unchanged(self, store: Store) -> None:
        sessions = [
            KeptSession("s1", b"body", 1_000),
            KeptSession("S1", b"\x00\xff", 0),
            KeptSession("s1 ", b"", 2**53),
            KeptSession("\u00fcber \U0001f600", b"x" * 100_000, -1),
        ]
        await kept(store, *sessions)
        assert [await store.session(session.key) for session in sessions] == sessions
        assert await store.session("s2") is None
        assert await store.session("") is None

    @scenario
    async def test_a_session_that_is_kept_again_is_replaced(self, store: Store) -> None:
        await kept(store, some("a", 10), some("b", 10))
        later = KeptSession("a", b"another body", 30)
        await kept(store, later)
        assert await store.session("a") == later
        assert await store.session("b") == some("b", 10)
        assert await store.forget_sessions(29, 9) == 1, "its old time counts no more"
        assert await store.session("a") == later
        sooner = attrs.evolve(later, until=20)
        await kept(store, sooner)
        assert await store.forget_sessions(20, 9) == 1, "its new time counts"
        assert await known(store, "ab") == ""
        await kept(store, some("a", 10))
        assert await store.session("a") == some("a", 10), "after the end it is a new one"

    @scenario
    async def test_there_are_no_more_sessions_than_the_maximum(self, store: Store) -> None:
        for key in "abcd":
            await store.keep_session(some(key, until=10), FEW)
        await refused(store, some("e"), FEW)
        await refused(store, some("e"), 1)
        assert await known(store, "abcde") == "abcd"
        await store.keep_session(some("e"), FEW + 1)
        await refused(store, some("f"), FEW + 1)
        assert await store.forget_sessions(10, 2) == 2
        await store.keep_session(some("f"), FEW)
        await refused(store, some("g"), FEW)

    @scenario
    async def test_a_known_session_needs_no_room(self, store: Store) -> None:
        await kept(store, some("a"), some("b"))
        for maximum in (2, 1, 0):
            again = KeptSession("a", b"at %d" % maximum, 1_000)
            await store.keep_session(again, maximum)
            assert await store.session("a") == again
        await refused(store, some("c"), 2)
        await store.keep_session(some("c"), 3)

    @scenario
    async def test_concurrent_keep_session_calls_are_atomic(self, store: Store) -> None:
        same = [KeptSession("same", b"%d" % number, 1_000) for number in range(9)]
        await asyncio.gather(*(store.keep_session(session, 1) for session in same))
        assert await store.session("same") in same
        answers = await asyncio.gather(
            *(store.keep_session(some(key), FEW) for key in "abcdefghi"), return_exceptions=True
        )
        assert sum(isinstance(answer, LimitExceeded) for answer in answers) == 9 - (FEW - 1)
        let_in = [key for key, answer in zip("abcdefghi", answers, strict=True) if answer is None]
        assert await known(store, "abcdefghi") == "".join(let_in)

    @scenario
    async def test_a_session_that_was_ended_is_gone(self, store: Store) -> None:
        await kept(store, some("a"), some("b"))
        for key in ("a", "a", "never"):
            await store.end_session(key)
            assert await known(store, "ab") == "b"
        await store.keep_session(some("c"), 2)
        await refused(store, some("d"), 2)
        assert await store.forget_sessions(1_000, 9) == 2, "the ended one is not among them"

    @scenario
    async def test_sessions_are_forgotten_in_their_order_and_in_batches(self, store: Store) -> None:
        await kept(store, some("e", 40), some("c", 20), some("b", 20), some("d", 30), some("a", 20))
        assert await store.forget_sessions(19, 9) == 0
        assert await known(store, "abcde") == "abcde"
        assert await store.forget_sessions(30, 0) == 0
        assert await store.forget_sessions(30, 2) == 2
        assert await known(store, "abcde") == "cde", "the most overdue first, then by key"
        assert await store.forget_sessions(30, 2) == 2
        assert await known(store, "abcde") == "e"
        assert await store.forget_sessions(30, 2) == 0
        assert await store.forget_sessions(10**15, 2) == 1
        assert await known(store, "abcde") == ""

    @scenario
    async def test_sessions_and_tasks_do_not_count_as_each_other(self, store: Store) -> None:
        await kept(store, *(some(key, until=10) for key in "abc"))
        step = submit()
        assert await store.create(step.task, [step.entry], Caps(1, 1, 1, 1)) == step.task
        await created(store, "t2")
        await store.keep_session(some("d"), FEW)
        assert await store.forget_sessions(10, 9) == 3
        assert {task.id for task in await store.browse(None, 9)} == {"t1", "t2"}
        await store.keep_session(some("e"), 2)
        await refused(store, some("f"), 2)


class PersistentSessionContract:
    """Sessions survive the process and are shared by all stores of a place."""

    def test_sessions_stay_when_the_store_is_opened_again(self, new_place: NewPlace) -> None:
        async def run() -> None:
            place = new_place()
            store = await place()
            replaced = KeptSession("a", b"as it was last", 20)
            await kept(store, some("a", 10), some("b", 10), some("c", 30), replaced)
            await store.end_session("c")
            await store.close()
            store = await place()
            assert await store.session("a") == replaced
            assert await known(store, "abc") == "ab"
            await refused(store, some("d"), 2)
            assert await store.forget_sessions(10, 9) == 1
            await store.keep_session(some("d"), 2)
            await store.close()
            store = await place()
            assert await known(store, "abcd") == "ad"
            await store.close()

        with asyncio.Runner() as runner:
            runner.run(run())

    @pair
    async def test_two_store_instances_share_sessions(self, one: Store, other: Store) -> None:
        await kept(one, some("a", 10))
        assert await other.session("a") == some("a", 10)
        again = KeptSession("a", b"by the other", 20)
        await kept(other, again)
        assert await one.session("a") == again
        assert await one.forget_sessions(10, 9) == 0
        await refused(one, some("b"), 1)
        await other.end_session("a")
        assert await one.session("a") is None
        await kept(one, some("b", 10))
        assert await other.forget_sessions(10, 9) == 1
        assert await one.session("b") is None
        await one.keep_session(some("c"), 1)

    @pair
    async def test_two_store_instances_share_the_session_limit(
        self, one: Store, other: Store
    ) -> None:
        answers = await asyncio.gather(
            *(
                store.keep_session(some(f"{name}{number}"), FEW)
                for number in range(FEW)
                for name, store in (("one", one), ("other", other))
            ),
            return_exceptions=True,
        )
        assert sum(isinstance(answer, LimitExceeded) for answer in answers) == FEW
        await refused(one, some("more"), FEW)
        await refused(other, some("more"), FEW)
