"""What is common to all dialects."""

import pytest

from taskmachine.protocol import DIALECTS, dialect
from taskmachine.protocol.timestamps import decode_timestamp, encode_timestamp
from taskmachine.statemachine import ConfigurationError


def test_a_dialect_is_found_by_its_revision() -> None:
    assert dialect("2025-11-25").revision == "2025-11-25"
    assert all(name == spoken.revision for name, spoken in DIALECTS.items())


def test_an_unknown_dialect_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'2024'.*2025-11-25, 2026-07-28, erlmcp"):
        dialect("2024")


@pytest.mark.parametrize(
    ("ms", "stamp"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_001, "2023-11-14T22:13:20.001Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_timestamps_are_utc_with_milliseconds(ms: int, stamp: str) -> None:
    assert encode_timestamp(ms) == stamp
    assert decode_timestamp(stamp) == ms


@pytest.mark.parametrize(
    ("stamp", "ms"),
    [
        ("2025-11-25T10:30:00Z", 1_764_066_600_000),
        ("2025-11-25T11:30:00+01:00", 1_764_066_600_000),
        ("2025-11-25T10:30:00.9999Z", 1_764_066_600_999),
    ],
)
def test_timestamps_of_others_are_understood(stamp: str, ms: int) -> None:
    assert decode_timestamp(stamp) == ms


@pytest.mark.parametrize("stamp", ["", "yesterday", "2025-11-25T10:30:00"])
def test_what_is_no_instant_is_refused(stamp: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid isoformat|no offset"):
        decode_timestamp(stamp)
