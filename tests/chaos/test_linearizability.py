"""Which reads of one task are linearizable."""

from typing import Final

import pytest

from tests.chaos.linearizability import NS_PER_MS, SLACK_MS, Read, Step, linearize

WIRE: Final = "a wire"


def step(version: int, at_ms: int, status: str, *, is_change: bool = True) -> Step:
    return Step(version, at_ms, {WIRE: status}, is_change)


def read(
    since: int, until: int, status: str, updated_ms: int | None, version: int | None = None
) -> Read:
    """A read; times are in milliseconds, and both clocks start at 0."""
    return Read(since * NS_PER_MS, until * NS_PER_MS, WIRE, status, updated_ms, version)


# Versions 2 and 3 do not change the status; version 3 may change the message.
STEPS: Final = (
    step(1, 1_000, "working"),
    step(2, 2_000, "working", is_change=False),
    step(3, 3_000, "working", is_change=False),
    step(4, 4_000, "input_required"),
    step(6, 5_000, "working"),
    step(7, 6_000, "completed"),
)


@pytest.mark.parametrize(
    ("reads", "versions"),
    [
        ([], []),
        ([read(1_000, 1_001, "working", 1_000)], [1]),
        # The reports had not changed anything that a read shows, or were not shown yet.
        ([read(3_500, 3_501, "working", 1_000)], [1]),
        ([read(3_500, 3_501, "working", 3_000)], [3]),
        # Version 5 has no step and the status of version 4.
        ([read(4_500, 4_501, "input_required", 4_000, 5)], [5]),
        # Two reads that overlap may have any order ...
        (
            [read(3_900, 4_900, "working", 3_000), read(3_950, 4_050, "input_required", 4_000)],
            [3, 4],
        ),
        # ... and a long one may show any version that was current during it.
        ([read(500, 9_000, "working", 5_000), read(600, 8_000, "working", 1_000)], [6, 1]),
        # `tasks/result` does not show the time of the end.
        ([read(900, 6_100, "completed", None)], [7]),
        # The same version repeatedly.
        ([read(at, at + 1, "completed", 6_000) for at in range(6_000, 6_010, 2)], [7] * 5),
        # A known version of an earlier read is the lower bound of the next.
        (
            [read(2_100, 2_101, "working", 2_000, 2), read(2_200, 2_201, "working", 1_000)],
            [2, 2],
        ),
    ],
)
def test_linearizable_reads_have_an_order(reads: list[Read], versions: list[int]) -> None:
    assert linearize(STEPS, reads, 0.0) == (versions, [])


@pytest.mark.parametrize(
    ("reads", "why"),
    [
        # Stale: a newer version was shown before this read began.
        (
            [read(4_100, 4_101, "input_required", 4_000), read(4_200, 4_201, "working", 3_000)],
            "after version 4 had been shown",
        ),
        (
            [read(6_100, 6_101, "completed", 6_000), read(6_200, 6_201, "working", 5_000)],
            "after version 7 had been shown",
        ),
        (
            [read(900, 6_100, "completed", None), read(6_200, 6_201, "working", 5_000)],
            "after version 7 had been shown",
        ),
        # The same status of an older version.
        (
            [read(5_100, 5_101, "working", 5_000), read(5_200, 5_201, "working", 1_000)],
            "after version 6 had been shown",
        ),
        # The database shows the version.
        (
            [read(2_100, 2_101, "working", 2_000, 4), read(2_200, 2_201, "working", 1_000)],
            "was never written",
        ),
        (
            [read(4_000, 4_001, "input_required", 4_000, 5), read(4_002, 4_003, "working", 3_000)],
            "after version 5 had been shown",
        ),
        # Never written: the status, or the status at that time.
        ([read(7_000, 7_001, "failed", 6_000)], "was never written"),
        ([read(7_000, 7_001, "completed", 6_500)], "was never written"),
        # A visible change has its own time.
        ([read(4_500, 4_501, "input_required", 3_000)], "was never written"),
        # Before it was written.
        ([read(3_000, 6_000 - SLACK_MS - 1, "completed", 6_000)], "ms before it was written"),
    ],
)
def test_other_reads_have_none(reads: list[Read], why: str) -> None:
    _, wrong = linearize(STEPS, reads, 0.0)
    assert len(wrong) == 1, wrong
    assert why in wrong[0]


def test_the_order_of_the_records_does_not_matter() -> None:
    stale = read(4_200, 4_201, "working", 3_000)
    fresh = read(4_100, 4_101, "input_required", 4_000)
    assert len(linearize(STEPS, [stale, fresh], 0.0)[1]) == 1
    assert linearize(STEPS, [stale, fresh], 0.0)[0] == [None, 4]


def test_a_wrong_read_does_not_make_others_wrong() -> None:
    reads = [
        read(1_100, 1_101, "completed", 9_999),
        read(1_200, 1_201, "working", 1_000),
        read(4_100, 4_101, "input_required", 4_000),
    ]
    versions, wrong = linearize(STEPS, reads, 0.0)
    assert versions == [None, 1, 4]
    assert len(wrong) == 1


def test_changes_in_one_millisecond_are_distinguished_by_their_order() -> None:
    steps = (
        step(1, 1_000, "working"),
        step(2, 2_000, "input_required"),
        step(3, 2_000, "working"),
        step(4, 2_000, "completed"),
    )
    reads = [read(2_000 + n, 2_001 + n, status, 2_000) for n, status in
             ((0, "input_required"), (10, "working"), (20, "completed"))]  # fmt: skip
    assert linearize(steps, reads, 0.0) == ([2, 3, 4], [])
    _, wrong = linearize(steps, [reads[0], read(2_030, 2_031, "working", 1_000)], 0.0)
    assert len(wrong) == 1


def test_the_offset_of_the_clocks_is_applied() -> None:
    steps = (step(1, 1_001_000, "working"), step(2, 1_006_000, "completed"))
    early, late = read(1_000, 1_010, "completed", 1_006_000), read(6_000, 6_010, "completed", None)
    assert "4990 ms before" in linearize(steps, [early], 1_000_000.0)[1][0]
    assert linearize(steps, [late], 1_000_000.0) == ([2], [])
