"""The arguments of `taskmachine check` and of the pytest plugin."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["add_arguments", "read_arguments"]

GENERATIONS: Final = ("auto", "both", "2025-11-25", "2026-07-28")
DAY_S: Final = 86_400.0
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of `taskmachine check`."""
    parser = argparse.ArgumentParser("taskmachine check")
    add_arguments(parser)
    return parser.parse_args(arguments)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add every argument of the command to a parser."""
    target = parser.add_argument_group("target (exactly one)")
    target.add_argument(
        "server",
        nargs="?",
        metavar="SERVER",
        help="URL of a server, or the quoted command that starts it on stdio",
    )
    target.add_argument(
        "--client",
        metavar="COMMAND",
        help="command that starts a client; {url} is replaced by the URL of the test server, "
        "{server} by a command that starts it on stdio",
    )
    how = parser.add_argument_group("connection and tools")
    how.add_argument(
        "--generation",
        choices=GENERATIONS,
        default="auto",
        help="revision to check; default: auto, each revision that the target supports",
    )
    how.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME: VALUE",
        help="HTTP header of every request; repeatable",
    )
    how.add_argument(
        "--bearer",
        action="append",
        default=[],
        metavar="TOKEN",
        help="bearer token; give a second one to check that principals are isolated",
    )
    how.add_argument(
        "--profile", type=Path, metavar="FILE", help="TOML file that assigns tool calls to roles"
    )
    how.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="NAME='{...}'",
        help="try only this tool with these arguments during discovery; repeatable",
    )
    how.add_argument(
        "--write-profile", type=Path, metavar="FILE", help="save the discovered profile"
    )
    how.add_argument(
        "--allow-destructive",
        action="store_true",
        help="also call tools whose annotations contain destructiveHint: true",
    )
    much = parser.add_argument_group("scope")
    much.add_argument(
        "--budget",
        type=_duration,
        default=60.0,
        metavar="TIME",
        help="time limit of the whole check; default: 60s",
    )
    much.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of all random choices; default: 0"
    )
    much.add_argument(
        "--examples",
        type=int,
        default=20,
        metavar="N",
        help="number of random sequences of moves in exploration; default: 20",
    )
    much.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ID",
        help="judge only this requirement; repeatable",
    )
    much.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="ID",
        help="do not judge this requirement; repeatable",
    )
    much.add_argument("--list", action="store_true", help="list all requirements and exit")
    much.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE",
        help="known failures, one id per line; they do not affect the exit status",
    )
    much.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="only repeat the moves of a file that --replays wrote",
    )
    much.add_argument(
        "--strict", action="store_true", help="exit with status 4 if there are warnings"
    )
    out = parser.add_argument_group("reports")
    out.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    out.add_argument("--junit", type=Path, metavar="FILE", help="write the report as JUnit XML")
    out.add_argument("--html", type=Path, metavar="FILE", help="write the report as an HTML page")
    out.add_argument(
        "--replays",
        type=Path,
        metavar="DIR",
        help="write the requests of each violation, and replays of exploration, to this folder",
    )


def _duration(text: str) -> float:
    number = text.rstrip("ms")
    try:
        seconds = float(number) * _UNITS[text[len(number) :]]
    except (ValueError, KeyError):
        words = f"{text!r} is not a duration; write for example 60s, 2m or 500ms"
        raise argparse.ArgumentTypeError(words) from None
    if not 0 < seconds <= DAY_S:
        raise argparse.ArgumentTypeError("the budget must be positive and at most one day")
    return seconds
