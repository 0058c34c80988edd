"""Run a server on HTTP, or on standard input and output."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from taskmachine.adapters.rendering.wording import counted
from taskmachine.adapters.runtime.runtime import Runtime, open_runtime
from taskmachine.adapters.server.foreground import announce, run_until_signalled
from taskmachine.adapters.server.observing import observer_from
from taskmachine.adapters.stores import without_password
from taskmachine.adapters.tools.loading import load_tools
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.settings import Settings, load_settings
from taskmachine.adapters.transports.stdio.descriptors import take_input, take_output
from taskmachine.adapters.transports.stdio.server import serve_stdio
from taskmachine.statemachine import ConfigurationError

__all__ = ["run_server", "serve"]

log: Final = logging.getLogger("taskmachine")

_Serve = Callable[[Runtime], Awaitable[None]]


def serve(tools: Tools, *, http: str | None = None, **settings: Any) -> None:
    """Serve these tools until SIGINT or SIGTERM.

    `http` is HOST:PORT; without it the server uses standard input and output.  The other
    settings are those of a settings file: `store`, `engine`, `limits`, `auth` and so on.
    """
    run_server(load_settings(None, {}, {"http": http, **settings}), tools, stdio=http is None)


def run_server(
    settings: Settings,
    tools: Tools | None = None,
    *,
    stdio: bool = False,
    console: Callable[[str], None] = lambda url: None,
    grace_s: float | None = None,
) -> None:
    """Serve the tools, or by default those in the settings, until SIGINT or SIGTERM.

    `console` gets the URL of the console once it can be opened.  `grace_s` is how long tools may
    continue at the end.
    """
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise ConfigurationError(
            "a server runs its own event loop: start it outside of async functions"
        )
    start = _on_pipes(settings) if stdio else _on_http(settings, console)
    if tools is None:  # only now: their module may print
        tools = load_tools(settings.tools)
    run_until_signalled(_run(settings, tools, start, grace_s), uses_pipes=stdio)


async def _run(settings: Settings, tools: Tools, start: _Serve, grace_s: float | None) -> None:
    config = settings.runtime_config(observer_from(settings))
    async with open_runtime(settings.store, tools, config) as runtime:
        try:
            await start(runtime)
        finally:
            if grace_s is not None:
                await runtime.stop(grace_s)


def _on_pipes(settings: Settings) -> _Serve:
    source, sink = take_input(0), take_output(1)

    async def start(runtime: Runtime) -> None:
        _announce(runtime, settings, "standard input and output")
        await serve_stdio(runtime, dialect=settings.dialect, input_fd=source, output_fd=sink)

    return start


def _on_http(settings: Settings, console: Callable[[str], None]) -> _Serve:
    if settings.http is None:
        raise ConfigurationError("no transport selected: use --http HOST:PORT or --stdio")
    if not (settings.is_local or settings.auth or settings.insecure):
        raise ConfigurationError(
            f"anyone who can connect to {settings.http} could call the tools: "
            "configure [auth], or use --insecure to allow this"
        )
    try:
        from taskmachine.adapters.server.application import serve_http
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("taskmachine"):
            raise
        raise ConfigurationError(
            f"HTTP needs the package {error.name}: pip install 'taskmachine[server]'"
        ) from None

    def started(url: str) -> None:
        announce(f"console: {url}")
        console(url)

    async def start(runtime: Runtime) -> None:
        await serve_http(
            runtime,
            settings,
            ready=lambda url: _announce(runtime, settings, url),
            console=started,
        )

    return start


def _announce(runtime: Runtime, settings: Settings, where: str) -> None:
    tools, store = counted(len(runtime.tools), "tool"), without_password(settings.store)
    announce(f"serving {tools} on {where}, tasks in {store}")
    if not runtime.tools:
        log.warning("no tool is registered: put @tools.task() above a function")
