"""The `taskmachine` command: its arguments, and what becomes of errors."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from rich.console import Console

from taskmachine.adapters import (
    bench_command,
    call_command,
    check_command,
    cluster_command,
    demo_command,
    operator_commands,
    serve_command,
    worker_command,
)
from taskmachine.adapters.rendering import FORMATS, print_table, render
from taskmachine.adapters.task_views import printable
from taskmachine.protocol import DIALECTS, dialect
from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = ["main"]

PAGE_WIDTH = 100  # where there is no terminal to ask


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    0 if it did its job, 1 if that was refused or there is no such task, 2 if it was asked for
    something that cannot be.
    """
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(operator_commands.with_ids_last(given))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal may not know all letters
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except TaskmachineError as error:
        if options.debug:
            raise
        print(f"taskmachine: error: {printable(str(error))}", file=sys.stderr)
        return 2 if isinstance(error, ConfigurationError) else 1
    except BrokenPipeError:  # whoever reads has seen enough, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130  # what a shell makes of SIGINT
    except Exception as error:
        if options.debug:
            raise
        # Nobody has thought of this one: at least no traceback, and it says what to do.
        print(f"taskmachine: {printable(repr(error))}; --debug tells where", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskmachine", description="MCP Tasks as one explicit state machine."
    )
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
    serve_command.add_to(commands)
    worker_command.add_to(commands)
    cluster_command.add_to(commands, _console)
    call_command.add_to(commands)
    demo_command.add_to(commands, _console)
    check_command.add_to(commands, _console)
    bench_command.add_to(commands, _console)
    operator_commands.add_to(commands, _console)
    return parser


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PAGE_WIDTH)


def _table(options: argparse.Namespace) -> int:
    spoken = None if options.dialect is None else dialect(options.dialect)
    if options.format == "text":
        print_table(_console(), spoken)
    else:
        sys.stdout.write(render(options.format, spoken))
    return 0
