"""`disk`: the commit rate of the disk, measured with the bare `sqlite3` module."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from taskmachine.adapters.cli.bench.figures import Row, row_of
from taskmachine.adapters.cli.bench.workload import Workload

__all__ = ["CASE", "measure_disk"]

CASE = "a row in each commit"


def measure_disk(workload: Workload, folder: Path) -> list[Row]:
    """Measure in the folder of the contestants' SQLite files, with the same settings."""
    rounds = [
        {"rate": _rate(folder / f"disk {n}.db", workload.commit_s)} for n in range(workload.rounds)
    ]
    return [row_of("disk", "bare sqlite3", "", CASE, rounds)]


def _rate(file: Path, seconds: float) -> float:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB)")
        done, begun = 0, time.perf_counter()
        while (took := time.perf_counter() - begun) < seconds or not done:
            connection.execute("INSERT INTO rows (body) VALUES (?)", (bytes(100),))
            done += 1
    return done / took
