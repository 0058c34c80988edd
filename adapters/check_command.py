"""`taskmachine check`: how well does somebody else's server or client keep the specification?"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from taskmachine.statemachine import ConfigurationError

__all__ = ["add_to", "read_arguments"]

GENERATIONS: Final = ("auto", "both", "2025-11-25", "2026-07-28")
DAY_S: Final = 86_400.0
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command would be told by these words."""
    parser = argparse.ArgumentParser("taskmachine check")
    _add_arguments(parser)
    return parser.parse_args(arguments)


def add_to(commands: Any, console: Callable[[], Console]) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "check",
        help="check a server or client of others against the specification",
        description="Check a server or client of others against the specification of MCP Tasks.",
        epilog="0: no MUST is broken; 1: some are; 2: the target cannot be reached, or wrong use; "
        "3: no tool can be a task; 4: only warnings, with --strict.",
    )
    _add_arguments(parser)
    parser.set_defaults(run=lambda options: _run(options, console()))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    target = parser.add_argument_group("the target, one of")
    target.add_argument("url", nargs="?", metavar="URL", help="a server behind HTTP")
    target.add_argument("--stdio", metavar="COMMAND", help="a server that is started by a command")
    target.add_argument(
        "--client",
        metavar="COMMAND",
        help="a client that is started by a command; {url} in it stands for our server, or "
        "{server} for a command that starts one",
    )
    how = parser.add_argument_group("how to talk to it")
    how.add_argument("--generation", choices=GENERATIONS, default="auto")
    how.add_argument(
        "--header", action="append", default=[], metavar="NAME: VALUE", help="with each request"
    )
    how.add_argument(
        "--bearer",
        action="append",
        default=[],
        metavar="TOKEN",
        help="credentials; twice for two callers that must not see each other's tasks",
    )
    how.add_argument("--profile", type=Path, metavar="FILE", help="which tool does what: TOML")
    how.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="NAME='{...}'",
        help="try this tool with these arguments",
    )
    how.add_argument("--write-profile", type=Path, metavar="FILE", help="save what was found out")
    how.add_argument(
        "--allow-destructive",
        action="store_true",
        help="call tools, too, that say of themselves that they destroy something",
    )
    much = parser.add_argument_group("how much")
    much.add_argument("--budget", type=_duration, default=60.0, metavar="TIME", help="default: 60s")
    much.add_argument("--seed", type=int, default=0, metavar="N", help="of everything random")
    much.add_argument("--examples", type=int, default=20, metavar="N", help="of exploration")
    much.add_argument("--only", action="append", default=[], metavar="ID", help="this requirement")
    much.add_argument("--skip", action="append", default=[], metavar="ID", help="not this one")
    much.add_argument("--list", action="store_true", help="show all requirements, and end")
    much.add_argument(
        "--baseline", type=Path, metavar="FILE", help="failures that are known: an id on each line"
    )
    much.add_argument("--replay", type=Path, metavar="FILE", help="only make these moves again")
    much.add_argument("--strict", action="store_true", help="leave with 4 if there are warnings")
    out = parser.add_argument_group("reports")
    out.add_argument("--json", type=Path, metavar="FILE")
    out.add_argument("--junit", type=Path, metavar="FILE")
    out.add_argument("--html", type=Path, metavar="FILE")
    out.add_argument("--replays", type=Path, metavar="FOLDER", help="where moves are saved")


def _run(options: argparse.Namespace, console: Console) -> int:
    try:
        from taskmachine.adapters.conformance.command import run
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed: pip install 'taskmachine[check]'"
        ) from None
    return run(options, console)


def _duration(text: str) -> float:
    number = text.rstrip("ms")
    try:
        seconds = float(number) * _UNITS[text[len(number) :]]
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 60s, 2m or 500ms") from None
    if not 0 < seconds <= DAY_S:
        raise argparse.ArgumentTypeError("a budget is more than nothing and at most a day")
    return seconds
