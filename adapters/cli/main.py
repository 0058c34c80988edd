"""The `taskmachine` command: argument parsing, error messages and exit statuses."""

import argparse
import importlib
import io
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from taskmachine.adapters.cli.failing import print_error
from taskmachine.adapters.cli.nearest import did_you_mean
from taskmachine.adapters.cli.overview import print_overview
from taskmachine.adapters.cli.parser import Parser, read_options
from taskmachine.adapters.rendering.wording import printable
from taskmachine.statemachine import ConfigurationError, TaskmachineError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["COMMANDS", "main", "parser_of", "run_command"]

PAGE_WIDTH: Final = 100
"""Width of the output when standard output is not a terminal."""

COMMANDS: Final = {
    "table": "table",
    "serve": "serve",
    "worker": "worker",
    "dev": "dev",
    "new": "new.command",
    "cluster": "cluster.command",
    "tools": "tools",
    "call": "call.command",
    "demo": "demo.command",
    "check": "check",
    "bench": "bench.command",
    "tasks": "operators",
    "store": "operators",
    "completion": "completion",
}
"""The module of each command.  Only the requested one is imported: all of them take 300 ms."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    0 on success, 1 if the operation failed or the task does not exist, 2 for invalid arguments
    or settings.
    """
    given = sys.argv[1:] if arguments is None else arguments
    options = _parsed(list(given))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for terminals that are not UTF-8
    return run_command(options)


def run_command(options: argparse.Namespace, program: str = "taskmachine") -> int:
    """Run a parsed command and return its exit status; errors are one line."""
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except TaskmachineError as error:
        if options.debug:
            raise
        print_error(str(error), program)
        return 2 if isinstance(error, ConfigurationError) else 1
    except BrokenPipeError:  # the reader closed the pipe, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as shells report it
    except Exception as error:
        if options.debug:
            raise
        print(
            f"{program}: internal error: {printable(repr(error))}; use --debug for a traceback",
            file=sys.stderr,
        )
        return 1
    return status


def _parsed(given: list[str]) -> argparse.Namespace:
    name = next((word for word in given if not word.startswith("-")), "")
    if name and name not in COMMANDS:
        parser_of([]).error(f"unknown command '{name}'{did_you_mean(name, COMMANDS)}")
    if COMMANDS.get(name) == "operators":
        from taskmachine.adapters.cli.operators import with_ids_last

        given = with_ids_last(given)
    return read_options(parser_of([name] if name else []), given)


def parser_of(names: Iterable[str] = COMMANDS) -> Parser:
    """Return a parser of these commands, by default of all of them."""
    parser = Parser(prog="taskmachine", add_help=False)
    parser.set_defaults(run=_show_overview)
    parser.add_argument("--help", "-h", action=_Help, nargs=0, help="show this help")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.add_argument(
        "--debug", action="store_true", help="show a traceback when an error occurs"
    )
    commands = parser.add_subparsers(metavar="COMMAND", prog="taskmachine")
    for module in dict.fromkeys(COMMANDS[name] for name in names):
        importlib.import_module(f"taskmachine.adapters.cli.{module}").add_to(commands, _console)
    return parser


class _Help(argparse.Action):
    """Print the overview."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser.exit(_show_overview())


def _show_overview(_: object = None) -> int:
    print_overview(_console())
    return 0


class _Version(argparse.Action):
    """Print the version, which is looked up only when requested."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(parser.prog, version("taskmachine"))
        parser.exit()


def _console() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PAGE_WIDTH)
