"""`taskmachine serve`: the reference server over HTTP or stdio."""

import argparse
import sys
from collections.abc import Callable
from typing import Any, Final

from taskmachine.adapters.server.foreground import add_log_options, add_tools_option, configure
from taskmachine.adapters.server.serving import run_server
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.settings import Settings
from taskmachine.statemachine import ConfigurationError

__all__ = ["add_options", "add_to", "serve_tools"]

FLAGS: Final = ("http", "store", "engine", "tools", "dialect", "insecure", "otel", "metrics")


def add_to(commands: Any, _: Callable[[], Any]) -> None:
    """Add the command to a parser."""
    does = "serve tools as tasks over HTTP or stdio"
    serve = commands.add_parser("serve", help=does, description=f"S{does[1:]}.")
    add_tools_option(serve)
    add_options(serve)
    serve.set_defaults(run=_run)


def add_options(serve: argparse.ArgumentParser) -> None:
    """Add the options of a server, all but its tools."""
    where = serve.add_mutually_exclusive_group()
    where.add_argument(
        "--http", metavar="HOST:PORT", help="listen on this address, e.g. 127.0.0.1:8000"
    )
    where.add_argument("--stdio", action="store_true", help="use standard input and output")
    serve.add_argument(
        "--store", metavar="URL", help="store for tasks; default: sqlite:taskmachine.db"
    )
    serve.add_argument(
        "--engine",
        metavar="NAME",
        help="where tools run: local (default), in this process; procrastinate, in workers",
    )
    serve.add_argument("--config", metavar="FILE", help="read settings from a TOML file")
    serve.add_argument(
        "--dialect", metavar="NAME", help="serve erlmcp instead of both MCP revisions"
    )
    serve.add_argument(
        "--insecure",
        action="store_const",
        const=True,
        help="serve other machines without authentication",
    )
    serve.add_argument(
        "--otel",
        action="store_const",
        const=True,
        help="export traces and metrics as configured by the OTEL_* variables",
    )
    serve.add_argument(
        "--metrics", action="store_const", const=True, help="serve Prometheus metrics at /metrics"
    )
    add_log_options(serve)


def _run(options: argparse.Namespace) -> int:
    _check_stdio(options.stdio)
    run_server(_settings(options), stdio=options.stdio)
    return 0


def serve_tools(options: argparse.Namespace, tools: Tools) -> int:
    """Serve these tools, on standard input and output unless an address is configured."""
    options.tools = None
    settings = _settings(options)
    stdio = options.stdio or settings.http is None
    _check_stdio(stdio)
    run_server(settings, tools, stdio=stdio)
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    return configure(options, {name: getattr(options, name) for name in FLAGS})


def _check_stdio(stdio: bool) -> None:
    if stdio and (sys.stdin is None or sys.stdout is None):
        raise ConfigurationError("--stdio needs standard input and output, and one is closed")
