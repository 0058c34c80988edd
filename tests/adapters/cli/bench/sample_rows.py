"""Sample rows and reports."""

from typing import Final

from taskmachine.adapters.cli.bench.figures import Report, Row, row_of

__all__ = ["MACHINE", "report", "row", "skipped"]

MACHINE: Final = {
    "processor": "A processor with a name that is as long as those of processors are, 3.1 GHz",
    "cores": "2",
    "kernel": "Linux 6.0.0",
    "python": "CPython 3.11.0",
    "taskmachine": "0.1.0",
}


def row(measure: str, contestant: str, revision: str, case: str, /, **values: float) -> Row:
    return row_of(measure, contestant, revision, case, [values])


def skipped(measure: str, contestant: str, revision: str, case: str, why: str) -> Row:
    return Row(measure, contestant, revision, case, skipped=why)


def report(*rows: Row, is_quick: bool = False) -> Report:
    return Report(
        "2026-11-18T00:00:00+00:00", "taskmachine bench", MACHINE, 5, 1.0, is_quick, list(rows)
    )
