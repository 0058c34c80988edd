"""`taskmachine completion`: a script that completes commands and options in a shell."""

import argparse
import sys
from collections.abc import Callable
from typing import Any, Final

__all__ = ["add_to"]

SHELLS: Final = ("bash", "zsh", "fish")


def add_to(commands: Any, _: Callable[[], Any]) -> None:
    """Add the command to a parser."""
    does = "print a script that completes commands and options in a shell"
    completion = commands.add_parser("completion", help=does, description=f"P{does[1:]}.")
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=" or ".join(SHELLS))
    completion.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    import shtab

    from taskmachine.adapters.cli.main import parser_of

    parser = parser_of()
    _complete_files(parser, {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY})
    sys.stdout.write(shtab.complete(parser, options.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser, kinds: dict[str, Any]) -> None:
    for action in parser._actions:
        if action.metavar in kinds:
            vars(action)["complete"] = kinds[str(action.metavar)]
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner, kinds)
