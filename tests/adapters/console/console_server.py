"""A console on a real socket with tasks that tests move by hand, and its users."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final
from urllib.parse import quote

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

from taskmachine.adapters.console import Console, Login, TokenLogin
from taskmachine.adapters.runtime.claims import Claim, claim
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, Surroundings
from taskmachine.adapters.stores import Caps, Store
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.auth.owners import Owners
from taskmachine.adapters.transports.auth.static_tokens import StaticTokenAuthenticator
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import Outcome, Question, Task
from tests.adapters.memory_service import DONE, Clock, call
from tests.adapters.transports.event_reader import Event, read_events
from tests.adapters.transports.loopback import serving

__all__ = [
    "ADMIN",
    "ALICE",
    "BOB",
    "TOKENS",
    "ConsoleServer",
    "Person",
    "Watching",
    "console_server",
]

SECRET: Final = b"s" * 32
ALICE, BOB, ADMIN = "token:alice", "token:bob", "token:ops"
TOKENS: Final = {
    ALICE: "alice-has-this-token-for-the-tests-1",
    BOB: "bob-has-this-token-for-the-tests-234",
    ADMIN: "admin-has-this-token-for-the-tests-5",
}
PATIENCE_S: Final = 20.0


class Person:
    """A user with a browser without JavaScript."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.AsyncClient(timeout=PATIENCE_S)

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.get(self.url + path, headers=headers)

    async def post(
        self, path: str, form: dict[str, Any] | None = None, **headers: str
    ) -> httpx.Response:
        spelled = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(self.url + path, data=form or {}, headers=spelled)

    async def sign_in(self, owner: str) -> httpx.Response:
        response = await self.post("/login", {"shown": TOKENS[owner]})
        assert response.status_code == 303, response.text
        return response

    async def form_token(self) -> str:
        """Return the form token that every page contains."""
        [token, *_] = re.findall(r'name="form_token" value="([^"]+)"', (await self.get("/")).text)
        return str(token)

    async def send(self, path: str, **fields: Any) -> httpx.Response:
        """Send a form with the right token."""
        return await self.post(path, {"form_token": await self.form_token(), **fields})

    @asynccontextmanager
    async def watching(self, path: str, **headers: str) -> AsyncIterator["Watching"]:
        spelled = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.stream("GET", self.url + path, headers=spelled) as response:
            yield Watching(response)


class Watching:
    """An open stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.text = b""
        self._chunks = response.aiter_bytes()
        self._seen = 0

    async def next(self) -> Event:
        """Return the next event."""
        async with asyncio.timeout(PATIENCE_S):
            while len(events := read_events(self.text)) <= self._seen:
                self.text += await anext(self._chunks)
        self._seen += 1
        return events[self._seen - 1]

    async def until(self, name: str, words: str = "") -> Event:
        """Return the next event of that name that contains these words."""
        while True:
            event = await self.next()
            if event.name == name and words in event.data:
                return event

    async def until_comment(self, words: bytes) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while words not in self.text:
                self.text += await anext(self._chunks)

    async def end(self) -> bytes:
        """Return the whole text after the end of the stream."""
        async with asyncio.timeout(PATIENCE_S):
            async for chunk in self._chunks:
                self.text += chunk
        return self.text


class ConsoleServer:
    """The console, and the tasks behind it.  No engine runs: tests are the workers."""

    def __init__(self, store: Store, login: Login | None, **options: Any) -> None:
        self.clock = Clock()
        numbers = count(1)
        world = Surroundings(clock=self.clock, new_id=lambda: f"task-{next(numbers):04}")
        self.store = store
        limits = Limits(Caps(live_of_owner=1_000))
        self.runtime = Runtime(
            store, Sealer(SECRET), Tools(), RuntimeConfig(limits=limits, world=world)
        )
        self.service = self.runtime.service
        written = {
            owner.removeprefix("token:"): {
                "token": token,
                "scopes": ["admin"] * (owner == ADMIN),
            }
            for owner, token in TOKENS.items()
        }
        authenticator = StaticTokenAuthenticator(Owners(SECRET), written)
        self.console = Console(self.runtime, login or TokenLogin(authenticator), **options)
        self.url = ""
        self._people: list[Person] = []

    def person(self) -> Person:
        """Return a new user without a session."""
        self._people.append(Person(self.url))
        return self._people[-1]

    async def visitor(self, owner: str) -> Person:
        person = self.person()
        await person.sign_in(owner)
        return person

    async def create(self, owner: str = ALICE, name: str = "greet", **more: Any) -> Task:
        self.clock.now += 1  # so that their order is known
        return await self.service.create(owner, call(name), **more)

    async def claim(self, task: Task) -> Claim:
        held = await claim(self.service, task.id, "w1")
        assert held is not None
        return held

    async def ended(self, owner: str = ALICE, outcome: Outcome = DONE) -> Task:
        task = await self.create(owner)
        await (await self.claim(task)).settle(outcome)
        return await self.service.get(owner, task.id)

    async def asking(self, *questions: Question, owner: str = ALICE) -> Task:
        task = await self.create(owner)
        await (await self.claim(task)).ask(list(questions))
        return await self.service.get(owner, task.id)

    async def close(self) -> None:
        for person in self._people:
            await person.client.aclose()


def page_of(task: Task) -> str:
    return f"/tasks/{quote(task.id, safe='')}"


@asynccontextmanager
async def console_server(
    store: Store | None = None, login: Login | None = None, **options: Any
) -> AsyncIterator[ConsoleServer]:
    there = ConsoleServer(store or MemoryStore(SECRET), login, **options)
    app = Starlette(routes=[Mount("/console", there.console)])
    async with serving(app) as port:
        there.url = f"http://127.0.0.1:{port}/console"
        try:
            yield there
        finally:
            await there.close()
