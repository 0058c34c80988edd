"""What is said of tasks by how they were shown, in either revision."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from taskmachine.adapters.conformance.checks.reading import task_rules as sightings
from taskmachine.adapters.conformance.checks.reading.task_rules import Timestamp
from taskmachine.adapters.conformance.history import MISSING, History
from taskmachine.adapters.conformance.judging import Observation
from tests.conformance.histories.told import Told, a_task, told

Rule = Callable[[History], Iterable[Observation]]

LATER = "2026-11-16T10:00:05.000Z"
UUIDS = ("0b7e7f4e-6a43-4c38-8d33-5f3a0e4f6d11", "c2f3e1a0-93a7-4f0e-9a41-0d5b8f7c6e22")


def outcomes(rule: Rule, tale: Told) -> set[str]:
    """What the rule says, in one word each."""
    return {observation.outcome for observation in rule(tale.history)}


def seen(*statuses: str, **fields: Any) -> Told:
    """A task that was created, then polled."""
    tale = told().create(a_task())
    for status in statuses:
        tale.get(a_task(status=status, **fields))
    return tale


def made(*ids: str) -> Told:
    """Tasks with these ids, one after the other."""
    tale = told()
    for id in ids:
        tale.create(a_task(id))
    return tale


def overlapping(first: str, second: str, third: str | None = None) -> Told:
    """Two polls at the same time, heard in this order, then perhaps one more."""
    tale = told().create(a_task())
    tale.request("tasks/get", {"taskId": "task-a"}, id="x")
    tale.request("tasks/get", {"taskId": "task-a"}, id="y")
    tale.answer(a_task(status=first), to="x").answer(a_task(status=second), to="y")
    return tale if third is None else tale.get(a_task(status=third))


paths_from_working = partial(sightings.transitions_from, source="working")
created_at = partial(sightings.timestamps, field="createdAt")


_all_fields = partial(
    sightings.fields_present, names=("taskId", "status", "createdAt", "lastUpdatedAt", "ttl")
)


def _status_message(history: History) -> Iterable[Observation]:
    return sightings.optional_string(history, "statusMessage")


KEPT: list[tuple[str, Rule, Told]] = [
    ("same", sightings.terminal_final, seen("completed", "completed")),
    ("unordered", sightings.terminal_final, overlapping("completed", "working")),
    ("missed", paths_from_working, seen("input_required", "working", "completed")),
    ("values", sightings.statuses_known, seen("input_required", "failed")),
    ("offset", created_at, told().create(a_task(createdAt="2026-11-16T12:00:00+02:00"))),
    ("fine", created_at, told().create(a_task(createdAt="2026-11-16T12:00:00.123456789z"))),
    ("rewritten", sightings.created_at_constant, seen(createdAt="2026-11-16T11:00:00+01:00")),
    ("same", sightings.created_at_constant, seen("working", "completed")),
    (
        "coarse",
        sightings.last_updated_at_in_order,
        told().create(a_task(createdAt="2026-11-16T10:00:00.900Z", lastUpdatedAt=LATER[:19] + "Z")),
    ),
    ("moved", sightings.last_updated_at_in_order, seen("completed", lastUpdatedAt=LATER)),
    ("at once", sightings.last_updated_at_in_order, seen("completed")),
    ("ids", sightings.ids_unique, made("a", "b", "c")),
    ("uuids", sightings.ids_unguessable, made(*UUIDS)),
    ("prefixed", sightings.ids_unguessable, made(*(f"task_{id}" for id in UUIDS))),
    ("strings", sightings.ids_are_strings, made("a")),
    ("all", _all_fields, told().create(a_task(ttl=None))),
    ("text", _status_message, told().create(a_task(statusMessage="at it"))),
]

BROKEN: list[tuple[str, Rule, Told]] = [
    ("back to life", sightings.terminal_final, seen("completed", "working")),
    ("other end", sightings.terminal_final, seen("cancelled", "completed")),
    ("two ends at once", sightings.terminal_final, overlapping("completed", "failed")),
    ("after both", sightings.terminal_final, overlapping("completed", "working", "working")),
    ("unknown", paths_from_working, seen("paused")),
    ("no string", sightings.statuses_known, told().create(a_task(status=["working"]))),
    ("capital", sightings.statuses_known, told().create(a_task(status="Working"))),
    ("number", created_at, told().create(a_task(createdAt=1763287200))),
    ("missing", created_at, told().create(a_task(createdAt=MISSING))),
    ("words", created_at, told().create(a_task(createdAt="Mon Nov 16 2026"))),
    ("moved", sightings.created_at_constant, seen("working", createdAt=LATER)),
    (
        "before creation",
        sightings.last_updated_at_in_order,
        told().create(a_task(lastUpdatedAt="2026-11-16T09:59:59.999Z")),
    ),
    (
        "went back",
        sightings.last_updated_at_in_order,
        told().get(a_task(lastUpdatedAt=LATER)).get(a_task()),
    ),
    (
        "did not move",
        sightings.last_updated_at_in_order,
        told().create(a_task()).wait(500).get(a_task()).get(a_task(status="completed")),
    ),
    ("twice", sightings.ids_unique, made("a", "a")),
    ("counted", sightings.ids_unguessable, made("1", "2", "3")),
    ("named and counted", sightings.ids_unguessable, made("task-9", "task-10", "task-11")),
    ("long and counted", sightings.ids_unguessable, made(*(f"{'7' * 40}{n}" for n in range(3)))),
    ("short", sightings.ids_unguessable, made("k3x9", "p0q2")),
    ("time", sightings.ids_unguessable, made("d9428888-122b-11e1-b85c-61cd3cbb3210")),
    (
        "one part varies",
        sightings.ids_unguessable,
        made(*(f"aaaaaaaa-{n}-bbbbbbbbbbbbbbbbbbbbbbbb" for n in ("1a", "7c", "e0", "42"))),
    ),
    ("number", sightings.ids_are_strings, told().create({"taskId": 7, "status": "working"})),
    ("no ttl", _all_fields, told().create(a_task(ttl=MISSING))),
    ("null", _status_message, told().create(a_task(statusMessage=None))),
]


@pytest.mark.parametrize(("rule", "tale"), [row[1:] for row in KEPT])
def test_what_is_allowed_is_not_condemned(rule: Rule, tale: Told) -> None:
    assert outcomes(rule, tale) <= {"good"}


@pytest.mark.parametrize(("rule", "tale"), [row[1:] for row in BROKEN])
def test_what_is_wrong_is_found(rule: Rule, tale: Told) -> None:
    assert "bad" in outcomes(rule, tale)


def test_an_id_may_come_back_in_another_process() -> None:
    tale = told(transport="stdio").create(a_task("1"), line=1).create(a_task("1"), line=2)
    assert "bad" not in outcomes(sightings.ids_unique, tale)


def test_guessable_ids_are_a_warning_where_callers_have_credentials() -> None:
    tale = told(principals={"A": "alice"})
    for id in ("1", "2", "3"):
        tale.create(a_task(id))
    assert outcomes(sightings.ids_unguessable, tale) == {"warning"}


def test_an_id_that_the_caller_wished_for_says_nothing_about_the_others() -> None:
    tale = made(*UUIDS).create(a_task("mine"), task={"taskId": "mine"})
    assert outcomes(sightings.ids_unguessable, tale) == {"good"}


def test_an_update_that_nobody_can_see_is_a_note_and_of_a_finished_task_a_warning() -> None:
    live = told().get(a_task()).get(a_task(lastUpdatedAt=LATER))
    over = told().get(a_task(status="failed")).get(a_task(status="failed", lastUpdatedAt=LATER))
    assert outcomes(sightings.last_updated_at_in_order, live) == {"note"}
    assert outcomes(sightings.last_updated_at_in_order, over) == {"warning"}


def test_an_update_of_what_only_the_target_understands_is_one() -> None:
    tale = told().get(a_task(xDone=1)).get(a_task(xDone=2, lastUpdatedAt=LATER))
    assert outcomes(sightings.last_updated_at_in_order, tale) == {"good"}


def test_a_shared_id_is_told_by_no_other_rule() -> None:
    tale = made("a", "a").get(a_task("a", "completed"))
    assert list(sightings.task_records(tale.history)) == []


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_whoever_polls_may_miss_a_status_but_never_see_one_after_the_end(revision: str) -> None:
    follow = sightings.reachable_statuses(revision)
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
def test_the_coarser_timestamp_decides_what_is_earlier(
    one: str, other: str, is_before: bool
) -> None:
    first, second = Timestamp.parse(one), Timestamp.parse(other)
    assert first is not None
    assert second is not None
    assert first.is_before(second) is is_before
    assert not second.is_before(first)
