"""The behaviours hold, and each cell of the two tables is needed for one of them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cells.__main__ import PATIENCE_S, cells, changed, look_at, played
from tests.cells.behaviours import BEHAVIOURS, Behaviour
from tests.cells.world import a_world
from tests.oracle import REPOSITORY

TABLE = REPOSITORY / "statemachine" / "table.py"


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_in_memory(behaviour: Behaviour) -> None:
    played(behaviour)


@pytest.mark.parametrize("behaviour", BEHAVIOURS.values(), ids=BEHAVIOURS)
def test_on_sqlite(behaviour: Behaviour, tmp_path: Path) -> None:
    async def main() -> None:
        async with a_world(f"sqlite:{tmp_path / 'tasks.db'}", PATIENCE_S) as world:
            await behaviour(world)

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
def test_a_requestor_notices_every_changed_cell() -> None:
    """Each in a process of its own: a quarter of a second of work, if the machine is idle."""
    with ThreadPoolExecutor(2) as pool:
        looks = dict(pool.map(look_at, cells()))
    unnoticed = {cell for cell, (code, _) in looks.items() if code != 0}
    assert not unnoticed, {cell: looks[cell][1] for cell in unnoticed}


def test_without_a_change_nothing_is_noticed() -> None:
    assert look_at("") == ("", (1, "unnoticed"))
