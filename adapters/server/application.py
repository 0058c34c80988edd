"""The HTTP application with the console and metrics mounted as configured."""

from collections.abc import Callable, Sequence

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import Scope

from taskmachine.adapters.console import Console, LinkLogin
from taskmachine.adapters.console.login import login_for
from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.server.observing import observer_from
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.http.application import (
    Application,
    MountOn,
    Site,
    run_application,
)
from taskmachine.adapters.transports.settings import CONSOLE, Settings

__all__ = ["ConsoleMount", "make_application", "serve_http"]


class ConsoleMount:
    """Mounts the console at `/console`, if the server can authenticate its users."""

    def __init__(self) -> None:
        self.path: str | None = None
        """The path to open, with the key if one is needed; None without a console."""

    def __call__(self, site: Site) -> Sequence[BaseRoute]:
        login = login_for(site.authenticator, is_local=site.is_local)
        if login is None:
            return []
        self.path = f"{CONSOLE}/"
        if isinstance(login, LinkLogin):
            self.path = f"{CONSOLE}/login?key={login.key}"
        console = Console(
            site.runtime,
            login,
            public_url=site.settings.public_url,
            keep_alive_s=site.settings.transport.keep_alive_s,
            lookups=site.lookups,
        )
        return [
            _BrowserRoute("/", _to_console),
            Route(CONSOLE, _to_console),
            Mount(CONSOLE, console),
        ]


class _BrowserRoute(Route):
    """A route for pages: other clients get the same response as without it."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found = super().matches(scope)
        is_browser = "text/html" in Headers(scope=scope).get("accept", "")
        return found if is_browser and found[0] is Match.FULL else (Match.NONE, {})


def make_application(
    settings: Settings, tools: Tools | None = None, *, console: ConsoleMount | None = None
) -> Application:
    """Make the ASGI application that `taskmachine serve --http` runs."""
    mounts: list[MountOn] = []
    if settings.console:
        mounts.append(console or ConsoleMount())
    if settings.metrics:
        mounts.append(_metrics)
    return Application(settings, tools, mounts=mounts, observer=observer_from(settings))


async def serve_http(
    runtime: Runtime,
    settings: Settings,
    *,
    ready: Callable[[str], None],
    console: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until cancelled.

    `ready` gets the URL of the endpoint once requests are accepted, and `console` the URL of the
    console, if there is one.  That URL may contain a key that grants access.
    """
    mounted = ConsoleMount()

    def started(address: str) -> None:
        ready(f"{address}{settings.path}")
        if mounted.path is not None:
            console(f"{address}{mounted.path}")

    application = make_application(settings, console=mounted)
    await run_application(application, runtime, settings, ready=started)


def _metrics(site: Site) -> Sequence[BaseRoute]:
    from taskmachine.adapters.telemetry.prometheus import metrics_route  # an optional extra

    return [metrics_route(site.runtime, site.authenticated)]


async def _to_console(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}{CONSOLE}/", 303)
