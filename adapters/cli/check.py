"""`taskmachine check`: test an MCP server or client for conformance."""

import argparse
from collections.abc import Callable
from typing import Any, Final

from rich.console import Console

from taskmachine.adapters.client.target import how_to_start, likely_url, read_target
from taskmachine.adapters.conformance.command_line import add_arguments
from taskmachine.adapters.conformance.errors import CannotCheck
from taskmachine.statemachine import ConfigurationError

__all__ = ["add_to"]

EPILOG: Final = """exit status:
  0  no MUST is violated
  1  at least one MUST is violated
  2  invalid arguments, or the target is unreachable
  3  no tool runs as a task
  4  only warnings (with --strict)"""


def add_to(commands: Any, console: Callable[[], Console]) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "check",
        help="test an MCP server or client for conformance",
        description="Test an MCP server or client for conformance to the MCP Tasks specification.",
        epilog=EPILOG,
    )
    add_arguments(parser)
    parser.set_defaults(run=lambda options: _run(options, console()))


def _run(options: argparse.Namespace, console: Console) -> int:
    try:
        from taskmachine.adapters.conformance.command import run
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed: pip install 'taskmachine[check]'"
        ) from None
    if options.server:
        read_target(options.server)
    try:
        return run(options, console)
    except CannotCheck as error:
        raise ConfigurationError(f"{error}{_hint(str(error), options.server)}") from error


def _hint(error: str, server: str | None) -> str:
    """Return what to do about a URL to which the tester cannot connect."""
    if server is None or not error.startswith("cannot connect"):
        return ""
    likely = likely_url(server)
    if "ConnectError" in error:
        return how_to_start(server)
    return "" if likely == server else f": did you mean {likely}?"
