"""Requests without access reveal nothing and change nothing."""

import pytest

from taskmachine.adapters.transports.connection.lookups import Lookups
from taskmachine.statemachine import LimitExceeded, State, Task
from tests.adapters.console.console_server import (
    ADMIN,
    ALICE,
    BOB,
    ConsoleServer,
    Person,
    console_server,
)
from tests.adapters.memory_service import FORM, run

ACTIONS = ("answer", "cancel", "rerun")


async def unchanged(there: ConsoleServer, task: Task) -> bool:
    return await there.store.load(task.id) == task


def test_a_foreign_task_looks_like_one_that_does_not_exist() -> None:
    """For its page, its stream and each action, in every state."""

    async def main() -> None:
        async with console_server() as there:
            tasks = [await there.create(), await there.asking(FORM), await there.ended()]
            bob = await there.visitor(BOB)
            token = await bob.form_token()
            for task in tasks:
                for path in (f"/tasks/{task.id}", f"/tasks/{task.id}/events"):
                    theirs = await bob.get(path)
                    nobodys = await bob.get(path.replace(task.id, "x" * len(task.id)))
                    assert theirs.status_code == nobodys.status_code == 404
                    assert theirs.content == nobodys.content
                    assert theirs.headers == nobodys.headers
                for action in ACTIONS:
                    form = {"form_token": token, "key": "name", "action": "decline"}
                    theirs = await bob.post(f"/tasks/{task.id}/{action}", form)
                    nobodys = await bob.post(f"/tasks/x/{action}", form)
                    assert theirs.status_code == nobodys.status_code == 404
                    assert theirs.content == nobodys.content
                assert await unchanged(there, task)

    run(main())


def test_another_owners_tasks_are_on_no_list_and_no_stream() -> None:
    async def main() -> None:
        async with console_server() as there:
            hidden = await there.create(ALICE, "secret")
            bob = await there.visitor(BOB)
            for query in ("", "?state=live", "?tool=secret", f"?owner={ALICE}", "?size=1000"):
                listed = (await bob.get(f"/{query}")).text
                assert hidden.id not in listed
                assert "<strong>secret" not in listed
                async with bob.watching(f"/events{query}") as stream:
                    assert hidden.id not in (await stream.next()).data
            async with bob.watching("/events") as stream:
                await stream.next()
                more_hidden = await there.create(ALICE, "secret")
                await (await there.claim(hidden)).report(message="still secret")
                mine = await there.create(BOB, "mine")
                await stream.until("rows", mine.id)
                for word in (hidden.id, more_hidden.id, "secret"):
                    assert word.encode() not in stream.text

    run(main())


def test_admin_can_see_and_cancel_tasks_of_every_owner() -> None:
    async def main() -> None:
        async with console_server() as there:
            task, other = await there.create(ALICE), await there.create(BOB)
            admin = await there.visitor(ADMIN)
            listed = (await admin.get("/")).text
            assert task.id in listed
            assert other.id in listed
            assert other.id not in (await admin.get(f"/?owner={ALICE}")).text
            assert ALICE in (await admin.get(f"/tasks/{task.id}")).text
            assert (await admin.send(f"/tasks/{task.id}/cancel")).status_code == 303
            after = await there.service.get(ALICE, task.id)
            assert after.state is State.CANCELLED
            again = await admin.send(f"/tasks/{task.id}/rerun", steps="drop")
            new = await there.service.get(ALICE, again.headers["location"].rpartition("/")[2])
            assert (new.rerun_of, new.owner) == (task.id, ALICE)
            assert task.id in (await admin.get(f"/tasks/{new.id}")).text
            assert (await admin.get("/tasks/nobodys")).status_code == 404
            assert (await admin.get(f"/tasks/{'x' * 300}")).status_code == 404

    run(main())


async def refused(person: Person, task: Task, status: int, token: str, **headers: str) -> None:
    for path in (f"/tasks/{task.id}/cancel", f"/tasks/{task.id}/answer", "/logout"):
        form = {"form_token": token, "key": "name", "action": "decline"}
        response = await person.post(path, form, **headers)
        assert response.status_code == status, path
        assert "set-cookie" not in response.headers


def test_a_forged_form_changes_nothing() -> None:
    """Without a token, with a forged one, or one of another session or user."""

    async def main() -> None:
        async with console_server() as there:
            task = await there.asking(FORM)
            alice, again = await there.visitor(ALICE), await there.visitor(ALICE)
            admin = await there.visitor(ADMIN)
            right = await alice.form_token()
            forged = right[:-1] + ("A" if right[-1] != "A" else "B")
            tokens = ["", "x", "ä", forged, await again.form_token(), await admin.form_token()]
            for token in tokens:
                await refused(alice, task, 403, token)
            await refused(there.person(), task, 401, right)
            assert await unchanged(there, task)
            assert (await alice.post("/tasks/x/cancel", {"form_token": right})).status_code == 404

    run(main())


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "null"},
    ],
)
def test_a_cross_site_form_changes_nothing(headers: dict[str, str]) -> None:
    async def main() -> None:
        async with console_server() as there:
            task = await there.asking(FORM)
            alice = await there.visitor(ALICE)
            await refused(alice, task, 403, await alice.form_token(), **headers)
            assert (await there.person().post("/login", {}, **headers)).status_code == 403
            assert await unchanged(there, task)

    run(main())


def test_a_same_origin_form_is_accepted() -> None:
    async def main() -> None:
        async with console_server(public_url="http://Tasks.example/mcp") as there:
            alice = await there.visitor(ALICE)
            here = there.url.removesuffix("/console")
            for origin in (here, "http://tasks.example"):
                task = await there.create()
                form = {"form_token": await alice.form_token()}
                response = await alice.post(
                    f"/tasks/{task.id}/cancel", form, origin=origin, sec_fetch_site="same-origin"
                )
                assert response.status_code == 303

    run(main())


def test_without_a_cookie_nothing_is_shown() -> None:
    async def main() -> None:
        async with console_server() as there:
            task = await there.create(name="unseen")
            stranger = there.person()
            for path in ("/", "/events", f"/tasks/{task.id}", f"/tasks/{task.id}/events", "/x"):
                response = await stranger.get(path, authorization="Bearer x")
                assert response.status_code in (303, 401, 404)
                assert "unseen" not in response.text
            # A token of the MCP endpoint is not accepted in a header or a query.
            response = await stranger.get("/?token=alice-has-this-token-for-the-tests-1")
            assert response.status_code == 303

    run(main())


def test_forms_are_bounded() -> None:
    async def main() -> None:
        async with console_server() as there:
            alice = await there.visitor(ALICE)
            many = await alice.client.post(f"{there.url}/logout", content="a=1&" * 3_000)
            assert many.status_code == 400
            large = await alice.client.post(f"{there.url}/logout", content=b"a" * 1_100_000)
            assert large.status_code == 413
            assert (await alice.get("/")).status_code == 200

    run(main())


def test_task_lookups_are_limited() -> None:
    spent: list[str] = []

    def lookups(owner: str) -> Lookups:
        def begin() -> None:
            if len(spent) == 2:
                raise LimitExceeded("2 lookups", 1_000)
            spent.append(owner)

        return Lookups(begin, lambda: spent.append(f"{owner} missed"))

    async def main() -> None:
        async with console_server(lookups=lookups) as there:
            alice = await there.visitor(ALICE)
            assert (await alice.get("/tasks/x")).status_code == 404
            assert (await alice.get("/tasks/x")).status_code == 429
            assert spent == [ALICE, f"{ALICE} missed"]

    run(main())
