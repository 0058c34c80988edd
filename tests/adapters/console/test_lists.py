"""Lists: pages, filters and live updates."""

import asyncio

import pytest

from taskmachine.adapters.console import streams
from taskmachine.adapters.console.browser_sessions import LONGEST_MS
from taskmachine.adapters.console.listing import MOST_READ, Query
from taskmachine.statemachine import Task, lifecycle
from taskmachine.statemachine.lifecycle import Step
from tests.adapters.console.console_server import ADMIN, ALICE, BOB, ConsoleServer, console_server
from tests.adapters.memory_service import DONE, FORM, run


async def pages(there: ConsoleServer, query: str, owner: str = ALICE) -> list[list[str]]:
    """Return the ids on each page."""
    import re

    person = await there.visitor(owner)
    found = []
    where: str | None = f"/{query}"
    while where is not None:
        page = (await person.get(where)).text
        found.append(re.findall(r'<tr role="row" id="task-([^"]+)"', page))
        older = re.search(r'rel="next" href="/console([^"]+)"', page)
        where = older and older[1].replace("&amp;", "&")
    return found


def test_pages_hold_every_task_once_and_the_newest_first() -> None:
    async def main() -> None:
        async with console_server() as there:
            tasks = [await there.create() for _ in range(120)]
            await there.create(BOB)
            found = await pages(there, "")
            assert [len(page) for page in found] == [50, 50, 20]
            assert [i for page in found for i in page] == [task.id for task in reversed(tasks)]
            assert [len(page) for page in await pages(there, "?size=200", ADMIN)] == [121]

    run(main())


def test_a_filter_reads_a_bounded_number_of_tasks() -> None:
    async def main() -> None:
        async with console_server() as there:
            rare = await there.create(name="rare")
            for number in range(900):
                await there.create(f"owner {number % 4}")  # each may have 250
            assert await pages(there, "?tool=rare", ADMIN) == [[rare.id]]
            admin = await there.visitor(ADMIN)
            assert "out of 901 that were read" in (await admin.get("/?tool=rare")).text

    run(main())
    assert MOST_READ == 2_000


def test_a_long_search_says_where_to_look_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskmachine.adapters.console.listing.MOST_READ", 20)

    async def main() -> None:
        async with console_server() as there:
            rare = await there.create(name="rare")
            for _ in range(45):
                await there.create()
            assert await pages(there, "?tool=rare") == [[], [], [rare.id]]
            alice = await there.visitor(ALICE)
            assert "Search further" in (await alice.get("/?tool=rare")).text

    run(main())


def test_states_can_be_asked_for() -> None:
    async def main() -> None:
        async with console_server() as there:
            new, asks, done = await there.create(), await there.asking(FORM), await there.ended()
            for state, expected in (
                ("live", [asks, new]),
                ("ended", [done]),
                ("submitted", [new]),
                ("nonsense", [done, asks, new]),
            ):
                assert await pages(there, f"?state={state}") == [[task.id for task in expected]]

    run(main())


def test_a_cursor_of_another_visitor_is_refused() -> None:
    async def main() -> None:
        async with console_server() as there:
            for _ in range(51):
                await there.create(BOB)
            bob, alice = await there.visitor(BOB), await there.visitor(ALICE)
            page = (await bob.get("/")).text
            older = page.split('rel="next" href="/console')[1].split('"')[0]
            assert (await bob.get(older)).status_code == 200
            assert (await alice.get(older)).status_code == 400
            assert (await alice.get("/?after=x")).status_code == 400
            assert (await alice.get("/events?after=x")).status_code == 400

    run(main())


def test_invalid_filters_are_ignored() -> None:
    assert Query.read({"state": "x", "size": "7", "tool": " t "}) == Query(tool="t")
    assert Query().url() == "?"
    assert Query(state="live", size=200).url(state="") == "?size=200"


# --- live -------------------------------------------------------------------------------------


def forget(task: Task, now: int) -> tuple[Step]:
    return (lifecycle.purge(task, now),)


def test_rows_change_come_and_go() -> None:
    async def main() -> None:
        async with console_server() as there:
            task, done = await there.create(), await there.ended()
            alice = await there.visitor(ALICE)
            async with alice.watching("/events") as stream:
                everything = await stream.until("all", task.id)
                assert done.id in everything.data
                work = await there.claim(task)
                await stream.until("rows", "working")
                await work.report(message="halfway")
                changed = await stream.until("rows", "halfway")
                assert done.id not in changed.data
                new = await there.create()
                await stream.until("rows", new.id)
                await there.service.move(done.id, forget)
                last = await stream.until("gone", done.id)
            # A page that is up to date gets nothing, any other gets everything.
            async with alice.watching("/events", last_event_id=last.id) as stream:
                await work.settle(DONE)
                assert task.id in (await stream.next()).data
                assert b"event: all" not in stream.text
            async with alice.watching(f"/events?seen={last.id}") as stream:
                assert (await stream.next()).name == "all"

    run(main())


def test_filtered_list_adds_and_removes_a_row_as_its_task_changes() -> None:
    async def main() -> None:
        async with console_server() as there:
            task = await there.create()
            alice = await there.visitor(ALICE)
            async with alice.watching("/events?state=working&seen=x") as stream:
                assert (await stream.next()).data.strip() == ""
                work = await there.claim(task)
                await stream.until("rows", task.id)
                await work.settle(DONE)
                await stream.until("gone", task.id)

    run(main())


def test_many_changes_are_sent_as_one_event() -> None:
    async def main() -> None:
        async with console_server() as there:
            task = await there.create()
            alice = await there.visitor(ALICE)
            async with alice.watching("/events") as stream:
                await stream.next()
                work = await there.claim(task)
                for number in range(200):
                    await work.report(message=f"number {number}")
                await stream.until("rows", "number 199")
                assert stream.text.count(b"event: rows") < 10

    run(main())


def test_streams_are_bounded_and_end_with_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskmachine.adapters.console.application.STREAMS", 1)

    async def main() -> None:
        async with console_server(keep_alive_s=0.1) as there:
            task = await there.create()
            alice, bob = await there.visitor(ALICE), await there.visitor(BOB)
            async with alice.watching("/events") as stream:
                await stream.until_comment(b": keep-alive")
                assert (await alice.get("/events")).status_code == 429
                assert (await alice.get(f"/tasks/{task.id}/events")).status_code == 429
                async with bob.watching("/events"):
                    pass
                there.clock.now += LONGEST_MS
                await stream.end()
            assert (await alice.get("/events")).status_code == 401

    run(main())


# --- one task ---------------------------------------------------------------------------------


def test_changed_pieces_are_sent_until_the_task_ends() -> None:
    import json

    async def main() -> None:
        async with console_server() as there:
            task = await there.create()
            alice = await there.visitor(ALICE)
            where = f"/tasks/{task.id}/events"
            async with alice.watching(f"{where}?seen=1") as stream:
                work = await there.claim(task)
                first = json.loads((await stream.until("pieces", "working")).data)
                assert "summary" in first["pieces"]
                assert "questions" not in first["pieces"], "it looks the same"
                await work.settle(DONE)
                last = await stream.until("pieces", "completed")
                assert json.loads(last.data)["isOver"]
                await stream.end()
            assert (await alice.get(f"{where}?seen={last.id}")).status_code == 204
            async with alice.watching(where) as stream:
                assert "completed" in (await stream.next()).data
                await stream.end()

    run(main())


def test_the_removal_of_a_task_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with console_server() as there:
            task = await there.create()
            alice = await there.visitor(ALICE)
            async with alice.watching(f"/tasks/{task.id}/events?seen=1") as stream:
                await stream.until_comment(b"retry")
                monkeypatch.setattr(streams, "PACE_S", 0.5)
                work = await there.claim(task)
                await work.settle(DONE)
                await there.service.move(task.id, forget)
                async with asyncio.timeout(20):
                    while (await stream.next()).name != "forgotten":
                        pass

    run(main())
