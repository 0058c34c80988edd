"""Each task is a register: is there an order of its reads that explains all of them?

Its writes are known, and their order: the lines of its history.  A read showed a status and the
time of the last change, which fits some of the versions.  It must have taken place at one moment
between its call and its answer, so

- nothing is shown before it was written,
- and of two reads that do not overlap the later one shows nothing older, whoever made them.

Since the order of the writes is fixed, taking the oldest version that is possible for one read
after the other finds an order if there is one.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

__all__ = ["SLACK_MS", "Read", "Step", "order"]

SLACK_MS: Final = 100
"""By how much two clocks of one machine may be apart."""

NS_PER_MS: Final = 1_000_000


@attrs.frozen
class Step:
    """One write: from this version on, the task has this status (by wire)."""

    version: int
    at_ms: int
    statuses: Mapping[str, str]
    is_change: bool
    """Whether it certainly is one that can be seen, so that the time of the last one is its."""


@attrs.frozen
class Read:
    """What was shown between two moments of the monotonic clock."""

    since: int
    until: int
    wire: str
    status: str
    updated_ms: int | None
    """When the last change was that can be seen; None if it was not shown."""
    version: int | None = None
    """None if it was not shown."""


def order(
    steps: Sequence[Step], reads: Sequence[Read], epoch_ms: float
) -> tuple[list[int | None], list[str]]:
    """The version that each read showed (None if there is none), and all that is wrong.

    `epoch_ms` is what the clock of the steps showed when the monotonic one was at 0.
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
            wrong.append(f"{_shown(read)}, which nobody ever wrote")
        elif not fitting:
            newest = max(high for _, high in spans)
            wrong.append(f"{_shown(read)} (version {newest}), after version {floor} was there")
        else:
            version = versions[index] = max(floor, min(low for low, _ in fitting))
            heapq.heappush(finished, (read.until, version))
            ahead = register.begun_ms(version) - (read.until / NS_PER_MS + epoch_ms)
            if ahead > SLACK_MS:
                wrong.append(f"{_shown(read)}, {ahead:.0f} ms before that was written")
    return versions, wrong


class _Register:
    """Which versions of a task could have been shown."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._ends = [step.version - 1 for step in steps[1:]] + [2**63]
        self._changed_ms: list[int] = []
        newest = 0
        for step in steps:
            newest = max(newest, step.at_ms)  # a clock that went back is not followed
            self._changed_ms.append(newest)

    def begun_ms(self, version: int) -> int:
        """When somebody set about to write it."""
        return max(step.at_ms for step in self._steps if step.version <= version)

    def spans(self, read: Read) -> Iterator[tuple[int, int]]:
        """Versions with what was shown, from and to; the first ones first."""
        for index, (step, end) in enumerate(zip(self._steps, self._ends, strict=True)):
            if step.statuses[read.wire] != read.status or not self._may_show(index, read):
                continue
            if read.version is None:
                yield step.version, end
            elif step.version <= read.version <= end:
                yield read.version, read.version

    def _may_show(self, index: int, read: Read) -> bool:
        """Whether the last change that can be seen may have been at the time shown."""
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
