"""Change one cell of a table and see what requestors notice: `python -m tests.cells [CELL]`.

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
    from tests.cells.behaviours import Behaviour

TABLE: Final = "taskmachine.statemachine.table"
PATIENCE_S: Final = 30.0
"""Of virtual time, in memory: no process waits for it."""

COLUMNS: Final = ("queue", "worker", "progress", "questions", "waiters")
WORDS: Final = (
    ("claimable", "-"), ("keeps", "stops"), ("flows", "halts"), ("open", "closed"),
    ("wait", "answered"),
)  # fmt: skip


def cells() -> Iterator[str]:
    """Every cell, by the names of the hand-written specification."""
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
    """The text of the module with one cell changed."""
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


def played(behaviour: "Behaviour") -> None:
    """Run a behaviour on a store in memory, in virtual time."""
    from taskmachine.adapters.runtime.testing.virtual_loop import VirtualLoop
    from tests.cells.world import a_world

    async def main() -> None:
        async with a_world("memory:", PATIENCE_S) as world:
            await behaviour(world)

    loop = VirtualLoop(Random(0))
    try:
        loop.run(asyncio.wait_for(main(), 10 * PATIENCE_S))
    finally:
        loop.close()


def first_failure() -> str | None:
    """The first behaviour that does not hold."""
    from tests.cells.behaviours import BEHAVIOURS

    for name, behaviour in BEHAVIOURS.items():
        try:
            played(behaviour)
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever makes it red
            return f"{name} ({type(error).__name__})"
    return None


def look_at(cell: str) -> tuple[str, tuple[int, str]]:
    """The cell, and the exit code and the last words of a process in which it is changed."""
    command = [sys.executable, "-m", "tests.cells", cell]
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
        looks = dict(pool.map(look_at, cells()))
    for cell, (_, found) in looks.items():
        print(f"{cell:32} {found}")
    return int(any(code for code, _ in looks.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
