"""Linearizability of one task as a register: does an order explain all of its reads?

The writes and their order are known from the task's history.  A read shows a status and the time
of the last change, which match some of the versions.  It takes effect at one moment between its
call and its response, so

- no version is shown before it was written,
- and of two reads that do not overlap, by any callers, the later one shows no older version.

Since the order of the writes is fixed, assigning the oldest possible version to one read after
the other finds an order if there is one.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

__all__ = ["SLACK_MS", "Read", "Step", "linearize"]

SLACK_MS: Final = 100
"""Largest difference between two clocks of one machine."""

NS_PER_MS: Final = 1_000_000


@attrs.frozen
class Step:
    """One write: from this version on, the task has these statuses (by wire)."""

    version: int
    at_ms: int
    statuses: Mapping[str, str]
    is_change: bool
    """Whether the change is certainly visible, so that reads show its time."""


@attrs.frozen
class Read:
    """The status shown by a call between two moments of the monotonic clock."""

    since: int
    until: int
    wire: str
    status: str
    updated_ms: int | None
    """Time of the last visible change; None if not shown."""
    version: int | None = None
    """None if not shown."""


def linearize(
    steps: Sequence[Step], reads: Sequence[Read], epoch_ms: float
) -> tuple[list[int | None], list[str]]:
    """Return the version that each read showed (None if there is none), and all violations.

    `epoch_ms` is the clock of the steps when the monotonic clock was at 0.
    """
    versions: list[int | None] = [None] * len(reads)
    wrong: list[str] = []
    register = _Register(steps)
    finished: list[tuple[int, int]] = []
    floor = 0
    for index in sorted(range(len(reads)), key=lambda index: reads[index].since):
        read = reads[index]
        while finished and finished[0][0] < read.since:
            floor = max(floor, heapq.heappop(finished)[1])
        spans = list(register.spans(read))
        fitting = [(low, high) for low, high in spans if high >= floor]
        if not spans:
            wrong.append(f"{_shown(read)}, which was never written")
        elif not fitting:
            newest = max(high for _, high in spans)
            wrong.append(f"{_shown(read)} (version {newest}) after version {floor} had been shown")
        else:
            version = versions[index] = max(floor, min(low for low, _ in fitting))
            heapq.heappush(finished, (read.until, version))
            ahead = register.begun_ms(version) - (read.until / NS_PER_MS + epoch_ms)
            if ahead > SLACK_MS:
                wrong.append(f"{_shown(read)}, {ahead:.0f} ms before it was written")
    return versions, wrong


class _Register:
    """The versions of a task, and which of them a read may have shown."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._ends = [step.version - 1 for step in steps[1:]] + [2**63]
        self._changed_ms: list[int] = []
        newest = 0
        for step in steps:
            newest = max(newest, step.at_ms)  # times never go back with the clock
            self._changed_ms.append(newest)

    def begun_ms(self, version: int) -> int:
        """Return the earliest time at which this version can have been written."""
        return max(step.at_ms for step in self._steps if step.version <= version)

    def spans(self, read: Read) -> Iterator[tuple[int, int]]:
        """Yield ranges of versions that match the read, oldest first."""
        for index, (step, end) in enumerate(zip(self._steps, self._ends, strict=True)):
            if step.statuses[read.wire] != read.status or not self._may_show(index, read):
                continue
            if read.version is None:
                yield step.version, end
            elif step.version <= read.version <= end:
                yield read.version, read.version

    def _may_show(self, index: int, read: Read) -> bool:
        """Return whether the last visible change may have been at the time shown."""
        if read.updated_ms is None:
            return True
        while self._changed_ms[index] != read.updated_ms:
            if not index or self._steps[index].is_change:
                return False
            index -= 1
        return True


def _shown(read: Read) -> str:
    when = "" if read.updated_ms is None else f" since {read.updated_ms}"
    return f"was shown as {read.status}{when} on {read.wire}"
