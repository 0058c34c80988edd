"""Errors as users see them: one line on standard error."""

import sys

from taskmachine.adapters.rendering.wording import printable

__all__ = ["print_error"]


def print_error(words: str, program: str = "taskmachine") -> None:
    """Print an error, with colours in a terminal unless NO_COLOR is set."""
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console
        from rich.text import Text

        line = Text.assemble(f"{program}: ", ("error: ", "bold red"), printable(words))
        Console(stderr=True).print(line, soft_wrap=True)
    else:
        print(f"{program}: error: {printable(words)}", file=sys.stderr)
