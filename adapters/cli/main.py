"""The `taskmachine` command: its arguments, and what becomes of errors."""

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from taskmachine.adapters.rendering.wording import printable
from taskmachine.statemachine import ConfigurationError, TaskmachineError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["main"]

PAGE_WIDTH: Final = 100
"""Where there is no terminal to ask."""

COMMANDS: Final = {
    "table": "table",
    "serve": "serve",
    "worker": "worker",
    "cluster": "cluster.command",
    "call": "call.command",
    "demo": "demo.command",
    "check": "check",
    "bench": "bench.command",
    "tasks": "operators",
    "store": "operators",
}
"""Each with its module.  Only those that are needed are imported: all of them take 200 ms."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    0 if it did its job, 1 if that was refused or there is no such task, 2 if it was asked for
    something that cannot be.
    """
    given = sys.argv[1:] if arguments is None else arguments
    options = _parsed(list(given))
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


def _parsed(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="taskmachine", description="MCP Tasks as one explicit state machine."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show which one this is")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    name = next((word for word in given if not word.startswith("-")), "")
    for module in dict.fromkeys([COMMANDS[name]] if name in COMMANDS else COMMANDS.values()):
        command = importlib.import_module(f"taskmachine.adapters.cli.{module}")
        command.add_to(commands, _console)
        if module == "operators":
            given = command.with_ids_last(given)
    return parser.parse_args(given)


class _Version(argparse.Action):
    """Looked up only if somebody wants to know."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(parser.prog, version("taskmachine"))
        parser.exit()


def _console() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PAGE_WIDTH)
