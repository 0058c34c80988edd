"""The argument parser of every command: help with colours and examples, errors of one line."""

import argparse
import re
from typing import Any, Final, NoReturn

from rich_argparse import RawDescriptionRichHelpFormatter

from taskmachine.adapters.cli.failing import print_error
from taskmachine.adapters.cli.nearest import did_you_mean
from taskmachine.adapters.cli.overview import EXAMPLES

__all__ = ["Parser", "read_options"]

MAX_WIDTH: Final = 100


class Help(RawDescriptionRichHelpFormatter):
    """Help in the colours of `print_overview`, without colours in a pipe or with NO_COLOR."""

    group_name_formatter = str
    help_markup = False
    text_markup = False
    highlights: Final = [  # type: ignore[misc]
        r"(?m)(?P<groups>^examples:$|^exit status:$)|(?P<syntax>^  taskmachine .*$)"
    ]
    styles: Final = {  # type: ignore[misc]
        **RawDescriptionRichHelpFormatter.styles,
        "argparse.args": "bold cyan",
        "argparse.groups": "bold green",
        "argparse.metavar": "cyan",
        "argparse.prog": "bold",
        "argparse.syntax": "dim",
    }

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **options)
        self._width = min(self._width, MAX_WIDTH)


class Parser(argparse.ArgumentParser):
    """A parser of a command, or of the whole program."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=Help, **options)
        _, _, command = self.prog.partition(" ")
        if command in EXAMPLES:
            lines = ["examples:", *(f"  {example}" for example in EXAMPLES[command])]
            self.epilog = "\n".join([*([self.epilog, ""] if self.epilog else []), *lines])
        self.set_defaults(parser=self)

    def error(self, message: str) -> NoReturn:
        """Exit with one line, without the usage: the help shows more."""
        print_error(f"{message} ({self.prog} --help)", self.prog.partition(" ")[0])
        self.exit(2)


def read_options(parser: Parser, given: list[str]) -> argparse.Namespace:
    """Parse a command line.

    Unlike argparse, accept options before the last arguments: `call SERVER TOOL --json key=value`.
    """
    options, rest = parser.parse_known_args(given)
    if hasattr(options, "arguments"):
        options.arguments = [*options.arguments, *(w for w in rest if not w.startswith("-"))]
        rest = [word for word in rest if word.startswith("-")]
    if rest:
        name = rest[0].partition("=")[0]
        known = re.findall(r"--[\w-]+", options.parser.format_usage())
        what = "unknown option" if name.startswith("-") else "unexpected argument"
        options.parser.error(f"{what} '{name}'{did_you_mean(name, known)}")
    return options
