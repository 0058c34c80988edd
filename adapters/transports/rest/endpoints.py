"""Plain HTTP endpoints beside MCP, for browsers and scripts that read a task or wait for it.

They are read-only.  The transport authenticates callers and checks origins.  Documentation for
callers: docs/reference/http.md and `/openapi.json`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from taskmachine.adapters.rendering.waiting import waiting_text
from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.transports.rest import openapi, problems
from taskmachine.adapters.transports.rest.entity_tags import (
    decode_if_none_match,
    encode_tag,
    is_known,
)
from taskmachine.adapters.transports.rest.events import TaskEvents, has_seen
from taskmachine.adapters.transports.rest.long_polls import WAITERS, LongPolls, decode_timeout
from taskmachine.protocol.dialects.mcp_2026_07_28.messages import DIALECT
from taskmachine.protocol.dialects.mcp_2026_07_28.receiver import encode_task
from taskmachine.protocol.dialects.receiver import poll_interval_ms
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.protocol.timestamps import encode_timestamp
from taskmachine.statemachine import LimitExceeded, NotFound, Task

__all__ = ["Identify", "OnLookup", "task_routes"]

Identify = Callable[[Request], Awaitable[str]]
"""Returns the owner of a request.  Its exceptions are not handled here."""

OnLookup = Callable[[str, bool], None]
"""Called after each lookup with owner and whether it found a task; may raise `LimitExceeded`."""

HEALTH_S: Final = 1.0

_Answer = Callable[[Request], Awaitable[ASGIApp | None]]


def task_routes(
    runtime: Runtime,
    identify: Identify,
    *,
    keep_alive_s: float = 15.0,
    waiters_per_task: int = WAITERS,
    on_lookup: OnLookup = lambda owner, is_found: None,
    needs_token: bool = False,
) -> list[Route]:
    """Create the routes; with `needs_token` the OpenAPI document requires a bearer token.

    Middleware must pass on `http.disconnect`, by which they detect that a waiting caller left.
    """
    endpoints = _Endpoints(
        runtime, identify, LongPolls(runtime.service, waiters_per_task), keep_alive_s, on_lookup
    )
    document = openapi.document(needs_token=needs_token)

    async def describe(_: Request) -> Response:
        return problems.answer(200, document)

    answers: dict[str, _Answer] = {
        openapi.TASK.name: endpoints.task,
        openapi.POLL.name: endpoints.poll,
        openapi.EVENTS.name: endpoints.events,
        openapi.HEALTH.name: endpoints.health,
        openapi.OPENAPI.name: describe,
    }
    return [
        Route(endpoint.path, _ReadOnly(answers[endpoint.name]), name=endpoint.name)
        for endpoint in openapi.ENDPOINTS
    ]


@attrs.frozen
class _ReadOnly:
    """An ASGI application for one path; Starlette's own errors are not JSON."""

    answer: _Answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in ("GET", "HEAD"):
            response = await self._respond(Request(scope, receive))
        else:
            response = problems.METHOD_NOT_ALLOWED.response({"Allow": "GET, HEAD"})
        if response is not None:
            await response(scope, receive, send)

    async def _respond(self, request: Request) -> ASGIApp | None:
        """Return the response, or None if the caller has disconnected."""
        try:
            return await self.answer(request)
        except NotFound:
            return problems.TASK_NOT_FOUND.response()
        except LimitExceeded as error:
            return problems.limit_reached(error)
        except StoreError:
            return problems.STORE_UNAVAILABLE.response()


@attrs.frozen
class _Endpoints:
    runtime: Runtime
    identify: Identify
    polls: LongPolls
    keep_alive_s: float
    on_lookup: OnLookup

    async def task(self, request: Request) -> ASGIApp:
        owner = await self.identify(request)
        try:
            known = decode_if_none_match(request.headers.getlist("If-None-Match"))
        except ValueError:
            return problems.BAD_IF_NONE_MATCH.response()
        task = await self._look_up(owner, request)
        return _nothing_new(304, task) if is_known(task, known) else self._shown(task)

    async def poll(self, request: Request) -> ASGIApp | None:
        owner = await self.identify(request)
        try:
            known = decode_if_none_match(request.headers.getlist("If-None-Match"))
        except ValueError:
            return problems.BAD_IF_NONE_MATCH.response()
        try:
            timeout_s = decode_timeout(request.query_params.getlist("timeout"))
        except ValueError:
            return problems.BAD_TIMEOUT.response()
        task = await self._look_up(owner, request)
        if known and not is_known(task, known):
            return self._shown(task)
        if task.is_terminal:
            return _nothing_new(304, task) if known else self._shown(task)
        newest = await self.polls.wait(owner, task, timeout_s, request.receive)
        if newest is None:
            return None
        if newest.version > task.version:
            return self._shown(newest)
        return _nothing_new(304 if known else 204, newest)

    async def events(self, request: Request) -> ASGIApp:
        owner = await self.identify(request)
        task = await self._look_up(owner, request)
        last_event_id = request.headers.get("Last-Event-ID")
        if task.is_terminal and has_seen(last_event_id, task):
            # A browser reconnects when a stream ends, unless it gets status 204.
            return _nothing_new(204, task)
        subscription = await self.runtime.subscriptions.subscribe(owner, [task.id])
        if not subscription.known:
            subscription.close()
            raise NotFound(task.id)
        return TaskEvents(
            subscription, self._body, last_event_id=last_event_id, keep_alive_s=self.keep_alive_s
        )

    async def health(self, _: Request) -> ASGIApp:
        try:
            async with asyncio.timeout(HEALTH_S):
                await self.runtime.service.store.load("healthz")  # one cheap read
        except TimeoutError:
            return problems.STORE_UNAVAILABLE.response()
        return problems.answer(200, {"status": "ok"})

    async def _look_up(self, owner: str, request: Request) -> Task:
        try:
            task = await self.runtime.service.get(owner, request.path_params["taskId"])
        except NotFound:
            self.on_lookup(owner, False)
            raise
        self.on_lookup(owner, True)
        return task

    def _shown(self, task: Task) -> Response:
        return problems.answer(200, self._body(task), {"ETag": encode_tag(task)})

    def _body(self, task: Task) -> JSONObject:
        """Return the task as in `notifications/tasks`: `tasks/get` without its resultType.

        A task that sleeps says so if its tool has set no message.
        """
        interval = poll_interval_ms(task, self.runtime.service.clock())
        body = DIALECT.shapes.encode(encode_task(task, interval))
        del body["resultType"]
        waiting = waiting_text(task, encode_timestamp)
        if waiting is not None and task.message is None:
            body["statusMessage"] = f"The task {waiting}."
        return body


def _nothing_new(status: int, task: Task) -> Response:
    headers = {"ETag": encode_tag(task), "Cache-Control": problems.NO_STORE}
    return Response(status_code=status, headers=headers)
