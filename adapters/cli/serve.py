"""`taskmachine serve`: the reference server on HTTP, or on standard input and output."""

import argparse
import sys
from collections.abc import Callable
from typing import Any, Final

from taskmachine.adapters.server.foreground import add_log_options, configure
from taskmachine.adapters.server.serving import run_server
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
    settings = configure(options, {name: getattr(options, name) for name in FLAGS})
    run_server(settings, stdio=options.stdio)
    return 0
