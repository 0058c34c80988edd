"""Login by a token or a link, sessions and logout."""

import re
from http.cookies import SimpleCookie

import httpx
import pytest

from taskmachine.adapters.console import LinkLogin, TokenLogin
from taskmachine.adapters.console.browser_sessions import LONGEST_MS
from taskmachine.adapters.console.login import login_for
from taskmachine.adapters.transports.auth.authentication import (
    HeaderAuthenticator,
    KeysUnavailable,
)
from taskmachine.adapters.transports.auth.owners import Owners
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.sealing import BrowserSession, Sealer
from tests.adapters.console.console_server import ADMIN, ALICE, SECRET, TOKENS, console_server
from tests.adapters.memory_service import run


def cookie_of(response: httpx.Response) -> tuple[str, SimpleCookie]:
    cookie = SimpleCookie(response.headers["set-cookie"])
    [name] = cookie
    return name, cookie


def test_a_token_is_exchanged_for_a_cookie_that_does_not_contain_it() -> None:
    async def main() -> None:
        async with console_server() as there:
            person = there.person()
            assert (await person.get("/")).headers["location"] == "/console/login"
            assert "Access token" in (await person.get("/login")).text
            response = await person.sign_in(ALICE)
            assert response.headers["location"] == "/console/"
            name, cookie = cookie_of(response)
            morsel = cookie[name]
            assert morsel["httponly"]
            assert morsel["samesite"] == "strict"
            assert morsel["path"] == "/console"
            assert not morsel["secure"]
            assert int(morsel["max-age"]) == LONGEST_MS // 1_000
            assert TOKENS[ALICE] not in response.headers["set-cookie"]
            visit = Sealer(SECRET).open_browser_session(morsel.value, there.clock.now)
            assert visit is not None
            assert (visit.owner, visit.is_admin) == (ALICE, False)
            assert "Sign out" in (await person.get("/")).text
            # A signed-in user is redirected.
            assert (await person.get("/login")).headers["location"] == "/console/"

    run(main())


def test_a_wrong_token_is_refused_with_words_and_no_cookie() -> None:
    async def main() -> None:
        async with console_server() as there:
            person = there.person()
            for shown in ("", "guessed" * 9, "<script>alert(1)</script>", "ä"):
                response = await person.post("/login", {"shown": shown})
                assert response.status_code == 403
                assert "Login refused: " in response.text
                assert "<script>alert" not in response.text
                assert "set-cookie" not in response.headers
            assert (await person.get("/")).status_code == 303

    run(main())


def test_a_cookie_is_for_https_only_where_that_is_spoken() -> None:
    async def main() -> None:
        async with console_server(public_url="https://tasks.example/mcp") as there:
            name, cookie = cookie_of(await there.person().sign_in(ALICE))
            assert cookie[name]["secure"]

    run(main())


def test_console_shows_all_owners_only_with_an_admin_token() -> None:
    async def main() -> None:
        async with console_server() as there:
            assert "all owners" in (await (await there.visitor(ADMIN)).get("/")).text
            assert "your tasks" in (await (await there.visitor(ALICE)).get("/")).text

    run(main())


def test_a_session_ends() -> None:
    """After a working day, or by a logout."""

    async def main() -> None:
        async with console_server() as there:
            person = await there.visitor(ALICE)
            there.clock.now += LONGEST_MS - 1
            assert (await person.get("/")).status_code == 200
            there.clock.now += 1
            assert (await person.get("/")).status_code == 303
            assert (await person.get("/events")).status_code == 401
            assert (await person.post("/logout")).status_code == 401
            await person.sign_in(ALICE)
            left = await person.send("/logout")
            assert left.headers["location"] == "/console/login"
            assert "Max-Age=0" in left.headers["set-cookie"]
            assert (await person.get("/")).status_code == 303

    run(main())


class Brief:
    """Admits every credential until a given time."""

    asks_for = hint = ""

    def __init__(self, until: float) -> None:
        self.until = until

    async def admit(self, shown: str) -> Caller:
        if shown == "unverifiable":
            raise KeysUnavailable(5_000)
        return Caller("alice", claims={"exp": self.until})


def test_a_session_ends_with_its_token() -> None:
    async def main() -> None:
        login = Brief(1_700_000_060.0005)
        async with console_server(login=login) as there:
            person = there.person()
            name, cookie = cookie_of(await person.post("/login", {"shown": "x"}))
            assert cookie[name]["max-age"] == "60"
            there.clock.now += 60_000
            assert (await person.get("/")).status_code == 303
            response = await person.post("/login", {"shown": "unverifiable"})
            assert response.status_code == 503

    run(main())


def test_the_link_works_only_with_its_key() -> None:
    async def main() -> None:
        login = LinkLogin()
        assert len(login.key) >= 43
        async with console_server(login=login) as there:
            task = await there.create()
            person = there.person()
            assert "printed a link" in (await person.get("/login")).text
            for key in ("", "x", login.key[:-1], "ä"):
                assert (await person.get(f"/login?key={key}")).status_code == 403
            response = await person.get(f"/login?key={login.key}")
            assert response.status_code == 303
            assert response.headers["location"] == "/console/"
            shown = (await person.get("/")).text
            assert "all owners" in shown
            assert task.id in shown

    run(main())


def test_a_login_redirects_to_the_wanted_task_only() -> None:
    async def main() -> None:
        async with console_server() as there:
            task = await there.create()
            person = there.person()
            asked = await person.get(f"/tasks/{task.id}")
            assert asked.headers["location"] == f"/console/login?next=tasks%2F{task.id}"
            assert (
                f'value="tasks/{task.id}"'
                in (await person.get(f"/login?next=tasks%2F{task.id}")).text
            )
            for place, there_then in (
                (f"tasks/{task.id}", f"/console/tasks/{task.id}"),
                ("//evil.example", "/console/"),
                ("https://evil.example", "/console/"),
                ("tasks/../../x", "/console/"),
                ("tasks/x\r\nset-cookie: a=b", "/console/"),
            ):
                form = {"shown": TOKENS[ALICE], "next": place}
                response = await there.person().post("/login", form)
                assert response.headers["location"] == there_then

    run(main())


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "x",
        "A" * 5_000,
        Sealer(b"t" * 32).seal_browser_session(BrowserSession("v", ALICE, True, 2**52)),
        Sealer(SECRET).seal_form(BrowserSession("v", ALICE, True, 2**52)),
        Sealer(SECRET).seal_browser_session(BrowserSession("v", ALICE, True, 1)),
    ],
)
def test_forged_and_expired_cookies_are_refused(cookie: str) -> None:
    async def main() -> None:
        async with console_server() as there:
            person = there.person()
            name = cookie_of(await there.person().sign_in(ALICE))[0]
            for path, status in (("/", 303), ("/events", 401), ("/tasks/x", 303)):
                response = await person.get(path, cookie=f"{name}={cookie}")
                assert response.status_code == status

    run(main())


def test_two_servers_on_one_machine_have_cookies_of_different_names() -> None:
    async def main() -> None:
        async with console_server() as there:
            name = cookie_of(await there.person().sign_in(ALICE))[0]
            assert re.fullmatch(r"taskmachine_[a-z0-9_-]{8}", name)
            other = there.console._browser_sessions.__class__(Sealer(b"t" * 32), there.clock)
            assert other.cookie != name

    run(main())


def test_there_is_a_login_only_if_users_can_be_authenticated() -> None:
    owners = Owners(SECRET)
    assert isinstance(login_for(None, is_local=True), LinkLogin)
    assert login_for(None, is_local=False) is None
    assert login_for(HeaderAuthenticator(owners), is_local=True) is None


def test_a_token_login_uses_the_authenticator_of_the_server() -> None:
    class Heard:
        async def authenticate(self, authorization: str | None) -> Caller:
            assert authorization == "Bearer abc"
            return Caller("alice")

    authenticator = Heard()
    assert isinstance(login_for(authenticator, is_local=False), TokenLogin)
    assert run(TokenLogin(authenticator).admit(" abc\n")) == Caller("alice")
