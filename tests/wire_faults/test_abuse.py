"""The server answers malformed input with proper errors, and its memory does not grow.

`python -m tests.wire_faults --full` sends 10,000 requests each.
"""

from pathlib import Path

from tests.wire_faults.abuse import abuse_http, abuse_stdio
from tests.wire_faults.garbage import Garbage

MOST_GROWTH = 0.10


def test_garbage_over_http(tmp_path: Path) -> None:
    report = abuse_http(tmp_path, 1_500)
    assert report.wrong == []
    assert report.growth <= MOST_GROWTH, report
    # The garbage reaches every stage of the validation.
    assert {
        "200",
        "400",
        "404",
        "405",
        "406",
        "413",
        "415",
        "400 not HTTP",
    } <= report.statuses.keys()


def test_garbage_over_stdio(tmp_path: Path) -> None:
    report = abuse_stdio(tmp_path, 2_000)
    assert report.wrong == []
    assert report.growth <= MOST_GROWTH, report
    codes = {"-32700", "-32600", "-32601", "-32602", "-32022", "result"}
    assert codes <= report.statuses.keys()


def test_the_same_seed_makes_the_same_garbage() -> None:
    first, second = Garbage(5), Garbage(5)
    assert [first.request() for _ in range(200)] == [second.request() for _ in range(200)]
