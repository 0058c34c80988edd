"""`taskmachine worker`: run the tools of tasks that server replicas have created."""

import argparse
import asyncio
from collections.abc import Callable
from typing import Any, Final

from taskmachine.adapters.engines.procrastinate.opening import for_workers
from taskmachine.adapters.rendering.wording import counted
from taskmachine.adapters.runtime.runtime import open_runtime
from taskmachine.adapters.server.foreground import (
    add_log_options,
    add_tools_option,
    announce,
    configure,
    run_until_signalled,
)
from taskmachine.adapters.server.observing import observer_from
from taskmachine.adapters.stores import without_password
from taskmachine.adapters.tools.loading import load_tools
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.settings import Settings

__all__ = ["add_to"]

FLAGS: Final = ("store", "tools", "otel")


def add_to(commands: Any, _: Callable[[], Any]) -> None:
    """Add the command to a parser."""
    does = "run tools for servers started with --engine procrastinate"
    worker = commands.add_parser("worker", help=does, description=f"R{does[1:]}.")
    add_tools_option(worker)
    worker.add_argument("--store", metavar="URL", help="store of the servers: postgresql://...")
    worker.add_argument(
        "--concurrency",
        metavar="N",
        type=int,
        help="maximum number of concurrent tools; default: 64",
    )
    worker.add_argument(
        "--config", metavar="FILE", help="read settings from a TOML file, as serve does"
    )
    worker.add_argument(
        "--otel",
        action="store_const",
        const=True,
        help="export traces and metrics as configured by the OTEL_* variables",
    )
    add_log_options(worker)
    worker.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    flags: dict[str, Any] = {name: getattr(options, name) for name in FLAGS}
    if options.concurrency is not None:
        flags["limits"] = {"concurrency": options.concurrency}
    settings = configure(options, flags)
    run_until_signalled(_work(settings, load_tools(settings.tools)))
    return 0


async def _work(settings: Settings, tools: Tools) -> None:
    async with open_runtime(
        settings.store,
        tools,
        settings.runtime_config(observer_from(settings), engine=for_workers),
    ):
        number, store = counted(len(tools), "tool"), without_password(settings.store)
        announce(f"working with {number}, {settings.limits.concurrency} at a time, for {store}")
        await asyncio.Event().wait()  # until a signal cancels it
