"""Take the pictures of programs: `python -m tests.site.pictures`.

docs/report.svg is the report of `taskmachine check` on a server in which a cancelled task
completes, a bug that servers in use have (docs/explanation/findings.md).
"""

import io
import re
import shlex
import sys
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from taskmachine.adapters.conformance.command import check_named
from taskmachine.adapters.conformance.command_line import read_arguments
from taskmachine.adapters.conformance.report import Report
from taskmachine.adapters.conformance.reports import terminal
from tests.oracle import REPOSITORY

__all__ = ["BROKEN", "PICTURE", "run_check"]

PICTURE: Final = REPOSITORY / "docs" / "report.svg"
BROKEN: Final = "2025-11-25:cancelled-sticks"
"""The violated requirement."""
_TOO: Final = ("2025-11-25:terminal-final", "2025-11-25:last-updated-at-order")
"""The same bug violates these, too; one is enough for a picture."""

_BUG: Final = "ShowsCancelledTasksAsCompleted"
_WIDTH: Final = 100
_THEME: Final = TerminalTheme(
    (248, 250, 252),
    (15, 23, 42),
    [
        *((15, 23, 42), (220, 38, 38), (21, 128, 61), (161, 98, 7)),
        *((37, 99, 235), (147, 51, 234), (8, 145, 178), (100, 116, 139)),
    ],
)


def run_check(*options: str) -> Report:
    """Check the server with the bug, over pipes."""
    serve = ["-m", "tests.conformance.broken_server", "--stdio", "--bug", _BUG]
    server = shlex.join([sys.executable, *serve])
    asked = [server, "--generation", "2025-11-25", *options]
    return check_named(read_arguments(asked), lambda _: None)


def picture_of(report: Report) -> str:
    """Draw the report as in a terminal."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    terminal.show(report, console)
    drawn = console.export_svg(title='taskmachine check "..."', theme=_THEME)
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # fonts of another host
    drawn = re.sub(r"font-family: [^;]+;", "font-family: ui-monospace, monospace;", drawn)
    return re.sub(r"terminal-\d+", "report", drawn)


def main() -> None:
    """Run the check, and write its report."""
    skipped = [word for id in _TOO for word in ("--skip", id)]
    PICTURE.write_text(picture_of(run_check("--budget", "40s", *skipped)))


if __name__ == "__main__":
    main()
