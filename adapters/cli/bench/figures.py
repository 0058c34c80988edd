"""Measurements: rows of named values, aggregated over rounds."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import cattrs
import msgspec

__all__ = ["Failed", "Report", "Row", "case_of", "from_json", "percentile", "row_of", "to_json"]

Values = Mapping[str, float]


class Failed(Exception):
    """A contestant could not be measured, because its answer was wrong or missing."""


@attrs.frozen
class Row:
    """One contestant in one case of one measure."""

    measure: str
    contestant: str
    revision: str
    case: str
    values: dict[str, float] = attrs.field(factory=dict)
    """The median over all rounds of each value."""
    rounds: list[dict[str, float]] = attrs.field(factory=list)
    skipped: str = ""
    """The reason why there are no values."""


@attrs.frozen
class Report:
    """The results of a whole run."""

    date: str
    command: str
    machine: dict[str, str]
    rounds: int
    seconds: float
    is_quick: bool
    rows: list[Row]
    programs: dict[str, str] = attrs.field(factory=dict)
    """The packages installed for each contestant."""


def row_of(
    measure: str, contestant: str, revision: str, case: str, rounds: Sequence[Values]
) -> Row:
    names = dict.fromkeys(name for values in rounds for name in values)
    middle = {
        name: statistics.median(values[name] for values in rounds if name in values)
        for name in names
    }
    return Row(measure, contestant, revision, case, middle, [dict(values) for values in rounds])


def case_of(clients: int) -> str:
    """Return the name of the case with that many clients."""
    return f"{clients} at a time"


def percentile(values: Sequence[float], part: float) -> float:
    """Return the percentile of some values."""
    return sorted(values)[int((len(values) - 1) * part)]


_CONVERTER: Final = cattrs.Converter(forbid_extra_keys=True)


def to_json(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(_CONVERTER.unstructure(report)), indent=1)


def from_json(text: bytes) -> Report:
    return _CONVERTER.structure(msgspec.json.decode(text), Report)
