"""The console of the reference server: where it is mounted and who can log in."""

import re
from pathlib import Path

import httpx
import pytest

from taskmachine.adapters.server.application import ConsoleMount, make_application
from taskmachine.adapters.transports.auth.owners import Owners
from taskmachine.adapters.transports.auth.static_tokens import StaticTokenAuthenticator
from taskmachine.adapters.transports.settings import Settings, load_settings
from taskmachine.protocol.caller import Caller
from taskmachine.statemachine import ConfigurationError
from tests.adapters.memory_service import run
from tests.adapters.transports.wire import Gate, callers, serving
from tests.site.pages import blocks_of
from tests.wire_faults import server_process
from tests.wire_faults.server_process import eventually

TOKEN = "a-token-of-at-least-thirty-two-chars"


async def status(url: str, path: str, **headers: str) -> int:
    async with httpx.AsyncClient() as client:
        response = await client.get(url.removesuffix("/mcp") + path, headers=headers)
        return response.status_code


def test_console_on_loopback_requires_the_link_and_checks_the_host() -> None:
    async def main() -> None:
        async with serving(Gate().tools) as url:
            assert await status(url, "/console") == 303
            assert await status(url, "/console/login") == 200
            assert await status(url, "/console/login", host="evil.example") == 403
            async with callers(url) as [caller]:
                task_id = await caller.create("add", {"a": 1, "b": 2})
            assert await status(url, f"/console/tasks/{task_id}") == 303, "not without the link"

    run(main())


def test_root_leads_browsers_to_the_console_and_answers_others_as_before() -> None:
    async def answers(url: str, **headers: str) -> list[httpx.Response]:
        root = url.removesuffix("/mcp") + "/"
        async with httpx.AsyncClient(headers=headers) as client:
            return [await client.get(root), await client.post(root, json={})]

    async def main() -> None:
        browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
        async with serving(Gate().tools) as url:
            get, post = await answers(url, **browser)
            assert (get.status_code, get.headers["location"]) == (303, "/console/")
            others = [post, *await answers(url, accept="application/json"), *await answers(url)]
        async with serving(Gate().tools, console=False) as url:
            without = await answers(url, **browser)
        assert {(answer.status_code, answer.text) for answer in others} == {
            (answer.status_code, answer.text) for answer in without
        }
        assert without[0].status_code == 404

    run(main())


def test_console_can_be_disabled() -> None:
    async def main() -> None:
        async with serving(Gate().tools, console=False) as url:
            assert await status(url, "/console/login") == 404

    run(main())


def test_console_login_asks_for_a_token_when_tokens_are_configured(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.touch(0o600)
    tokens.write_text(f'alice = "{TOKEN}"\n')

    async def main() -> None:
        auth = {"kind": "tokens", "tokens": str(tokens)}
        async with serving(Gate().tools, auth=auth) as url, httpx.AsyncClient() as client:
            base = url.removesuffix("/mcp")
            assert "Access token" in (await client.get(f"{base}/console/login")).text
            response = await client.post(f"{base}/console/login", data={"shown": TOKEN})
            assert response.headers["location"] == "/console/"
            async with callers(url) as [caller]:
                caller.headers["authorization"] = f"Bearer {TOKEN}"
                task_id = await caller.create("add", {"a": 1, "b": 2})
            assert task_id in (await client.get(f"{base}/console/")).text

    run(main())


@pytest.mark.parametrize(
    "settings",
    [
        Settings(store="memory:", http="0.0.0.0:0", insecure=True),
        Settings(store="memory:", http="127.0.0.1:0", auth={"kind": "header"}),
        Settings(store="memory:"),
    ],
)
def test_console_is_not_mounted_without_user_authentication(settings: Settings) -> None:
    async def main() -> None:
        console = ConsoleMount()
        async with make_application(settings, Gate().tools, console=console).lifespan():
            assert console.path is None

    run(main())


def test_the_endpoint_must_not_be_below_the_console() -> None:
    for path in ("/console", "/console/mcp"):
        with pytest.raises(ConfigurationError, match="path must not be below /console"):
            load_settings(None, {}, {"path": path})
        assert load_settings(None, {}, {"path": path, "console": False}).path == path
    assert load_settings(None, {}, {"path": "/consoles"}).path == "/consoles"


def test_token_file_decides_about_scopes() -> None:
    owners = Owners(b"s" * 32)
    tokens = {
        "a": TOKEN,
        "b": {"token": TOKEN + "b", "scopes": []},
        "c": {"token": TOKEN + "c", "scopes": ["admin", "deploy"]},
    }
    authenticator = StaticTokenAuthenticator(owners, tokens)

    async def main() -> None:
        for name, end, scopes in (("a", "", ()), ("b", "b", ()), ("c", "c", ("admin", "deploy"))):
            caller = await authenticator.authenticate(f"Bearer {TOKEN}{end}")
            assert caller == Caller(owners.of_token_name(name), name, scopes=frozenset(scopes))

    run(main())
    for entry in (
        {},
        {"token": TOKEN},
        {"token": TOKEN, "scopes": ["two words"]},
        {"token": TOKEN, "scopes": [1]},
        {"token": TOKEN, "admin": True},
        {"token": TOKEN, "scopes": "admin"},
    ):
        with pytest.raises(ConfigurationError, match="'x' must be a string, or"):
            StaticTokenAuthenticator(owners, {"x": entry})
    with pytest.raises(ConfigurationError, match="must be a string"):
        StaticTokenAuthenticator(owners, {"x": {"token": 1, "scopes": []}})


def test_the_printed_link_logs_in(tmp_path: Path) -> None:
    with server_process.serving(tmp_path) as server, httpx.Client() as client:
        [link] = eventually(
            lambda: re.findall(r"console: (http://\S+/console/login\?key=\S+)", str(server.log)),
            "the link is printed",
        )
        link = link.rstrip("'\",]")
        assert client.get(link.partition("?")[0] + "?key=guessed").status_code == 403
        assert client.get(link).headers["location"] == "/console/"
        assert "all owners" in client.get(link.partition("login")[0]).text
        [block] = blocks_of("docs/howto/watch.md", "shell")
        _, *shown = block.text.splitlines()
        printed = [line for line in server.log if line.startswith("taskmachine: ")]
        assert [*map(_words, shown)] == [*map(_words, printed)]


def _words(line: str) -> str:
    """Return a printed line without the parts that differ between servers."""
    return re.sub(r"\b\d+ tools|http://[^\s,]+|sqlite:\S+", "...", line.rstrip())
