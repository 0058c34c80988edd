"""Two lanes of tests, as a pytest plugin: `pytest` runs the first, `pytest -m slow` the second.

A test of the second lane is marked `slow` and with the name of its piece.  At its end a run says
which tests it left out and which command runs them.
"""

import functools
import hashlib
import os
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Container
from pathlib import Path
from typing import Any, Final

import pytest

from tests.oracle import REPOSITORY

PIECES: Final = {
    "bugs": "planted bugs end to end: `taskmachine check` finds each, and nothing else",
    "lifecycle": "planted bugs in stores and servers, found by the state machines",
    "kills": "servers and workers killed with SIGKILL while they work",
    "peers": "official SDKs, FastMCP and the official conformance suite, from PyPI and npm",
    "chaos": "a fleet on PostgreSQL: processes killed and paused, connections cut",
    "replicas": "several servers on one PostgreSQL",
    "faults": "hostile and slow peers, failing stores",
    "browser": "the console, and the search of the site, in Chromium",
    "benchmarks": "each benchmark once, with little work",
}
"""The second lane: `pytest -m NAME` runs one piece."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lanes", "the second lane of tests")
    group.addoption("--minutes", type=float, help="start no test after this many minutes")
    group.addoption("--first", choices=PIECES, help="run this piece first; default: by the hour")
    group.addoption("--resume", action="store_true", help="leave out what passed on this commit")


def pytest_configure(config: pytest.Config) -> None:
    for name, what in PIECES.items():
        config.addinivalue_line("markers", f"{name}: {what}")
    config.pluginmanager.register(Lanes(config), "lanes")


def pytest_xdist_auto_num_workers() -> int:
    """Return two workers more than there are cores, since many tests wait for other processes."""
    return (os.cpu_count() or 1) + 2


class Lanes:
    """One run: the tests it leaves out, its deadline, the time of each piece."""

    def __init__(self, config: pytest.Config) -> None:
        self.left_out: Counter[str] = Counter()
        self.ran: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        minutes = config.getoption("minutes")
        self.shared: dict[str, Any] = getattr(config, "workerinput", {}).get("lanes") or {
            "deadline": minutes and time.time() + minutes * 60,
            "first": config.getoption("first")
            or (minutes and list(PIECES)[int(time.time() // 3600) % len(PIECES)]),
            "passed": _lines(_record(config)) if config.getoption("resume") else [],
        }
        self.is_worker = hasattr(config, "workerinput")
        self.config = config

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["lanes"] = self.shared

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.left_out |= Counter(getattr(node, "workeroutput", {}).get("left_out", {}))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.is_worker:
            session.config.workeroutput["left_out"] = dict(self.left_out)  # type: ignore[attr-defined]

    def pytest_report_header(self) -> str | None:
        first = self.shared["first"]
        return f"lanes: {first} first (repeat with --first {first})" if first else None

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Put style and types first, since they take longest, then the pieces in their order."""
        passed = set(self.shared["passed"])
        if again := [item for item in items if item.nodeid in passed]:
            items[:] = [item for item in items if item.nodeid not in passed]
            config.hook.pytest_deselected(items=again)
        order = list(PIECES)
        if first := self.shared["first"]:
            start = order.index(first)
            order = order[start:] + order[:start]
        items.sort(key=lambda item: _position(item, order))

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.left_out.update(_lane(item.keywords) for item in items if "slow" in item.keywords)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        deadline = self.shared["deadline"]
        if deadline and time.time() > deadline:
            pytest.skip("no time left (--minutes)")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.is_worker or "slow" not in report.keywords:
            return
        piece = _lane(report.keywords)
        self.seconds[piece] += report.duration
        if report.when == "call":
            self.ran[piece] += 1
            if report.passed:  # at once, for a run that is interrupted
                with _record(self.config).open("a") as record:
                    record.write(f"{report.nodeid}\n")

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        write = terminalreporter.write_line
        for piece, count in self.ran.most_common():
            write(f"{piece}: {count} tests, {self.seconds[piece] / 60:.1f} minutes of work")
        if self.left_out and config.getoption("markexpr") == "not slow":
            pieces = ", ".join(f"{name} {count}" for name, count in sorted(self.left_out.items()))
            write(f"Not run: {self.left_out.total()} tests of the slow lane ({pieces}).")
            write("Run them with `pytest -m slow`, or a piece with `pytest -m NAME`.")


def _lane(keywords: Container[str]) -> str:
    return next((name for name in PIECES if name in keywords), "first lane")


@functools.cache
def _record(config: pytest.Config) -> Path:
    """Return the list of slow tests that passed on this commit with these changes."""
    assert config.cache is not None
    git = ["git", "-C", str(REPOSITORY)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=False).stdout
    changes = subprocess.run([*git, "diff", "HEAD"], capture_output=True, check=False).stdout
    state = hashlib.sha256(commit + changes).hexdigest()[:16]
    return config.cache.mkdir("slow-lane") / state


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _position(item: pytest.Item, order: list[str]) -> int:
    if item.path.name == "test_style.py":
        return -1
    marks = {mark.name for mark in item.iter_markers()}
    if "slow" not in marks:
        return len(order)
    piece = _lane(marks)
    if piece not in order:
        raise pytest.UsageError(f"{item.nodeid} is slow: mark it with one of {', '.join(PIECES)}")
    return order.index(piece)
