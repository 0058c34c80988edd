"""Explore a target with random moves, and shrink each fault to the fewest moves."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

import attrs
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from taskmachine.adapters.conformance.catalogue import requirements_of_servers
from taskmachine.adapters.conformance.exploration.moves import MOST_TASKS, ROLES, Example, Move
from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.report import judge_all
from taskmachine.adapters.conformance.wire.caller import TargetLost

__all__ = ["Fault", "explore", "run_moves"]

STEPS: Final = 10
MOST_FAULTS: Final = 5
"""Maximum number of distinct faults to shrink; each needs many examples."""


class Limits(Protocol):
    """How much to explore."""

    @property
    def seed(self) -> int: ...
    @property
    def examples(self) -> int: ...
    def wanted(self, ids: list[str]) -> frozenset[str]:
        """Return the selected requirements."""


@attrs.frozen
class Fault(Exception):
    """A sequence of moves that violates a requirement."""

    id: str
    words: str
    moves: tuple[Move, ...]


async def explore(
    harness: Harness, limits: Limits, left_ms: float, on_progress: Callable[[str], None]
) -> Mapping[str, Fault]:
    """Return faults that the probes did not find, each with the fewest moves that show it.

    After the deadline examples do nothing, so that no more faults are found.
    """
    if not any(role in harness.profile.calls for role in ROLES):
        return {}
    loop = asyncio.get_running_loop()
    deadline = loop.time() + left_ms / 1_000
    known = {id for id, _ in _broken(harness, limits, 0)}
    faults: dict[str, Fault] = {}
    while len(faults) < MOST_FAULTS:

        def in_loop(work: Coroutine[Any, Any, Any]) -> Any:
            if loop.time() > deadline:
                work.close()
                return None
            return asyncio.run_coroutine_threadsafe(work, loop).result()

        seen: list[Fault] = []

        async def judged(moves: tuple[Move, ...], seen: list[Fault] = seen) -> None:
            fault = await run_moves(harness, limits, moves, frozenset(known))
            if fault is not None:
                seen.append(fault)
                raise fault

        machine = _machine(harness, in_loop, judged)
        try:
            await asyncio.to_thread(_run, machine, limits.seed, limits.examples)
        except (Fault, FlakyFailure):  # a fault that does not occur each time counts, too
            fault = min(seen, key=lambda one: len(one.moves))
            on_progress(f"{fault.id}: {fault.words}")
            faults[fault.id] = fault
            known.add(fault.id)
        else:
            break
    return faults


async def run_moves(
    harness: Harness,
    limits: Limits,
    moves: tuple[Move, ...],
    known: frozenset[str] = frozenset(),
) -> Fault | None:
    """Make these moves, and return the first violation that is not known."""
    since = len(harness.recorder)
    one = Example(harness)
    try:
        for move in moves:
            await one.make(move)
        await one.end()
    except TargetLost:
        pass  # judge the messages recorded until then
    for id, words in _broken(harness, limits, since):
        if id not in known:
            return Fault(id, words, moves)
    return None


def _broken(harness: Harness, limits: Limits, since: int) -> list[tuple[str, str]]:
    requirements = requirements_of_servers(harness.revision)
    history = harness.history(since)
    findings = judge_all(history, requirements, limits.wanted(list(requirements)))
    return [(f.id, f.words) for f in findings if f.verdict in (Verdict.FAIL, Verdict.WARNING)]


def _run(machine: type[RuleBasedStateMachine], number: int, examples: int) -> None:
    run_state_machine_as_test(
        seed(number)(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )


def _machine(
    harness: Harness,
    in_loop: Callable[[Coroutine[Any, Any, Any]], Any],
    judged: Callable[[tuple[Move, ...]], Coroutine[Any, Any, None]],
) -> type[RuleBasedStateMachine]:
    """Return a state machine with the moves that this target supports.

    It collects moves, and makes them when the example is complete.
    """
    roles = [role.value for role in ROLES if role in harness.profile.calls]
    task = st.integers(0, MOST_TASKS - 1)
    lookups = ["tasks/get", "tasks/cancel"]
    lookups += ["tasks/result"] if harness.revision == "2025-11-25" else []

    class Moves(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.moves: list[Move] = []

        @rule(role=st.sampled_from(roles), reports=st.booleans())
        def create(self, role: str, reports: bool) -> None:
            self.moves.append({"do": "create", "role": role, "reports": reports})

        @rule(role=st.sampled_from(roles), ttl=st.sampled_from([1_000, 60_000, 10**9, None]))
        def create_with_ttl(self, role: str, ttl: int | None) -> None:
            self.moves.append({"do": "create", "role": role, "ttl": ttl})

        @rule(task=task)
        def poll(self, task: int) -> None:
            self.moves.append({"do": "poll", "task": task})

        @rule(task=task)
        def poll_naming_another_task(self, task: int) -> None:
            self.moves.append({"do": "poll", "task": task, "related": "another"})

        @rule(ms=st.sampled_from([1, 20, 100, 300]))
        def pause(self, ms: int) -> None:
            self.moves.append({"do": "pause", "ms": ms})

        @rule(task=task)
        def wait_for_result(self, task: int) -> None:
            self.moves.append({"do": "result", "task": task})

        @rule(task=task)
        def leave(self, task: int) -> None:
            self.moves.append({"do": "leave", "task": task})

        @rule(next=st.booleans())
        def list(self, next: bool) -> None:
            self.moves.append({"do": "list", "next": next})

        @rule(
            task=task,
            which=st.sampled_from(["all", "first"]),
            how=st.sampled_from(["well", "decline", "cancel", "wrong", "unknown"]),
        )
        def answer(self, task: int, which: str, how: str) -> None:
            self.moves.append({"do": "answer", "task": task, "which": which, "how": how})

        @rule(task=task)
        def cancel(self, task: int) -> None:
            self.moves.append({"do": "cancel", "task": task})

        @rule(method=st.sampled_from(lookups))
        def unknown(self, method: str) -> None:
            self.moves.append({"do": "unknown", "method": method})

        @rule(task=task, method=st.sampled_from(lookups))
        def foreign(self, task: int, method: str) -> None:
            self.moves.append({"do": "foreign", "task": task, "method": method})

        def teardown(self) -> None:
            in_loop(judged(tuple(self.moves)))

    return Moves
