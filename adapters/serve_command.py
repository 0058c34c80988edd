"""`taskmachine serve`: the reference server on HTTP, or on standard input and output."""

import argparse
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

from taskmachine.adapters.engines import find_engine
from taskmachine.adapters.foreground import add_log_options, announce, prepared, run_until_told
from taskmachine.adapters.runtime import Runtime, open_runtime
from taskmachine.adapters.server.descriptors import take_input, take_output
from taskmachine.adapters.server.observing import observer_from
from taskmachine.adapters.server.settings import Settings
from taskmachine.adapters.server.stdio import serve_stdio
from taskmachine.adapters.server.tool_loading import load_tools
from taskmachine.adapters.stores import without_password
from taskmachine.adapters.wording import counted
from taskmachine.statemachine import ConfigurationError

__all__ = ["add_to"]

FLAGS: Final = ("http", "store", "engine", "tools", "dialect", "insecure", "otel", "metrics")


def add_to(commands: Any, _: Callable[[], Any]) -> None:
    """Add the command to a parser."""
    does = "serve tools as tasks, over HTTP or standard input and output"
    serve = commands.add_parser("serve", help=does, description=f"S{does[1:]}.")
    where = serve.add_mutually_exclusive_group()
    where.add_argument("--http", metavar="HOST:PORT", help="as in 127.0.0.1:8000")
    where.add_argument("--stdio", action="store_true", help="for whoever starts this process")
    serve.add_argument("--store", metavar="URL", help="default: sqlite:taskmachine.db")
    serve.add_argument(
        "--engine",
        metavar="NAME",
        help="who runs the tasks: local (default), this process; procrastinate, its workers",
    )
    serve.add_argument("--tools", metavar="NAME", help="demo (default), conformance, MODULE:OBJECT")
    serve.add_argument("--config", metavar="FILE", help="settings in TOML")
    serve.add_argument("--dialect", metavar="NAME", help="erlmcp, instead of both generations")
    serve.add_argument(
        "--insecure",
        action="store_const",
        const=True,
        help="without authentication on an address that others can reach",
    )
    serve.add_argument(
        "--otel",
        action="store_const",
        const=True,
        help="send spans and metrics where the variables OTEL_* say",
    )
    serve.add_argument(
        "--metrics", action="store_const", const=True, help="let Prometheus read /metrics"
    )
    add_log_options(serve)
    serve.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.stdio and (sys.stdin is None or sys.stdout is None):
        raise ConfigurationError("--stdio needs standard input and output, and one is closed")
    settings = prepared(options, {name: getattr(options, name) for name in FLAGS})
    serve = _on_pipes(settings) if options.stdio else _on_http(settings)
    run_until_told(_serve(settings, serve), uses_pipes=options.stdio)
    return 0


_Serve = Callable[[Runtime], Awaitable[None]]


def _on_pipes(settings: Settings) -> _Serve:
    # Now: the module of the tools may print already.
    source, sink = take_input(0), take_output(1)

    async def serve(runtime: Runtime) -> None:
        _announce(runtime, settings, "standard input and output")
        await serve_stdio(runtime, dialect=settings.dialect, input_fd=source, output_fd=sink)

    return serve


def _on_http(settings: Settings) -> _Serve:
    if settings.http is None:
        raise ConfigurationError("where to serve? Say --http HOST:PORT or --stdio")
    if not (settings.is_local or settings.auth or settings.insecure):
        raise ConfigurationError(
            f"everybody who reaches {settings.http} could call the tools: "
            "set up [auth], or allow it with --insecure"
        )
    try:
        from taskmachine.adapters.server.http import serve_http
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("taskmachine"):
            raise
        raise ConfigurationError(
            f"HTTP needs the package {error.name}: pip install 'taskmachine[server]'"
        ) from None

    async def serve(runtime: Runtime) -> None:
        await serve_http(
            runtime,
            settings,
            ready=lambda url: _announce(runtime, settings, url),
            console=lambda url: announce(f"console: {url}"),
        )

    return serve


def _announce(runtime: Runtime, settings: Settings, where: str) -> None:
    tools, store = counted(len(runtime.tools), "tool"), without_password(settings.store)
    announce(f"serving {tools} on {where}, tasks in {store}")


async def _serve(settings: Settings, serve: _Serve) -> None:
    engine = find_engine(settings.engine)
    async with open_runtime(
        settings.store,
        load_tools(settings.tools),
        times=settings.times,
        limits=settings.limits,
        engine=engine,
        observer=observer_from(settings),
    ) as runtime:
        await serve(runtime)
