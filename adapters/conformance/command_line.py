"""The arguments of `taskmachine check`, and of the pytest plugin: only words are read here."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["add_arguments", "read_arguments"]

GENERATIONS: Final = ("auto", "both", "2025-11-25", "2026-07-28")
DAY_S: Final = 86_400.0
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the words that would follow `taskmachine check`."""
    parser = argparse.ArgumentParser("taskmachine check")
    add_arguments(parser)
    return parser.parse_args(arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add every argument of the command to a parser."""
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


def _duration(text: str) -> float:
    number = text.rstrip("ms")
    try:
        seconds = float(number) * _UNITS[text[len(number) :]]
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 60s, 2m or 500ms") from None
    if not 0 < seconds <= DAY_S:
        raise argparse.ArgumentTypeError("a budget is more than nothing and at most a day")
    return seconds
