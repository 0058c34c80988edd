"""Both generations over HTTP, as plain JSON, through whichever replica is there.

Whatever breaks on the way is an unknown outcome, and nothing more is made of it.
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
from tests.chaos.record import Channel, Evidence, Look, Miss, Span, now
from tests.lifecycle.wire.http_client import CAPABILITIES, meta
from tests.lifecycle.wire.observations import (
    PUSHED,
    outcome_of_error,
    outcome_of_result,
    status_of,
    task_of,
)
from tests.lifecycle.wire.record import JSON, NEW, OLD, Wire

__all__ = ["UNKNOWN_TASK", "Answer", "Caller", "http_client", "look_at"]

UNKNOWN_TASK: Final = -32_602
OUT_OF_ORDER: Final = -32_603
"""The server could not do it, or does not know whether it did."""

LISTEN: Final = "subscriptions/listen"
AGREED: Final = "notifications/subscriptions/acknowledged"
CALL_S: Final = 75.0
"""Longer than any call may take."""

HASTE: Final = 0.7
"""How many of the callers give up ..."""
HASTY_S: Final = 5.0
"""... after so long: the others wait for whatever comes."""

RESUMED: Final = 0.8

_NAMED_BY: Final = {
    "tools/call": "name", "tasks/get": "taskId", "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}  # fmt: skip

Hear = Callable[[JSON], Awaitable[None]]


@attrs.frozen
class Answer:
    """What a call was told; without a message nobody knows what came of it."""

    since: int
    until: int
    message: JSON | None = None

    @property
    def result(self) -> JSON | None:
        return None if self.message is None else self.message.get("result")

    @property
    def code(self) -> int | None:
        """Of an error that says something about the call."""
        if self.message is None or "error" not in self.message:
            return None
        code: int = self.message["error"]["code"]
        return code


def http_client() -> httpx.AsyncClient:
    """For all callers together."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    return httpx.AsyncClient(timeout=httpx.Timeout(CALL_S, connect=5.0), limits=limits)


def look_at(since: int, until: int, caller: str, wire: Wire, task: JSON) -> Look:
    """A task, as a message showed it."""
    outcome = None
    if wire == NEW and "result" in task:
        outcome = outcome_of_result(task["result"])
    elif wire == NEW and "error" in task:
        outcome = outcome_of_error(task["error"])
    elif task["status"] == "cancelled":
        outcome = ("cancelled",)
    updated_ms = round(datetime.fromisoformat(task["lastUpdatedAt"]).timestamp() * 1_000)
    return Look(
        since, until, caller, wire, task["taskId"], task["status"], updated_ms, outcome,
        task.get("statusMessage"),
    )  # fmt: skip


class Caller:
    """Somebody with a token, and perhaps a session."""

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
        """The one to speak to; None: whichever is there."""
        self._fleet = fleet
        self._http = http
        self._chance = chance
        self._ids = count(1)
        self._session: str | None = None

    # --- calls -------------------------------------------------------------------------------

    async def ask(
        self, wire: Wire, method: str, params: JSON, *, hear: Hear | None = None
    ) -> Answer:
        """A request through any replica; everything that comes before its answer is heard."""
        if wire == OLD and not await self._has_session():
            return Answer(now(), now())
        if wire == NEW:
            params = {**params, "_meta": {**meta(), **params.get("_meta", {})}}
        # Nobody waits for the end of a subscription.
        span = Span(now(), method, params.get("taskId"), is_dropped=method == LISTEN)
        self.evidence.spans.append(span)
        self.evidence.counts[f"calls of {wire}"] += 1
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        headers = self._headers(wire, method, params)
        is_hasty = hear is None and self._chance.random() < HASTE
        message = None
        try:
            async with asyncio.timeout(HASTY_S if is_hasty else None):
                message = await self._answer(wire, headers, request, hear)
        except (httpx.HTTPError, ValueError) as error:
            self.evidence.counts[f"calls that broke: {type(error).__name__}"] += 1
        except TimeoutError:
            self.evidence.counts["calls that were given up"] += 1
            span.is_dropped = True
        except BaseException:
            span.is_dropped = True  # by us
            raise
        span.until = now()
        answer = Answer(span.since, span.until, self._known(message))
        self._record(wire, method, params, answer)
        return answer

    async def _answer(
        self, wire: Wire, headers: dict[str, str], request: JSON, hear: Hear | None
    ) -> JSON | None:
        """What it is told in the end.  Most streams that break are taken up again."""
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
                        if hear is not None:
                            await hear(message)
                    self._judge_status(response, wire)
                if response.status_code != 200:
                    return None
            except httpx.HTTPError:
                if last_id is None:
                    raise
            if last_id is None or self._chance.random() > RESUMED:
                return None
            self.evidence.counts["streams that were taken up again"] += 1
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

    async def tell(self, message: JSON) -> bool:
        """Something of 2025-11-25 that has no answer; whether it was accepted."""
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
        return await self.tell({"jsonrpc": "2.0", "id": id, "result": result})

    async def listen(self, hear: Hear) -> None:
        """The general stream, for as long as it lasts."""
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
                            await hear(message)
            except (httpx.HTTPError, ValueError):
                return

    async def watch(self, task_ids: list[str]) -> None:
        """`subscriptions/listen`, for as long as it lasts."""
        with self._channel("watch") as channel:

            async def hear(message: JSON) -> None:
                if message["method"] == AGREED:
                    channel.agreed |= set(message["params"]["notifications"].get("taskIds", ()))
                    channel.is_open = True
                self._pushed(channel, message)

            await self.ask(NEW, LISTEN, {"notifications": {"taskIds": task_ids}}, hear=hear)

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
            channel.pushes.append(look_at(at, at, self.owner, wire, message["params"]))

    # --- what is written down ------------------------------------------------------------------

    def _record(self, wire: Wire, method: str, params: JSON, answer: Answer) -> None:
        times, task_id = (answer.since, answer.until), params.get("taskId")
        looks = self.evidence.looks
        if answer.code == UNKNOWN_TASK and method in ("tasks/get", "tasks/result"):
            self.evidence.misses.append(Miss(answer.since, self.owner, str(task_id)))
        elif method == "tasks/result" and answer.message is not None:
            result, error = answer.result, answer.message.get("error", {})
            outcome = outcome_of_error(error) if result is None else outcome_of_result(result)
            status = status_of(outcome, wire)
            looks.append(Look(*times, self.owner, wire, str(task_id), status, None, outcome))
        elif answer.result is not None:
            for task in _tasks_in(answer.result):
                looks.append(look_at(*times, self.owner, wire, task))
                for key, request in task.get("inputRequests", {}).items():
                    words = request["params"]["message"]
                    self.evidence.asked.add((task["taskId"], key, words))

    def heard_question(self, message: JSON) -> tuple[str, str] | None:
        """The task and the key of a question, if the message is one."""
        task_id = task_of(message)
        if message.get("method") != "elicitation/create" or task_id is None:
            return None
        words = message["params"]["message"]
        key = words.rpartition("/")[2]
        self.evidence.asked.add((task_id, key, words))
        return task_id, key

    # --- on the line -----------------------------------------------------------------------------

    async def new_session(self) -> None:
        """Another one; the one before is left alone."""
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
        if not await self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"}):
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
        if self._chance.random() < 0.9:  # whoever balances the load notices soon, but not at once
            fit = [replica for replica in fit if not replica.is_stopped] or fit
        return self._chance.choice(fit or replicas)


async def _messages(response: httpx.Response) -> AsyncIterator[tuple[str | None, JSON | None]]:
    """One, or those of a stream with their ids; an id may come alone."""
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
