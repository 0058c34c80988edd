"""Every cell of the two tables has a behaviour that fails when the cell is changed."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.lifecycle.cells.__main__ import TIMEOUT_S, cells, changed, run_behaviour, try_cell
from tests.lifecycle.cells.behaviours import BEHAVIOURS, Behaviour
from tests.lifecycle.cells.environment import environment
from tests.oracle import REPOSITORY

TABLE = REPOSITORY / "statemachine" / "table.py"


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_in_memory(behaviour: Behaviour) -> None:
    run_behaviour(behaviour)


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_on_sqlite(behaviour: Behaviour, tmp_path: Path) -> None:
    async def main() -> None:
        async with environment(f"sqlite:{tmp_path / 'tasks.db'}", TIMEOUT_S) as env:
            await behaviour(env)

    asyncio.run(main())


def test_there_are_26_moves_to_remove_or_redirect_and_30_duties_to_flip() -> None:
    found = [cell.split() for cell in cells()]
    assert sum(cell[-1] == "-" for cell in found) == 26
    assert sum(len(cell) == 3 and cell[-1] != "-" for cell in found) == 26 * 7
    assert sum(len(cell) == 2 for cell in found) == 6 * 5


def test_a_change_changes_one_line() -> None:
    source = TABLE.read_text()
    before = source.splitlines()
    for cell in cells():
        after = changed(source, cell).splitlines()
        removed = cell.endswith(" -")
        assert len(after) == len(before) - removed
        if not removed:
            pairs = zip(before, after, strict=True)
            assert sum(old.split() != new.split() for old, new in pairs) == 1


@pytest.mark.slow
@pytest.mark.lifecycle
def test_a_requestor_notices_every_changed_cell() -> None:
    """Run the behaviours for each changed cell in a new process."""
    with ThreadPoolExecutor(2) as pool:
        results = dict(pool.map(try_cell, cells()))
    unnoticed = {cell for cell, (code, _) in results.items() if code != 0}
    assert not unnoticed, {cell: results[cell][1] for cell in unnoticed}


def test_without_a_change_nothing_is_noticed() -> None:
    assert try_cell("") == ("", (1, "unnoticed"))
