"""The `taskmachine` command."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from rich.console import Console

from taskmachine.adapters.rendering import FORMATS, print_table, render
from taskmachine.protocol import DIALECTS, dialect
from taskmachine.statemachine import TaskmachineError

__all__ = ["main"]

PAGE_WIDTH = 100  # where there is no terminal to ask


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 if it did its job, 2 if it was asked for something that does not exist."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except TaskmachineError as error:
        if options.debug:
            raise
        print(f"taskmachine: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever reads has seen enough, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="taskmachine", description=__doc__)
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('taskmachine')}")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    table = commands.add_parser(
        "table",
        help="show the transition table and its diagram",
        description="Show the transition table and its diagram.",
    )
    table.add_argument(
        "--format", choices=["text", *FORMATS], default="text", help="default: %(default)s"
    )
    table.add_argument(
        "--dialect",
        metavar="NAME",
        help=f"show it as one protocol revision does: {', '.join(DIALECTS)}",
    )
    table.set_defaults(run=_table)
    return parser


def _table(options: argparse.Namespace) -> int:
    spoken = None if options.dialect is None else dialect(options.dialect)
    if options.format == "text":
        print_table(Console(width=None if sys.stdout.isatty() else PAGE_WIDTH), spoken)
    else:
        sys.stdout.write(render(options.format, spoken))
    return 0
