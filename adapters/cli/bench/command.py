"""`taskmachine bench`: measure our server and its peers on this machine."""

import argparse
import importlib.util
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from taskmachine.adapters.stores import check_url
from taskmachine.statemachine import ConfigurationError

if TYPE_CHECKING:
    from taskmachine.adapters.cli.bench.contestants import Contestant

__all__ = ["add_to"]

PACKAGES: Final = ("httptools", "starlette", "uvicorn", "uvloop")
MAX_ROUNDS: Final = 1_000
MAX_SECONDS: Final = 60.0
MAX_TASKS: Final = 1_000_000


def add_to(commands: Any, console: Callable[[], Console]) -> None:
    """Add the command to a parser."""
    does = "benchmark this server against a minimal baseline and other MCP servers"
    bench = commands.add_parser("bench", help=does, description=f"B{does[1:]}.")
    bench.add_argument(
        "--measure",
        metavar="NAME",
        action="append",
        help="take only this measure (repeatable); default: all",
    )
    bench.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        help="only servers whose name contains this (repeatable)",
    )
    bench.add_argument("--no-peers", action="store_true", help="only this server; install nothing")
    bench.add_argument(
        "--store", metavar="URL", help="also measure on this PostgreSQL store: postgresql://..."
    )
    bench.add_argument(
        "--rounds", metavar="N", type=int, default=5, help="number of rounds; default: 5"
    )
    bench.add_argument(
        "--seconds", metavar="S", type=float, default=1.0, help="duration of each load; default: 1"
    )
    bench.add_argument(
        "--tasks",
        metavar="N",
        type=int,
        default=100_000,
        help="maximum number of stored tasks; default: 100000",
    )
    bench.add_argument(
        "--quick",
        action="store_true",
        help="only check that everything works, without meaningful figures",
    )
    bench.add_argument("--json", metavar="FILE", type=Path, help="write all figures as JSON")
    bench.add_argument("--svg", metavar="FILE", type=Path, help="write a chart of the task rates")
    bench.add_argument(
        "--folder",
        metavar="DIR",
        type=Path,
        help="install peers here; default: the user's cache folder",
    )
    bench.set_defaults(run=lambda options: _run(options, console()))


def _run(options: argparse.Namespace, console: Console) -> int:
    _check(options)
    # Imported late: these need Linux and the packages of the extra.
    from taskmachine.adapters.cli.bench.chart import draw
    from taskmachine.adapters.cli.bench.figures import to_json
    from taskmachine.adapters.cli.bench.judging import is_broken, judge
    from taskmachine.adapters.cli.bench.processes import cores
    from taskmachine.adapters.cli.bench.run import MEASURES, measure
    from taskmachine.adapters.cli.bench.table import print_report
    from taskmachine.adapters.cli.bench.workload import SIZES, quick, usual

    wanted = options.measure or list(MEASURES)
    if unknown := [name for name in wanted if name not in MEASURES]:
        raise ConfigurationError(
            f"unknown measure '{unknown[0]}': choose from {', '.join(MEASURES)}"
        )
    _within("--tasks", options.tasks, SIZES[0], MAX_TASKS)
    workload = quick() if options.quick else usual(options.rounds, options.seconds, options.tasks)
    if len(cores()) < 2:
        _say("warning: with only one core, the client slows the servers down")
    with _ended_by_signals():
        report = measure(
            wanted,
            _contestants(options),
            workload,
            _folder(options) / "runs",
            shlex.join(("taskmachine", *sys.argv[1:])),
            _say,
            is_quick=options.quick,
        )
    judgements = [] if options.quick else judge(report.rows)
    print_report(console, report, judgements)
    if options.json is not None:
        _write(options.json, to_json(report))
    if options.svg is not None:
        _write(options.svg, draw(report).encode())
    return int(is_broken(judgements) or _ours_failed(report.rows))


def _check(options: argparse.Namespace) -> None:
    if sys.platform != "linux":
        raise ConfigurationError(
            "bench requires Linux to pin processes to cores and read their CPU time and memory"
        )
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise ConfigurationError(
                f"bench needs the package {package}: pip install 'taskmachine[bench]'"
            )
    _within("--rounds", options.rounds, 1, MAX_ROUNDS)
    _within("--seconds", options.seconds, 0.01, MAX_SECONDS)
    if options.store is not None:
        check_url(options.store)
        if not options.store.startswith(("postgresql:", "postgres:")):
            raise ConfigurationError(
                "--store takes only postgresql://... URLs; the other stores are always measured"
            )
        if importlib.util.find_spec("psycopg") is None:
            raise ConfigurationError("--store needs: pip install 'taskmachine[postgresql]'")


def _within(option: str, number: float, least: float, most: float) -> None:
    if not least <= number <= most:
        raise ConfigurationError(f"{option} must be {least:g} to {most:g}, not {number:g}")


def _contestants(options: argparse.Namespace) -> "Sequence[Contestant]":
    from taskmachine.adapters.cli.bench.contestants import PEERS, ours, peers

    parts = [part.lower() for part in options.only or [""]]

    def is_wanted(name: str) -> bool:
        return any(part in name.lower() for part in parts)

    mine = list(ours(options.store))
    names = [*dict.fromkeys(one.name for one in mine), *PEERS]
    for part in parts:
        if not any(part in name.lower() for name in names):
            raise ConfigurationError(f"no server is named '{part}': choose from {'; '.join(names)}")
    chosen = [one for one in mine if is_wanted(one.name)]
    if not options.no_peers:
        chosen += peers(_folder(options), is_wanted, _say)
    if not chosen:
        raise ConfigurationError(
            "nothing to measure: --only selects peers, which --no-peers excludes"
        )
    return chosen


def _folder(options: argparse.Namespace) -> Path:
    if options.folder is not None:
        return Path(options.folder).absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "taskmachine" / "bench"


def _ours_failed(rows: Any) -> bool:
    return any(row.skipped for row in rows if row.contestant.startswith("ours"))


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from None


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Stop the servers on SIGTERM as on Ctrl-C, and ignore further signals meanwhile."""

    def stop(number: int, _: Any) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
