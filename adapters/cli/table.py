"""`taskmachine table`: the transition table and its diagram."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console

from taskmachine.adapters.rendering.table import FORMATS, print_table, render
from taskmachine.protocol import DIALECTS, dialect

__all__ = ["add_to"]


def add_to(commands: Any, console: Callable[[], Console]) -> None:
    """Add the command to a parser."""
    does = "show the transition table and its diagram"
    table = commands.add_parser("table", help=does, description=f"{does.capitalize()}.")
    table.add_argument(
        "--format",
        choices=["text", *FORMATS],
        default="text",
        help="output format; default: %(default)s",
    )
    table.add_argument(
        "--dialect",
        metavar="NAME",
        help=f"show the statuses of one protocol revision: {', '.join(DIALECTS)}",
    )
    table.set_defaults(run=lambda options: _run(options, console))


def _run(options: argparse.Namespace, console: Callable[[], Console]) -> int:
    spoken = None if options.dialect is None else dialect(options.dialect).messages
    if options.format == "text":
        print_table(console(), spoken)
    else:
        sys.stdout.write(render(options.format, spoken))
    return 0
