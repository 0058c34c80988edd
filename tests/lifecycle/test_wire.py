"""Hypothesis drives real servers over HTTP and stdio, in both generations at once.

Rules send requests and steer the tools; `wire/judge.py` checks what was sent and received when a
run ends.  One HTTP server, one stdio server and the test itself share one store, so that every run
has writers in several processes.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from taskmachine.adapters.stores import open_store
from taskmachine.statemachine.invariants import Event, violations
from tests.adapters.stores.postgres_server import Server, running
from tests.lifecycle.planted_bugs import PLANTED
from tests.lifecycle.wire.http_client import HttpClient
from tests.lifecycle.wire.judge import verdict
from tests.lifecycle.wire.malformed import MALFORMED, Malformed
from tests.lifecycle.wire.record import NEW, OLD, TaskModel, Wire
from tests.lifecycle.wire.run import Client, Run
from tests.lifecycle.wire.servers import Servers, serving
from tests.oracle import LIFECYCLES
from tests.seed import SEED

STEPS: Final = 30
"""Maximum length of a run: longer runs find no more, but take longer to shrink."""

SERVER_FAULTS: Final = (
    "a follower of task",
    "failed to handle a message",
    "a request failed",
    "its tool run failed",
    "the store failed",
)
"""Log lines of a server about failures that no client can cause."""

WIRES: Final = st.sampled_from((OLD, NEW))
TTLS: Final = st.sampled_from((None, 1, 3_600_000))
FIRSTS: Final = st.sampled_from(
    ("nothing", "report", "ask", "sleep", "retry", "race result", "race progress")
)
PICK: Final = st.integers(0, 5)
WHO: Final = st.integers(0, 2)
HTTP_CLIENT: Final = st.integers(0, 1)
MISBEHAVIOUR: Final = st.sampled_from(("session", "stream")) | st.sampled_from(MALFORMED)
ENDS: Final = st.sampled_from(("result", "tool error", "call error", "crash"))
FOREIGN: Final[tuple[tuple[Wire, str], ...]] = (
    (OLD, "tasks/get"),
    (OLD, "tasks/result"),
    (OLD, "tasks/cancel"),
    (NEW, "tasks/get"),
    (NEW, "tasks/update"),
    (NEW, "tasks/cancel"),
)

_T = TypeVar("_T")


def _of(items: list[_T], pick: int) -> _T:
    return items[pick % len(items)]


def _some(find: Callable[[Any], Sequence[object]]) -> Callable[[Any], bool]:
    return lambda machine: bool(find(machine))


class WireMachine(RuleBasedStateMachine):
    """Several owners and both generations on one store.

    A rule picks its task by number, so that failures shrink well.
    """

    servers: Servers
    violations: list[str]
    """All violations of all examples."""

    def __init__(self) -> None:
        super().__init__()
        self.run = Run(self.servers)

    # --- which tasks a rule may pick ---------------------------------------------------------

    def models(self) -> list[TaskModel]:
        return self.run.models

    def busy(self) -> list[TaskModel]:
        """Return the tasks whose tools obey orders."""
        return [model for model in self.models() if model.is_live and not model.is_parked]

    def rested(self) -> list[TaskModel]:
        """Return the tasks that can end a run and begin another one."""
        return [model for model in self.busy() if not (model.unanswered or model.is_stubborn)]

    def asked(self) -> list[TaskModel]:
        """Return the tasks that have asked, those with open questions first."""
        asked = (model for model in self.models() if model.groups)
        return sorted(asked, key=lambda model: not model.unanswered)

    def keyed(self) -> list[TaskModel]:
        return [model for model in self.models() if model.key is not None]

    # --- tasks -------------------------------------------------------------------------------

    @initialize(
        wires=st.tuples(WIRES, WIRES, WIRES),
        ttl=TTLS,
        keys=st.booleans(),
        listeners=st.integers(0, 2),
        firsts=st.tuples(FIRSTS, FIRSTS, FIRSTS),
    )
    def begin(
        self,
        wires: tuple[Wire, Wire, Wire],
        ttl: int | None,
        keys: bool,
        listeners: int,
        firsts: tuple[str, str, str],
    ) -> None:
        """Create and use one task of each client: Hypothesis leaves out some rules in each run."""
        for client in self.run.http_clients[:listeners]:
            self.run.open_get_stream(client)
        for who, (wire, first) in enumerate(zip(wires, firsts, strict=True)):
            self.create(who, wire, ttl, keys)
            model = self.models()[-1]
            if first == "report":
                self.run.report_progress(model)
            elif first.startswith("race "):
                self.run.race(model, first.removeprefix("race "))
            elif first in ("sleep", "retry"):
                self.run.run_again(model, first)
            elif first == "ask":
                self.run.ask(model, 1, park=False)
                self.run.ask_something_else(model)

    @rule(who=WHO, wire=WIRES, ttl=TTLS, key=st.booleans())
    def create(self, who: int, wire: Wire, ttl: int | None, key: bool) -> None:
        client = self.run.clients[who]
        # All owners use the same keys, which are separate for each owner.
        used = {model.key for model in self.models() if model.owner == client.owner}
        name = f"{self.run.number}-{len(used)}" if key else None
        self.run.create(client, wire, ttl if wire == OLD else None, name)

    @precondition(_some(keyed))
    @rule(pick=PICK, wire=WIRES, same=st.booleans())
    def use_key_again(self, pick: int, wire: Wire, same: bool) -> None:
        model = _of(self.keyed(), pick)
        if same:
            self.run.create_again(model, wire)
        else:
            self.run.reuse_key(model, wire)

    @rule(pick=PICK, what=st.sampled_from((OLD, NEW, "list")))
    def read(self, pick: int, what: Wire | Literal["list"]) -> None:
        model = _of(self.models(), pick)
        if what == "list":
            self.run.list_all(self.run.client_of(model.owner))
        else:
            self.run.get(model, what)

    @rule(pick=PICK, wire=WIRES)
    def cancel(self, pick: int, wire: Wire) -> None:
        self.run.cancel(_of(self.models(), pick), wire)

    @precondition(_some(busy))
    @rule(pick=PICK, how=ENDS, and_wait=st.booleans())
    def end(self, pick: int, how: str, and_wait: bool) -> None:
        self.run.end(_of(self.busy(), pick), how, and_wait=and_wait)

    @precondition(_some(busy))
    @rule(pick=PICK, how=ENDS | st.just("progress"))
    def race(self, pick: int, how: str) -> None:
        """Another process cancels a task; its tool ends or reports before its server notices."""
        self.run.race(_of(self.busy(), pick), how)

    @precondition(_some(busy))
    @rule(pick=PICK, stubborn=st.booleans())
    def report(self, pick: int, stubborn: bool) -> None:
        """Report progress; a stubborn tool ignores cancellation from then on."""
        model = _of(self.busy(), pick)
        self.run.report_progress(model)
        if stubborn and not model.is_stubborn:
            model.is_stubborn = True
            self.run.instruct(model, do="ignore cancellation")

    @precondition(_some(rested))
    @rule(pick=PICK, how=st.sampled_from(("sleep", "retry")))
    def run_again(self, pick: int, how: str) -> None:
        self.run.run_again(_of(self.rested(), pick), how)

    # --- questions ---------------------------------------------------------------------------

    @precondition(_some(busy))
    @rule(
        pick=PICK,
        number=st.integers(1, 3),
        park=st.booleans(),
        at_once=st.lists(WIRES, max_size=2),
    )
    def ask(self, pick: int, number: int, park: bool, at_once: list[Wire]) -> None:
        """Ask, and answer some of the questions at once."""
        model = _of(self.busy(), pick)
        may_park = not model.unanswered and not model.is_stubborn
        self.run.ask(model, number, park=park and may_park)
        if OLD in at_once and not self.run.can_deliver(model):
            self.run.wait(model)
        for wire in at_once:
            self._answer(model, wire, more=False)

    @precondition(lambda self: any(model.asked for model in self.busy()))
    @rule(pick=PICK)
    def ask_something_else(self, pick: int) -> None:
        asked = [model for model in self.busy() if model.asked]
        self.run.ask_something_else(_of(asked, pick))

    @precondition(_some(asked))
    @rule(pick=PICK, wire=WIRES, more=st.booleans())
    def answer(self, pick: int, wire: Wire, more: bool) -> None:
        self._answer(_of(self.asked(), pick), wire, more=more)

    def _answer(self, model: TaskModel, wire: Wire, *, more: bool) -> None:
        """Answer one question or `more`, and repeat old answers: the first answer counts."""
        missing = model.unanswered
        if missing and wire == OLD and self.run.can_deliver(model):
            self.run.reply(model, missing[0], twice=more)
        else:
            known = list(model.answers) if model.is_live else list(model.asked)
            self.run.answer(model, [*known, "never-asked", *(missing if more else missing[:1])])

    # --- streams -----------------------------------------------------------------------------

    @rule(pick=PICK)
    def wait(self, pick: int) -> None:
        self.run.wait(_of(self.models(), pick))

    @rule(who=WHO, first=PICK, second=PICK, wire=WIRES)
    def follow(self, who: int, first: int, second: int, wire: Wire) -> None:
        client = self.run.clients[who]
        if wire == NEW:
            models = {_of(self.models(), first): 1, _of(self.models(), second): 2}
            self.run.subscribe(client, list(models))
        elif isinstance(client, HttpClient):
            self.run.open_get_stream(client)

    @precondition(lambda self: bool(self.run.resumable() or self.run.disconnected))
    @rule(for_long=st.booleans())
    def lose_connections(self, for_long: bool) -> None:
        """Disconnect every stream that can be resumed, or resume the disconnected ones."""
        if not self.run.disconnected:
            for stream in self.run.resumable():
                self.run.disconnect(stream)
            if for_long:
                return
        for stream in list(self.run.disconnected):
            self.run.resume(stream)

    @rule(who=HTTP_CLIENT, pick=PICK, session=st.integers(0, 3))
    def leave(self, who: int, pick: int, session: int) -> None:
        """Cancel a blocking call, or end a session."""
        waits = self.run.open_waits()
        if session == 3:
            self.run.renew_session(self.run.http_clients[who])
        elif waits:
            self.run.cancel_wait(_of(waits, pick))

    # --- foreign tasks, malformed requests, plain calls --------------------------------------

    @rule(pick=PICK, away=st.integers(0, 1))
    def access_foreign(self, pick: int, away: int) -> None:
        model = _of(self.models(), pick)
        others: list[Client] = [c for c in self.run.clients if c.owner != model.owner]
        for wire, method in FOREIGN:
            if not self.run.problems():
                self.run.access_foreign(others[away], model, wire, method)

    @rule(who=HTTP_CLIENT, pick=PICK, what=MISBEHAVIOUR)
    def misbehave(self, who: int, pick: int, what: str | Malformed) -> None:
        client, other = self.run.http_clients[who], self.run.http_clients[1 - who]
        if what == "session":
            for verb in ("POST", "GET", "DELETE"):
                self.run.steal_session(client, other, verb)
        elif what == "stream":
            self._replay_foreign(client, pick)
        elif isinstance(what, Malformed):
            self.run.send_malformed(client, what)

    def _replay_foreign(self, client: HttpClient, pick: int) -> None:
        """Try to resume a stream of another owner, which must contain no events."""
        if client.get_stream is not None:
            self.run.renew_session(client)
        ids = [
            channel.last_event_id
            for channel in self.run.evidence.channels
            if channel.last_event_id is not None and channel.owner != client.owner
        ]
        name = str(_of(ids, pick)).rpartition(".")[0] if ids else "nothing"
        self.run.open_get_stream(client, f"{name}.0")

    @rule(who=WHO, what=st.sampled_from(("call", "leave", "ask")))
    def call(self, who: int, what: str) -> None:
        """Send calls that do not create tasks."""
        for wire in (OLD, NEW):
            if what == "ask":
                self.run.ask_once(self.run.clients[who], wire)
            else:
                self.run.call_plainly(self.run.clients[who], wire, leave=what == "leave")

    @precondition(lambda self: not any(model.tool == "expiring" for model in self.models()))
    @rule(who=WHO, wire=WIRES)
    def run_out_of_time(self, who: int, wire: Wire) -> None:
        self.run.run_out_of_time(self.run.clients[who], wire)

    # --- the end -----------------------------------------------------------------------------

    @invariant()
    def no_problem_so_far(self) -> None:
        """End the run at the first problem; the checks of `judge` run at its end."""
        self.servers.check()
        self._report(self.run.problems())

    def teardown(self) -> None:
        try:
            if not self.run.problems():
                self.run.finish()
                self._report(verdict(self.run.evidence))
        finally:
            self.run.close()

    def _report(self, wrong: Sequence[str]) -> None:
        self.violations.extend(wrong)
        assert not wrong, "\n".join(wrong)


def machine_on(servers: Servers) -> type[WireMachine]:
    return type("MachineOnServers", (WireMachine,), {"servers": servers, "violations": []})


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    with running() as database:
        yield database


# Not in memory: two processes cannot share such a store; test_stores.py covers it.
@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'tasks.db'}"
    url: str = request.getfixturevalue("database").new_url()
    return url


DETECTED_BY: Final = {
    "a_stale_write_moves_an_ended_task": "terminal_states_are_sticky|ends_as_it_was_ended",
    "a_stale_report_is_stored_after_the_end": "terminal_states_are_sticky",
    "progress_is_notified_after_the_end": "progress_halts",
    "another_request_is_asked_under_a_used_key": "a_key_names_one_request_for_life",
    "a_requeue_loses_the_recorded_steps": "a_recorded_step_is_run_to_an_acknowledged_end_once",
    "an_engine_runs_tasks_before_they_are_due": "no_task_starts_before_it_is_due",
    "a_list_shows_tasks_of_all_owners": "no_caller_sees_a_foreign_task",
    "a_waiter_is_not_woken": "every_call_is_answered|every_open_channel_receives_the_end",
    # The first request that misses the task may be a subscription.
    "a_chosen_ttl_deletes_live_work": "Task not found|no_acknowledged_task_is_lost|which is live"
    r"|owns \[.*\], but the server acknowledged {}",
}
"""The violation that the machine reports for each bug, over HTTP and over stdio, on each store."""


@pytest.mark.slow
@pytest.mark.lifecycle
@pytest.mark.parametrize("server", ["HTTP", "stdio"])
@pytest.mark.parametrize("bug", DETECTED_BY)
def test_a_planted_bug_is_detected(bug: str, server: str, store: str, tmp_path: Path) -> None:
    bounds = settings(PLANTED, max_examples=200, stateful_step_count=20)
    with serving(tmp_path, store, {server: bug}) as servers:
        machine = machine_on(servers)
        # Real servers may not repeat a failure: every violation counts, not only the last one.
        with pytest.raises((AssertionError, Flaky)) as failure:
            run_state_machine_as_test(machine, settings=bounds)
    assert re.search(DETECTED_BY[bug], "\n".join([*machine.violations, _text(failure.value)]))


def _text(failure: BaseException) -> str:
    """Return the message of a failure; one that was not repeatable is a group."""
    inner = failure.exceptions if isinstance(failure, BaseExceptionGroup) else ()
    return "\n".join([str(failure), *map(_text, inner)])


def test_the_invariants_hold_on_the_wire(store: str, tmp_path: Path) -> None:
    profile = settings()
    # Each example talks to real processes; test_stores.py covers the differences between stores.
    share = 5 if store.startswith("sqlite") else 10
    bounds = settings(
        profile,
        max_examples=profile.max_examples * 2 // share,
        stateful_step_count=min(profile.stateful_step_count, STEPS),
        database=None,
    )
    print(f"TASKMACHINE_SEED={SEED}")  # shown if it fails
    with serving(tmp_path, store) as servers:
        run_state_machine_as_test(seed(SEED)(machine_on(servers)), settings=bounds)
    assert asyncio.run(_judged(store)) == []
    for log in servers.logs:
        assert not [words for words in SERVER_FAULTS if words in log.text], log.text


async def _judged(url: str) -> list[str]:
    """Check the invariants on the histories in the store, and that every task has ended."""
    store = await open_store(url)
    history: list[Event] = []
    live: list[str] = []
    try:
        async for task, entries in store.export():
            history += entries
            live += [] if task.is_terminal else [f"{task.id} is {task.state}"]
    finally:
        await store.close()
    assert history, "nothing was stored"
    found = violations(history, LIFECYCLES)
    return [*live, *(f"{v.invariant}: {v.subject} {v.why}" for v in found)]
