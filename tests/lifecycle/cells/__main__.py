"""Change a table cell, and find a behaviour that fails: `python -m tests.lifecycle.cells [CELL]`.

Without an argument every cell is tried, each in a new process, and the first behaviour that fails
with it is printed.  With one, such as `working ask -` (no such row), `working ask failed` (another
destination) or `working queue` (the other word), the behaviours run with that cell changed until
one fails.  The exit code is 1 if a change goes unnoticed.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from random import Random
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # a process that changes a cell imports the table only afterwards
    from tests.lifecycle.cells.behaviours import Behaviour

TABLE: Final = "taskmachine.statemachine.table"
TIMEOUT_S: Final = 30.0
"""Virtual time: it costs no real time."""

COLUMNS: Final = ("queue", "worker", "progress", "questions", "waiters")
WORDS: Final = (
    ("claimable", "-"), ("keeps", "stops"), ("flows", "halts"), ("open", "closed"),
    ("wait", "answered"),
)  # fmt: skip


def cells() -> Iterator[str]:
    """Yield every cell, by the names in the hand-written specification."""
    from tests.oracle import DUTIES_BY_HAND, ILLEGAL, MOVES

    for source, row in MOVES.items():
        for event, dest in row.items():
            for other in ("-", *MOVES) if dest != ILLEGAL else ():
                if other != dest:
                    yield f"{source} {event} {other}"
    for state, duties in DUTIES_BY_HAND.items():
        for column in duties:
            yield f"{state} {column}"


def changed(source: str, cell: str) -> str:
    """Return the source of the module with one cell changed."""
    *row, change = cell.split()
    lines = source.splitlines()
    size = 6 if change in COLUMNS else 3
    rows = enumerate(map(str.split, lines))
    [place] = [n for n, words in rows if len(words) == size and words[: len(row)] == row]
    if change in COLUMNS:
        words, column = lines[place].split(), COLUMNS.index(change)
        words[1 + column] = WORDS[column][words[1 + column] == WORDS[column][0]]
        lines[place] = " ".join(words)
    else:
        lines[place : place + 1] = [] if change == "-" else [" ".join([*row, change])]
    return "\n".join(lines)


def plant(cell: str) -> None:
    """Change a cell in this process, before the table is imported."""
    assert TABLE not in sys.modules
    get_code = SourceFileLoader.get_code

    def get_changed_code(loader: SourceFileLoader, name: str) -> Any:
        if name != TABLE:
            return get_code(loader, name)
        return compile(changed(loader.get_source(name) or "", cell), loader.path, "exec")

    setattr(SourceFileLoader, "get_code", get_changed_code)  # noqa: B010  mypy sees two classes


def run_behaviour(behaviour: "Behaviour") -> None:
    """Run a behaviour on a store in memory, in virtual time."""
    from taskmachine.adapters.runtime.testing.virtual_loop import VirtualLoop
    from tests.lifecycle.cells.environment import environment

    async def main() -> None:
        async with environment("memory:", TIMEOUT_S) as env:
            await behaviour(env)

    loop = VirtualLoop(Random(0))
    try:
        loop.run(asyncio.wait_for(main(), 10 * TIMEOUT_S))
    finally:
        loop.close()


def first_failure() -> str | None:
    """Return the first behaviour that does not hold, or None."""
    from tests.lifecycle.cells.behaviours import BEHAVIOURS

    for name, behaviour in BEHAVIOURS.items():
        try:
            run_behaviour(behaviour)
        except (Exception, SystemExit) as error:  # noqa: BLE001  any failure counts
            return f"{name} ({type(error).__name__})"
    return None


def try_cell(cell: str) -> tuple[str, tuple[int, str]]:
    """Return the cell, and the exit code and last line of a process in which it is changed."""
    command = [sys.executable, "-m", "tests.lifecycle.cells", cell]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return cell, (0, "stuck for 60 s")
    return cell, (child.returncode, (child.stdout or child.stderr).strip().rpartition("\n")[2])


def main(wanted: list[str]) -> int:
    if wanted:
        if cell := " ".join(wanted):
            plant(cell)
        found = first_failure()
        print(found or "unnoticed")
        return 0 if found else 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(pool.map(try_cell, cells()))
    for cell, (_, found) in results.items():
        print(f"{cell:32} {found}")
    return int(any(code for code, _ in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
