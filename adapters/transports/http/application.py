"""The server over HTTP: an ASGI application, and uvicorn to run it.

application = Application(Settings(tools="demo"))
app = Starlette(routes=[Mount("/tools", application)], lifespan=application.lifespan)
"""

import asyncio
import logging
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final

import attrs
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import Receive, Scope, Send

from taskmachine.adapters.runtime.observer import Observer
from taskmachine.adapters.runtime.runtime import Runtime, open_runtime
from taskmachine.adapters.stores.supervision import run_periodically
from taskmachine.adapters.tools.loading import load_tools
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.auth.authentication import (
    Authenticator,
    KeysUnavailable,
    Unauthorized,
    authenticator_from,
)
from taskmachine.adapters.transports.auth.owners import ANONYMOUS, Owners
from taskmachine.adapters.transports.auth.protected_resource import (
    challenge,
    metadata,
    metadata_paths,
    metadata_url,
)
from taskmachine.adapters.transports.connection.lookups import Lookups
from taskmachine.adapters.transports.http.asgi import Refusal, headers_of, respond
from taskmachine.adapters.transports.http.bounded_protocol import bounded_protocol
from taskmachine.adapters.transports.http.endpoint import Endpoint
from taskmachine.adapters.transports.http.origins import Origins
from taskmachine.adapters.transports.http.rates import Rates
from taskmachine.adapters.transports.rest.endpoints import task_routes
from taskmachine.adapters.transports.settings import Settings
from taskmachine.protocol import receivers
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from taskmachine.statemachine import ConfigurationError

__all__ = ["Application", "MountOn", "Site", "run_application"]

log: Final = logging.getLogger("taskmachine")

TIDY_S: Final = 60.0
"""Maximum time between two maintenance runs for sessions."""

GRACE_S: Final = 5
"""How long pending requests may take when the server stops."""

_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")

_ADDRESS: ContextVar[str] = ContextVar("address")
"""The client's address of the current request."""


@attrs.frozen
class Site:
    """The parts of an application that its mounts, such as the console, may use."""

    runtime: Runtime
    settings: Settings
    is_local: bool
    authenticator: Authenticator | None
    authenticated: Callable[[Request], Awaitable[str | None]]
    """Return a request's owner, or None without authentication; refuses a bad token."""
    lookups: Callable[[str], Lookups]


MountOn = Callable[[Site], Sequence[BaseRoute]]
"""Creates routes to serve beside the MCP endpoint, once the runtime is open."""


class Application:
    """The MCP endpoint and the helper endpoints with access control, as an ASGI application.

    `lifespan` opens the runtime; outside of it every request gets status 503.
    """

    def __init__(
        self,
        settings: Settings,
        tools: Tools | None = None,
        *,
        mounts: Sequence[MountOn] = (),
        observer: Observer | None = None,
    ) -> None:
        self._settings = settings
        self._tools = tools
        self._mounts = mounts
        self._observer = observer
        self._running: _Running | None = None
        self._is_ending = False

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Open the runtime and serve; for the application in which this one is mounted."""
        settings = self._settings
        tools = load_tools(settings.tools) if self._tools is None else self._tools
        async with (
            open_runtime(settings.store, tools, settings.runtime_config(self._observer)) as runtime,
            self.serving(runtime),
        ):
            yield

    @asynccontextmanager
    async def serving(self, runtime: Runtime) -> AsyncIterator[None]:
        """Serve the tasks of a runtime that the caller has opened."""
        owners = Owners(await runtime.service.store.secret())
        running = self._running = _Running(runtime, self._settings, owners, self._mounts)
        poll_replicas = running.endpoint.sessions.poll_replicas
        loops = [
            asyncio.create_task(run_periodically("session maintenance", running.tidy)),
            asyncio.create_task(
                run_periodically("polling of other replicas' changes", poll_replicas)
            ),
        ]
        try:
            yield
        finally:
            self._running = None
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await running.endpoint.close()

    async def end_streams(self) -> None:
        """End all streams and waiting requests before the server stops."""
        self._is_ending = True
        if self._running is not None:
            await self._running.end_waits()
            await self._running.endpoint.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the ASGI scope {scope['type']} is not supported; use `lifespan`")
        try:
            if self._running is None:
                raise Refusal(503, INTERNAL_ERROR, "Internal error: the server is not running")
            await self._running.serve(scope, receive, send)
        except Refusal as refusal:
            await respond(send, refusal.status, refusal.body(), refusal.headers)
        except asyncio.CancelledError:  # the server stops, see `end_waits`
            if not self._is_ending:
                raise
            await _break_off(send)
        except Exception:  # no traceback reaches a caller, whatever ASGI server is used
            log.exception("a request failed")
            with suppress(RuntimeError):  # the response has begun: it is cut off
                await respond(send, 500, Refusal(500, INTERNAL_ERROR, "Internal error").body())


class _Running:
    """The application while it serves a runtime."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        owners: Owners,
        mounts: Sequence[MountOn],
    ) -> None:
        transport = settings.transport
        self._waiting: set[asyncio.Task[Any]] = set()
        self._path = settings.path
        self._public_url = settings.public_url
        self._auth = settings.auth
        self._session_idle_s = transport.session_idle_s
        self._authenticator = authenticator_from(settings.auth, owners)
        self._rates = Rates(transport.lookups_per_second, transport.lookups_burst, time.monotonic)
        # Without authentication a caller can get any number of owners, but not of addresses.
        self._of_address = Lookups(
            lambda: self._rates.spend(_ADDRESS.get()), lambda: self._rates.miss(_ADDRESS.get())
        )
        is_local = settings.http is not None and settings.is_local
        self._origins = Origins(settings.origins, is_local=is_local, public_url=settings.public_url)
        self.endpoint = Endpoint(
            runtime,
            owners,
            transport,
            receivers(settings.dialect),
            caller_of=None if self._authenticator is None else self._caller_of,
            lookups=self._lookups,
        )
        site = Site(
            runtime,
            settings,
            is_local=is_local,
            authenticator=self._authenticator,
            authenticated=self._authenticated,
            lookups=self._lookups,
        )
        self._others = Router(
            [
                *(route for mount in mounts for route in mount(site)),
                *task_routes(
                    runtime,
                    self._identify,
                    keep_alive_s=transport.keep_alive_s,
                    waiters_per_task=transport.waiters_per_task,
                    on_lookup=self._on_lookup,
                    needs_token=self._authenticator is not None,
                ),
                *(
                    Route(path, self._metadata)
                    for path in metadata_paths(settings.path)
                    if settings.auth.get("kind") == "jwt"
                ),
            ],
            redirect_slashes=False,
            default=_not_found,
        )

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers = headers_of(scope)
        forbidden = self._origins.refusal(headers.get("host"), headers.get("origin"))
        if forbidden is not None:
            raise Refusal(403, INVALID_REQUEST, forbidden)
        client = scope.get("client")
        _ADDRESS.set("" if client is None else client[0])
        path, root = scope["path"], scope.get("root_path", "")
        if root and path.startswith(root):  # mounted in another application
            path = path[len(root) :]
        if path != self._path:
            with self._may_wait():
                await self._others(scope, receive, send)
            return
        try:
            await self.endpoint(scope, headers, receive, send)
        except Unauthorized as error:
            raise self._refusal(scope, headers, error) from None

    @contextmanager
    def _may_wait(self) -> Iterator[None]:
        waiting = asyncio.current_task()
        assert waiting is not None, "requests are served by tasks"
        self._waiting.add(waiting)
        try:
            yield
        finally:
            self._waiting.discard(waiting)

    async def end_waits(self) -> None:
        """End the requests that wait for a task at the helper endpoints."""
        waiting = list(self._waiting)
        for request in waiting:
            request.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def tidy(self) -> float:
        """Close unused sessions and refresh the others; return seconds until the next run."""
        await self.endpoint.sessions.close_unused()
        await self.endpoint.sessions.refresh_used()
        return min(TIDY_S, self._session_idle_s / 4)

    # --- authentication ----------------------------------------------------------------------

    async def _caller_of(self, headers: Mapping[str, str]) -> Caller | None:
        if self._authenticator is None:
            return None
        try:
            return await self._authenticator.authenticate(headers.get("authorization"))
        except KeysUnavailable as error:
            log.error("token verification is unavailable: %s", error)
            why = "Internal error: tokens cannot be verified now, try again"
            raise Refusal(503, INTERNAL_ERROR, why, [(b"retry-after", b"5")]) from None

    async def _authenticated(self, request: Request) -> str | None:
        headers = headers_of(request.scope)
        try:
            caller = await self._caller_of(headers)
        except Unauthorized as error:
            raise self._refusal(request.scope, headers, error) from None
        return None if caller is None else caller.owner

    async def _identify(self, request: Request) -> str:
        headers = headers_of(request.scope)
        owner = await self._authenticated(request)
        session_id = headers.get("mcp-session-id")
        if owner is None and session_id is not None:
            return (await self.endpoint.sessions.find(session_id, None)).owner
        owner = owner or ANONYMOUS
        self._lookups(owner).begin()
        return owner

    def _refusal(self, scope: Scope, headers: Mapping[str, str], error: Unauthorized) -> Refusal:
        where = None
        if self._auth.get("kind") == "jwt":
            where = metadata_url(self._resource_url(scope, headers))
        value = challenge(where, error, self._auth.get("scopes", ()))
        return Refusal(
            error.status,
            INVALID_REQUEST,
            f"Unauthorized: {error.description}",
            [(b"www-authenticate", value.encode())],
        )

    async def _metadata(self, request: Request) -> Response:
        resource = self._resource_url(request.scope, headers_of(request.scope))
        document = metadata(resource, [self._auth["issuer"]], self._auth.get("scopes", ()))
        return JSONResponse(document)

    def _resource_url(self, scope: Scope, headers: Mapping[str, str]) -> str:
        if self._public_url is not None:
            return self._public_url
        host = headers.get("host", "")
        if not _HOST.fullmatch(host):
            raise Refusal(400, INVALID_REQUEST, "Invalid request: send a valid Host header")
        return f"{scope['scheme']}://{host}{scope.get('root_path', '')}{self._path}"

    # --- rate limits -------------------------------------------------------------------------

    def _lookups(self, owner: str) -> Lookups:
        if self._authenticator is None:
            return self._of_address
        rates = self._rates
        return Lookups(lambda: rates.spend(owner), lambda: rates.miss(owner))

    def _on_lookup(self, owner: str, is_found: bool) -> None:
        if not is_found:
            self._lookups(owner).missed()


async def _break_off(send: Send) -> None:
    """Respond to a request that was cancelled because the server stops."""
    why = Refusal(503, INTERNAL_ERROR, "Internal error: the server is being stopped, try again")
    try:
        await respond(send, 503, why.body(), [(b"retry-after", b"5")])
    except RuntimeError:  # the response has begun
        await send({"type": "http.response.body", "body": b""})


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise Refusal(404, INVALID_REQUEST, "Not found: see /openapi.json for the available paths")


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to its caller."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run_application(
    application: Application, runtime: Runtime, settings: Settings, *, ready: Callable[[str], None]
) -> None:
    """Serve until cancelled; call `ready` with the address once requests are accepted."""
    transport = settings.transport
    host, port = settings.address
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2_048
        )
        # Connections inherit it; asyncio does not set it for listeners such as this one.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        why = error.strerror or error
        raise ConfigurationError(f"cannot listen on {settings.http}: {why}") from None
    shown = f"[{host}]" if ":" in host else host
    place = f"http://{shown}:{listener.getsockname()[1]}"
    server = _Server(
        uvicorn.Config(
            application,
            http=bounded_protocol(transport),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            # Trust the client's address in forwarded headers only behind a proxy.
            proxy_headers=settings.public_url is not None,
            timeout_keep_alive=transport.idle_s,  # type: ignore[arg-type]  # floats work
            timeout_graceful_shutdown=GRACE_S,
            limit_concurrency=transport.max_connections,
        ),
        lambda: ready(place),
    )
    async with application.serving(runtime):
        serving = asyncio.create_task(server.serve([listener]))
        try:
            await asyncio.shield(serving)
        finally:
            server.should_exit = True
            await application.end_streams()
            await serving
