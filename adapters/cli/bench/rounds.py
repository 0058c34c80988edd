"""Measurement in rounds: each one measures every contestant once, on a new server.

Machine noise is spread over all contestants, and rounds do not affect each other.
"""

import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import attrs

from taskmachine.adapters.cli.bench.contestants import FLOOR, Contestant
from taskmachine.adapters.cli.bench.figures import Failed, Row, row_of
from taskmachine.adapters.cli.bench.processes import Address, NotStarted, serving
from taskmachine.adapters.cli.bench.workload import JUDGED_CLIENTS, Workload

__all__ = ["Measure", "Round", "Taken", "run_rounds"]

Taken = Mapping[str, Mapping[str, float] | str]
"""Values by name for each case, or the reason why there are none."""


class Round(NamedTuple):
    contestant: Contestant
    address: Address
    floor: Address
    workload: Workload


class Measure(NamedTuple):
    """A measurement taken on a running server."""

    name: str
    take: Callable[[Round], Taken]
    """Takes the measurement, or raises `Failed`."""
    is_for: Callable[[Contestant], bool] = lambda contestant: True
    is_repeated: bool = False
    """Whether it is also taken in the reduced rounds."""


def run_rounds(
    measures: Sequence[Measure],
    contestants: Sequence[Contestant],
    workload: Workload,
    folder: Path,
    say: Callable[[str], None],
) -> list[Row]:
    """Run all rounds; a contestant that fails a measure once is not measured in it again."""
    taken: dict[tuple[str, Contestant], list[Taken]] = {}
    skipped: dict[tuple[str, Contestant], str] = {}
    for measure in measures:
        for one in contestants:
            if measure.is_for(one):
                taken[measure.name, one] = []
                if one.missing:
                    skipped[measure.name, one] = one.missing
    with serving(FLOOR, folder / "floor.txt") as floor:
        for number in range(workload.rounds):
            is_whole = number < workload.whole_rounds
            now = workload if is_whole else attrs.evolve(workload, clients=(JUDGED_CLIENTS,))
            for one in contestants:
                left = [
                    measure
                    for measure in measures
                    if (is_whole or measure.is_repeated)
                    and (measure.name, one) in taken
                    and (measure.name, one) not in skipped
                ]
                if not left:
                    continue
                say(f"round {number + 1} of {workload.rounds}: {one}")
                for name, found in _visit(one, left, floor, folder, now).items():
                    if isinstance(found, str):
                        skipped[name, one] = found
                    else:
                        taken[name, one].append(found)
    return [row for key in taken for row in _rows(*key, taken[key], skipped.get(key, ""))]


def _visit(
    one: Contestant, measures: Sequence[Measure], floor: Address, folder: Path, workload: Workload
) -> dict[str, Taken | str]:
    """Return the result of each measure, or the reason why there is none."""
    found: dict[str, Taken | str] = {}
    with tempfile.TemporaryDirectory(dir=folder) as name, contextlib.ExitStack() as stack:
        own = Path(name)
        try:
            address = stack.enter_context(serving(one.http(own, stack), own / "output.txt"))
        except (NotStarted, OSError) as error:
            return dict.fromkeys((measure.name for measure in measures), f"not started: {error}")
        for measure in measures:
            try:
                found[measure.name] = measure.take(Round(one, address, floor, workload))
            except Failed as error:
                found[measure.name] = str(error)
    return found


def _rows(measure: str, one: Contestant, rounds: Sequence[Taken], skipped: str) -> list[Row]:
    if skipped:
        return [Row(measure, one.name, one.revision, "", skipped=skipped)]
    return [
        _row(measure, one, case, [taken[case] for taken in rounds if case in taken])
        for case in rounds[0]
    ]


def _row(
    measure: str, one: Contestant, case: str, rounds: Sequence[Mapping[str, float] | str]
) -> Row:
    values = [found for found in rounds if not isinstance(found, str)]
    for found in rounds:
        if isinstance(found, str):
            return Row(measure, one.name, one.revision, case, skipped=found)
    return row_of(measure, one.name, one.revision, case, values)
