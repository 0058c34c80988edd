"""Both revisions over HTTP as plain JSON, through a random replica that is up.

A broken connection is recorded as an unknown outcome.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from itertools import count
from typing import Any, Final

import attrs
import httpx

from tests.chaos.fleet import OWNERS, Fleet, Member
from tests.chaos.record import Channel, Evidence, Miss, Observation, Span, now
from tests.lifecycle.wire.http_client import CAPABILITIES, meta
from tests.lifecycle.wire.observations import (
    PUSHED,
    outcome_of_error,
    outcome_of_result,
    status_of,
    task_of,
)
from tests.lifecycle.wire.record import JSON, NEW, OLD, Wire

__all__ = ["UNKNOWN_TASK", "Answer", "Caller", "http_client", "observation_of"]

UNKNOWN_TASK: Final = -32_602
OUT_OF_ORDER: Final = -32_603
"""The server failed, or does not know whether it succeeded."""

LISTEN: Final = "subscriptions/listen"
AGREED: Final = "notifications/subscriptions/acknowledged"
CALL_S: Final = 75.0
"""Longer than any call may take."""

ABANDONED: Final = 0.7
"""Share of the calls that are abandoned after `ABANDONED_AFTER_S`; the rest wait."""
ABANDONED_AFTER_S: Final = 5.0

RESUMED: Final = 0.8

_NAMED_BY: Final = {
    "tools/call": "name", "tasks/get": "taskId", "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}  # fmt: skip

OnMessage = Callable[[JSON], Awaitable[None]]


@attrs.frozen
class Answer:
    """The response to a call; without a message the outcome is unknown."""

    since: int
    until: int
    message: JSON | None = None

    @property
    def result(self) -> JSON | None:
        return None if self.message is None else self.message.get("result")

    @property
    def code(self) -> int | None:
        """The code of the error response, if it is one."""
        if self.message is None or "error" not in self.message:
            return None
        code: int = self.message["error"]["code"]
        return code


def http_client() -> httpx.AsyncClient:
    """Return the HTTP client that all callers share."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    return httpx.AsyncClient(timeout=httpx.Timeout(CALL_S, connect=5.0), limits=limits)


def observation_of(since: int, until: int, caller: str, wire: Wire, task: JSON) -> Observation:
    """Return the observation of a task in a message."""
    outcome = None
    if wire == NEW and "result" in task:
        outcome = outcome_of_result(task["result"])
    elif wire == NEW and "error" in task:
        outcome = outcome_of_error(task["error"])
    elif task["status"] == "cancelled":
        outcome = ("cancelled",)
    updated_ms = round(datetime.fromisoformat(task["lastUpdatedAt"]).timestamp() * 1_000)
    return Observation(
        since, until, caller, wire, task["taskId"], task["status"], updated_ms, outcome,
        task.get("statusMessage"),
    )  # fmt: skip


class Caller:
    """A client with a token and, in 2025-11-25, a session."""

    def __init__(
        self,
        owner: str,
        fleet: Fleet,
        evidence: Evidence,
        http: httpx.AsyncClient,
        chance: random.Random,
    ) -> None:
        self.owner = owner
        self.evidence = evidence
        self.replica: Member | None = None
        """The replica to call; None for a random one that is up."""
        self._fleet = fleet
        self._http = http
        self._chance = chance
        self._ids = count(1)
        self._session: str | None = None

    # --- calls -------------------------------------------------------------------------------

    async def ask(
        self, wire: Wire, method: str, params: JSON, on_message: OnMessage | None = None
    ) -> Answer:
        """Send a request; `on_message` gets the messages that precede the response."""
        if wire == OLD and not await self._has_session():
            return Answer(now(), now())
        if wire == NEW:
            params = {**params, "_meta": {**meta(), **params.get("_meta", {})}}
        # A subscription has no bound.
        span = Span(now(), method, params.get("taskId"), is_dropped=method == LISTEN)
        self.evidence.spans.append(span)
        self.evidence.counts[f"calls of {wire}"] += 1
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        headers = self._headers(wire, method, params)
        is_impatient = on_message is None and self._chance.random() < ABANDONED
        message = None
        try:
            async with asyncio.timeout(ABANDONED_AFTER_S if is_impatient else None):
                message = await self._answer(wire, headers, request, on_message)
        except (httpx.HTTPError, ValueError) as error:
            self.evidence.counts[f"failed calls: {type(error).__name__}"] += 1
        except TimeoutError:
            self.evidence.counts["abandoned calls"] += 1
            span.is_dropped = True
        except BaseException:
            span.is_dropped = True  # the caller was cancelled
            raise
        span.until = now()
        answer = Answer(span.since, span.until, self._known(message))
        self._record(wire, method, params, answer)
        return answer

    async def _answer(
        self, wire: Wire, headers: dict[str, str], request: JSON, on_message: OnMessage | None
    ) -> JSON | None:
        """Return the response; resume most of the streams that break."""
        verb, body, last_id = "POST", json.dumps(request).encode(), None
        while True:
            try:
                async with self._sent(verb, headers, body) as response:
                    async for event_id, message in _messages(response):
                        last_id = event_id or last_id
                        if message is None:
                            continue
                        if "method" not in message:
                            self._judge_status(response, wire)
                            return message
                        if on_message is not None:
                            await on_message(message)
                    self._judge_status(response, wire)
                if response.status_code != 200:
                    return None
            except httpx.HTTPError:
                if last_id is None:
                    raise
            if last_id is None or self._chance.random() > RESUMED:
                return None
            self.evidence.counts["resumed streams"] += 1
            await asyncio.sleep(self._chance.uniform(0.05, 0.5))
            verb, body = "GET", b""
            headers = headers | {"Accept": "text/event-stream", "Last-Event-ID": last_id}

    def _known(self, message: JSON | None) -> JSON | None:
        if message is None:
            return None
        if "error" in message and message["error"]["code"] == OUT_OF_ORDER:
            self.evidence.counts[f"refused: {message['error']['message']:.60}"] += 1
            return None
        return message

    def _judge_status(self, response: httpx.Response, wire: Wire) -> None:
        status = response.status_code
        if status not in (200, 202):
            self.evidence.counts[f"answered by HTTP {status}"] += 1
        if status == 404 and wire == OLD:
            self.evidence.complaints.append(f"a session of {self.owner} was lost")
            self._session = None
        elif status not in (200, 202, 400) and status < 500:
            self.evidence.complaints.append(f"HTTP {status} on {wire}")

    async def send(self, message: JSON) -> bool:
        """Send a notification or response of 2025-11-25; return whether it was accepted."""
        try:
            async with self._sent(
                "POST", self._headers(OLD, "", {}), json.dumps(message).encode()
            ) as response:
                await response.aread()
                self._judge_status(response, OLD)
                return response.status_code == 202
        except httpx.HTTPError:
            return False

    async def reply(self, id: Any, result: JSON) -> bool:
        """Answer a request of the server."""
        return await self.send({"jsonrpc": "2.0", "id": id, "result": result})

    async def listen(self, on_message: OnMessage) -> None:
        """Read the GET stream until it ends."""
        if not await self._has_session():
            return
        headers = self._headers(OLD, "", {}) | {"Accept": "text/event-stream"}
        with self._channel("general") as channel:
            try:
                async with self._sent("GET", headers, b"") as response:
                    self._judge_status(response, OLD)
                    channel.is_open = response.status_code == 200
                    async for _, message in _messages(response):
                        if message is not None:
                            self._pushed(channel, message)
                            await on_message(message)
            except (httpx.HTTPError, ValueError):
                return

    async def watch(self, task_ids: list[str]) -> None:
        """Read a `subscriptions/listen` stream until it ends."""
        with self._channel("watch") as channel:

            async def on_message(message: JSON) -> None:
                if message["method"] == AGREED:
                    channel.agreed |= set(message["params"]["notifications"].get("taskIds", ()))
                    channel.is_open = True
                self._pushed(channel, message)

            await self.ask(NEW, LISTEN, {"notifications": {"taskIds": task_ids}}, on_message)

    @contextmanager
    def _channel(self, kind: str) -> Iterator[Channel]:
        channel = Channel(self.owner, kind, now())
        self.evidence.channels.append(channel)
        try:
            yield channel
        finally:
            channel.closed = now()

    def _pushed(self, channel: Channel, message: JSON) -> None:
        wire: Wire | None = PUSHED.get(message.get("method", ""))  # type: ignore[assignment]
        if wire is not None:
            self.evidence.counts["notifications"] += 1
            at = now()
            channel.pushes.append(observation_of(at, at, self.owner, wire, message["params"]))

    # --- recording -----------------------------------------------------------------------------

    def _record(self, wire: Wire, method: str, params: JSON, answer: Answer) -> None:
        times, task_id = (answer.since, answer.until), params.get("taskId")
        add = self.evidence.observations.append
        if answer.code == UNKNOWN_TASK and method in ("tasks/get", "tasks/result"):
            self.evidence.misses.append(Miss(answer.since, self.owner, str(task_id)))
        elif method == "tasks/result" and answer.message is not None:
            result, error = answer.result, answer.message.get("error", {})
            outcome = outcome_of_error(error) if result is None else outcome_of_result(result)
            status = status_of(outcome, wire)
            add(Observation(*times, self.owner, wire, str(task_id), status, None, outcome))
        elif answer.result is not None:
            for task in _tasks_in(answer.result):
                add(observation_of(*times, self.owner, wire, task))
                for key, request in task.get("inputRequests", {}).items():
                    words = request["params"]["message"]
                    self.evidence.asked.add((task["taskId"], key, words))

    def question_in(self, message: JSON) -> tuple[str, str] | None:
        """Record a question and return its task and key; None for other messages."""
        task_id = task_of(message)
        if message.get("method") != "elicitation/create" or task_id is None:
            return None
        words = message["params"]["message"]
        key = words.rpartition("/")[2]
        self.evidence.asked.add((task_id, key, words))
        return task_id, key

    # --- HTTP ------------------------------------------------------------------------------------

    async def new_session(self) -> None:
        """Begin a new session without ending the previous one."""
        self._session = None
        await self._has_session()

    async def _has_session(self) -> bool:
        if self._session is not None:
            return True
        hello = {
            "protocolVersion": OLD, "capabilities": CAPABILITIES,
            "clientInfo": {"name": "chaos", "version": "1"},
        }  # fmt: skip
        request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        try:
            headers = self._headers(OLD, "initialize", {})
            async with self._sent("POST", headers, json.dumps(request).encode()) as response:
                await response.aread()
        except httpx.HTTPError:
            return False
        session = response.headers.get("mcp-session-id")
        if response.status_code != 200 or session is None:
            return False
        self._session = session
        if not await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"}):
            self._session = None
            return False
        self.evidence.counts["sessions"] += 1
        return True

    def _headers(self, wire: Wire, method: str, params: JSON) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {OWNERS[self.owner]}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if wire == NEW:
            headers |= {"MCP-Protocol-Version": NEW, "Mcp-Method": method}
            if method in _NAMED_BY:
                headers["Mcp-Name"] = str(params[_NAMED_BY[method]])
        elif method != "initialize":
            headers |= {"MCP-Protocol-Version": OLD, "Mcp-Session-Id": self._session or ""}
        return headers

    @asynccontextmanager
    async def _sent(
        self, verb: str, headers: dict[str, str], body: bytes
    ) -> AsyncIterator[httpx.Response]:
        url = f"http://127.0.0.1:{self._replica().port}/mcp"
        async with self._http.stream(verb, url, headers=headers, content=body) as response:
            yield response

    def _replica(self) -> Member:
        if self.replica is not None:
            return self.replica
        replicas = self._fleet.replicas
        fit = [replica for replica in replicas if replica.is_ready]
        if self._chance.random() < 0.9:  # a load balancer takes a moment to notice
            fit = [replica for replica in fit if not replica.is_stopped] or fit
        return self._chance.choice(fit or replicas)


async def _messages(response: httpx.Response) -> AsyncIterator[tuple[str | None, JSON | None]]:
    """Yield the JSON body or the events of a stream; ids and messages come separately."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        body = await response.aread()
        if body:
            yield None, json.loads(body)
        return
    async for line in response.aiter_lines():
        field, _, value = line.partition(":")
        if field == "id":
            yield value.strip(), None
        elif field == "data" and value.strip():
            yield None, json.loads(value)


def _tasks_in(result: JSON) -> list[JSON]:
    if "tasks" in result:
        tasks: list[JSON] = result["tasks"]
        return tasks
    if "task" in result:
        return [result["task"]]
    return [result] if "taskId" in result and "status" in result else []
