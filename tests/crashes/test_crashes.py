"""Acknowledged writes survive kill -9, and the checks would find a loss.

SIGKILL ends the process but not the machine: data that the process handed to the operating system
is kept.  That acknowledged writes also survive a power cut is shown by the order of system calls.
"""

import asyncio
import copy
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import attrs
import msgspec
import pytest

from taskmachine.adapters.stores.sqlite.schema import connect, prepare
from taskmachine.statemachine import Entry, Event, State
from tests.crashes.campaign import Figures, campaign
from tests.crashes.evidence import Answered, Evidence, Kept, Observation, Stepped
from tests.crashes.verdict import CHECKS, verdict
from tests.crashes.victim import Order
from tests.oracle import REPOSITORY

KILLS = 60
SEED = 20260728


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    figures = Figures()
    evidence = asyncio.run(campaign(tmp_path_factory.mktemp("crashes"), KILLS, SEED, figures))
    assert figures.kills == KILLS
    assert figures.kills_beside_another
    return evidence


def test_nothing_that_was_acknowledged_is_lost(evidence: Evidence) -> None:
    assert verdict(evidence) == [], f"python -m tests.crashes --kills {KILLS} --seed {SEED}"


@pytest.mark.slow
@pytest.mark.kills
def test_five_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    evidence = asyncio.run(campaign(tmp_path, 500, SEED, Figures()))
    assert verdict(evidence) == [], f"python -m tests.crashes --kills 500 --seed {SEED}"


def test_the_campaign_exercised_every_outcome(evidence: Evidence) -> None:
    assert len(evidence.made) >= KILLS
    assert len(evidence.answered) >= KILLS / 4
    assert any(task.losses for task in evidence.tasks.values())
    causes = {task.outcome.cause for task in evidence.tasks.values() if task.outcome}
    assert causes >= {"result", "error", "cancelled", "worker_lost"}
    assert any(task.open_questions for task in evidence.tasks.values())
    assert any(task.failures for task in evidence.tasks.values())
    assert len({(step.task_id, step.key) for step in evidence.stepped}) < len(evidence.stepped), (
        "no kill came between the end of a step and its record"
    )


# --- each check finds a violation --------------------------------------------------------------


def lose_a_task(evidence: Evidence) -> None:
    del evidence.tasks[next(iter(evidence.made))]


def show_an_old_version(evidence: Evidence) -> None:
    last = max(evidence.observations, key=lambda seen: (seen.version > 1, seen.until))
    evidence.observations.append(
        msgspec.structs.replace(
            last, version=last.version - 1, since=last.until + 1, until=last.until + 2
        )
    )


def end_twice(evidence: Evidence) -> None:
    ended = next(seen for seen in evidence.observations if seen.outcome is not None)
    evidence.observations.append(msgspec.structs.replace(ended, outcome=b"another"))


def forget_a_question(evidence: Evidence) -> None:
    asked = next(seen for seen in evidence.observations if seen.questions)
    evidence.observations.append(newer(evidence, asked, questions={}))


def forget_an_answer(evidence: Evidence) -> None:
    asked = next(
        seen
        for seen in evidence.observations
        if any(answer for _, answer in seen.questions.values())
    )
    questions = {key: (request, None) for key, (request, _) in asked.questions.items()}
    evidence.observations.append(newer(evidence, asked, questions=questions))


def newer(evidence: Evidence, seen: Observation, **changes: object) -> Observation:
    of_task = [other.version for other in evidence.observations if other.task_id == seen.task_id]
    return msgspec.structs.replace(seen, version=max(of_task) + 1, **changes)


def keep_another_answer(evidence: Evidence) -> None:
    first = evidence.answered[0]
    evidence.answered.append(Answered(first.task_id, first.key, b"{}"))


def return_something_else(evidence: Evidence) -> None:
    task = next(task for task in evidence.tasks.values() if task.state is State.COMPLETED)
    assert task.outcome is not None
    other = attrs.evolve(task.outcome, result=b'{"content":[{"type":"text","text":"quick 1000"}]}')
    evidence.tasks[task.id] = attrs.evolve(task, outcome=other)


def leave_work(evidence: Evidence) -> None:
    task = next(task for task in evidence.tasks.values() if task.state is State.COMPLETED)
    evidence.tasks[task.id] = attrs.evolve(task, state=State.SUBMITTED)


def hold_a_task(evidence: Evidence) -> None:
    task = next(task for task in evidence.tasks.values() if task.open_questions)
    evidence.tasks[task.id] = attrs.evolve(task, worker="unknown")


def cost_workers(evidence: Evidence) -> None:
    task = next(iter(evidence.tasks.values()))
    evidence.tasks[task.id] = attrs.evolve(task, losses=4)


def repeat(evidence: Evidence) -> None:
    task = next(task for task in evidence.tasks.values() if not task.is_repeatable)
    evidence.ran[task.id] = 2


def run_a_recorded_step(evidence: Evidence) -> None:
    kept = evidence.kept[0]
    place = (kept.task_id, kept.key, "another run", kept.result)
    evidence.stepped.append(Stepped(kept.at + 1, *place))
    evidence.kept.append(Kept(kept.at + 2, *place))


def wake_too_early(evidence: Evidence) -> None:
    task_id, index = next(
        (task_id, index)
        for task_id, entries in evidence.entries.items()
        for index, entry in enumerate(entries)
        if entry.event is Event.START and entries[index - 1].note == "parked" and slept(entries)
    )
    entries = list(evidence.entries[task_id])
    entries[index] = attrs.evolve(entries[index], at=0)
    evidence.entries[task_id] = entries


def slept(entries: Sequence[Entry]) -> bool:
    return any(entry.data is not None and b'"sleep"' in entry.data for entry in entries)


def lose_a_step(evidence: Evidence) -> None:
    task_id = evidence.kept[0].task_id
    evidence.entries[task_id] = [attrs.evolve(e, data=None) for e in evidence.entries[task_id]]


def call_a_step_too_often(evidence: Evidence) -> None:
    evidence.stepped += [evidence.stepped[0]] * 10


def use_a_key_twice(evidence: Evidence) -> None:
    owner_and_key, task_ids = next(iter(evidence.keys.items()))
    evidence.keys[owner_and_key] = task_ids | {"another"}


def rewrite_history(evidence: Evidence) -> None:
    task_id, entries = next(iter(evidence.histories.items()))
    evidence.histories[task_id] = [attrs.evolve(entries[0], at=0), *entries[1:]]


def complain(evidence: Evidence) -> None:
    evidence.complaints.append("The file is damaged.")


BROKEN: list[tuple[str, Callable[[Evidence], None]]] = [
    ("the_ten_invariants_hold", lose_a_task),
    ("the_ten_invariants_hold", end_twice),
    ("the_ten_invariants_hold", run_a_recorded_step),
    ("the_ten_invariants_hold", wake_too_early),
    ("versions_never_go_back", show_an_old_version),
    ("a_version_is_the_same_for_all_callers", end_twice),
    ("questions_and_answers_are_kept", forget_a_question),
    ("questions_and_answers_are_kept", forget_an_answer),
    ("an_accepted_answer_is_kept", keep_another_answer),
    ("a_result_is_that_of_the_call", return_something_else),
    ("nothing_is_stuck", leave_work),
    ("nothing_is_stuck", hold_a_task),
    ("retries_are_bounded", cost_workers),
    ("unrepeatable_tasks_run_once", repeat),
    ("a_recorded_step_is_not_called_again", run_a_recorded_step),
    ("a_recorded_step_is_kept", lose_a_step),
    ("a_run_calls_a_step_once", call_a_step_too_often),
    ("a_key_names_one_task", use_a_key_twice),
    ("a_history_only_grows", rewrite_history),
    ("there_are_no_complaints", complain),
]


@pytest.mark.parametrize(("name", "tamper"), BROKEN)
def test_it_is_found(name: str, tamper: Callable[[Evidence], None], evidence: Evidence) -> None:
    broken = copied(evidence)
    tamper(broken)
    assert any(why.startswith(f"{name}: ") for why in verdict(broken))


def copied(evidence: Evidence) -> Evidence:
    double = copy.copy(evidence)
    for field in attrs.fields(Evidence):
        setattr(double, field.name, copy.copy(getattr(evidence, field.name)))
    return double


def test_every_check_was_tried() -> None:
    assert {name for name, _ in BROKEN} == {check.__name__ for check in CHECKS}


# --- power ---------------------------------------------------------------------------------------


def test_connections_sync_each_commit(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    prepare(path)
    with closing(connect(path)) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with closing(sqlite3.connect(path)) as other:  # the setting is not stored in the file
        assert other.execute("PRAGMA synchronous").fetchone() != (0,)


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_the_log_is_synced_before_a_create_is_acknowledged(tmp_path: Path) -> None:
    """There is a sync of the write-ahead log between two acknowledgements."""
    trace = tmp_path / "trace"
    order = Order(f"sqlite:{tmp_path / 'tasks.db'}", 0, "traced", "create")
    command = [sys.executable, "-m", "tests.crashes.victim", msgspec.json.encode(order).decode()]
    subprocess.run(
        ["strace", "-f", "-e", "trace=write,fsync,fdatasync", "-o", trace, *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=REPOSITORY, check=True,
    )  # fmt: skip
    acknowledged, synced, unsynced = 0, False, 0
    for line in trace.read_text().splitlines():
        if "sync" in line and line.endswith("= 0"):
            synced = True
        elif r"\"Made\"" in line:
            acknowledged += 1
            unsynced += not synced
            synced = False
    assert (acknowledged, unsynced) == (20, 0)
