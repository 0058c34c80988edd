"""Functions that read tasks and metadata from a history."""

import pytest

from taskmachine.adapters.conformance.checks.reading import meta, task_rules
from taskmachine.adapters.conformance.checks.reading.task_rules import Timestamp
from tests.conformance.histories.messages import a_task, messages


def test_two_tasks_with_the_same_id_are_not_followed() -> None:
    history = messages().create(a_task("a")).create(a_task("a")).get(a_task("a", "completed"))
    assert list(task_rules.task_records(history.history)) == []


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_poll_may_skip_a_status_but_no_status_follows_the_end(revision: str) -> None:
    follow = task_rules.reachable_statuses(revision)
    everything = {"working", "input_required", "completed", "failed", "cancelled"}
    assert follow["working"] == follow["input_required"] == everything
    assert all(follow[end] == {end} for end in ("completed", "failed", "cancelled"))


@pytest.mark.parametrize(
    ("one", "other", "is_before"),
    [
        ("2026-11-16T10:00:00Z", "2026-11-16T10:00:01Z", True),
        ("2026-11-16T10:00:00.1Z", "2026-11-16T10:00:00.2Z", True),
        ("2026-11-16T10:00:00Z", "2026-11-16T10:00:00.9Z", False),
        ("2026-11-16T10:00:00.000001Z", "2026-11-16T10:00:00.000002Z", True),
        ("2026-11-16T10:00:00Z", "2026-11-16T10:00:00Z", False),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:02Z", True),
    ],
)
def test_the_coarser_timestamp_decides_the_order(one: str, other: str, is_before: bool) -> None:
    first, second = Timestamp.parse(one), Timestamp.parse(other)
    assert first is not None
    assert second is not None
    assert first.is_before(second) is is_before
    assert not second.is_before(first)


def test_only_metadata_of_the_protocol_is_read() -> None:
    wrong = {"_meta": {"-": 1}}
    tools = [{"name": "t", "inputSchema": wrong}]
    free = {"structuredContent": wrong, "tools": tools, "_meta": {"a": wrong}}
    assert list(meta.meta_keys({"result": free})) == ["a"]
    assert list(meta.meta_keys({"result": {"content": [wrong]}})) == ["-"]
    assert list(meta.meta_keys({"params": {"_meta": {"b": 1}}})) == ["b"]
