"""Random callers of running servers: rules act, and the history is judged when a run is over."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.wire.http_wire import HttpCaller
from tests.wire.judge import verdict
from tests.wire.nonsense import NONSENSE, Nonsense
from tests.wire.record import NEW, OLD, Life, Wire
from tests.wire.run import Caller, Run
from tests.wire.servers import Servers

__all__ = ["machine_on"]

WIRES: Final = st.sampled_from((OLD, NEW))
PICK: Final = st.integers(0, 5)
WHO: Final = st.integers(0, 2)
SOMEBODY: Final = st.integers(0, 1)
"""Of those who come over HTTP."""
MISCHIEF: Final = st.sampled_from(("session", "stream")) | st.sampled_from(NONSENSE)
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


class Callers(RuleBasedStateMachine):
    """Several owners and both generations on one store.

    What a rule acts on is picked by number among what there is, so that a failure shrinks well.
    Few rules with many meanings: those that matter come often.
    """

    servers: Servers

    def __init__(self) -> None:
        super().__init__()
        self.run = Run(self.servers)

    # --- what there is -----------------------------------------------------------------------

    def lives(self) -> list[Life]:
        return self.run.lives

    def busy(self) -> list[Life]:
        """Tasks whose tools can be told something."""
        return [life for life in self.lives() if life.is_live and not life.is_parked]

    def asked(self) -> list[Life]:
        """Those that wait for answers first."""
        asked = (life for life in self.lives() if life.groups)
        return sorted(asked, key=lambda life: not life.unanswered)

    def keyed(self) -> list[Life]:
        return [life for life in self.lives() if life.key is not None]

    # --- tasks -------------------------------------------------------------------------------

    @initialize(
        wires=st.tuples(WIRES, WIRES, WIRES), keys=st.booleans(), listeners=st.integers(0, 2)
    )
    def begin(self, wires: tuple[Wire, Wire, Wire], keys: bool, listeners: int) -> None:
        """Everybody has a task, and some listen."""
        for who, wire in enumerate(wires):
            self.create(who, wire, None, keys)
        for caller in self.run.people[:listeners]:
            self.run.listen(caller)

    @rule(who=WHO, wire=WIRES, ttl=st.sampled_from((None, 1_000, 3_600_000)), key=st.booleans())
    def create(self, who: int, wire: Wire, ttl: int | None, key: bool) -> None:
        caller = self.run.callers[who]
        # The same keys for everybody: they are nobody else's business.
        used = {life.key for life in self.lives() if life.owner == caller.owner}
        name = f"{self.run.number}-{len(used)}" if key else None
        self.run.create(caller, wire, ttl if wire == OLD else None, name)

    @precondition(_some(keyed))
    @rule(pick=PICK, wire=WIRES, same=st.booleans())
    def use_key_again(self, pick: int, wire: Wire, same: bool) -> None:
        life = _of(self.keyed(), pick)
        if same:
            self.run.create_again(life, wire)
        else:
            self.run.reuse_key(life, wire)

    @rule(pick=PICK, what=st.sampled_from((OLD, NEW, "list")))
    def look(self, pick: int, what: Wire | Literal["list"]) -> None:
        life = _of(self.lives(), pick)
        if what == "list":
            self.run.list_all(self.run.caller_of(life.owner))
        else:
            self.run.get(life, what)

    @rule(pick=PICK, wire=WIRES)
    def cancel(self, pick: int, wire: Wire) -> None:
        self.run.cancel(_of(self.lives(), pick), wire)

    @precondition(_some(busy))
    @rule(pick=PICK, how=ENDS, and_wait=st.booleans())
    def end(self, pick: int, how: str, and_wait: bool) -> None:
        self.run.end(_of(self.busy(), pick), how, and_wait=and_wait)

    @precondition(_some(busy))
    @rule(pick=PICK, stubborn=st.booleans())
    def report(self, pick: int, stubborn: bool) -> None:
        """Progress and a message; and from now on, perhaps, the tool will not be stopped."""
        life = _of(self.busy(), pick)
        life.progress += 1
        self.run.tell(life, do="progress", value=life.progress, message=f"{life.name} goes on")
        if stubborn and not life.is_stubborn:
            life.is_stubborn = True
            self.run.tell(life, do="ignore cancellation")

    # --- questions ---------------------------------------------------------------------------

    @precondition(_some(busy))
    @rule(
        pick=PICK,
        number=st.integers(1, 3),
        park=st.booleans(),
        at_once=st.lists(WIRES, max_size=2),
    )
    def ask(self, pick: int, number: int, park: bool, at_once: list[Wire]) -> None:
        """And get some answers, one by one."""
        life = _of(self.busy(), pick)
        may_park = not life.unanswered and not life.is_stubborn
        self.run.ask(life, number, park=park and may_park)
        if OLD in at_once and not self.run.can_deliver(life):
            self.run.wait(life)
        for wire in at_once:
            self._answer(life, wire, more=False)

    @precondition(_some(asked))
    @rule(pick=PICK, wire=WIRES, more=st.booleans())
    def answer(self, pick: int, wire: Wire, more: bool) -> None:
        self._answer(_of(self.asked(), pick), wire, more=more)

    def _answer(self, life: Life, wire: Wire, *, more: bool) -> None:
        """One question or `more`; and again those that were answered: the first answer counts."""
        missing = life.unanswered
        if missing and wire == OLD and self.run.can_deliver(life):
            self.run.reply(life, missing[0], twice=more)
        else:
            known = list(life.answers) if life.is_live else list(life.asked)
            self.run.answer(life, [*known, "never-asked", *(missing if more else missing[:1])])

    # --- streams -----------------------------------------------------------------------------

    @rule(pick=PICK)
    def wait(self, pick: int) -> None:
        self.run.wait(_of(self.lives(), pick))

    @rule(who=WHO, first=PICK, second=PICK, wire=WIRES)
    def follow(self, who: int, first: int, second: int, wire: Wire) -> None:
        caller = self.run.callers[who]
        if wire == NEW:
            lives = {_of(self.lives(), first): 1, _of(self.lives(), second): 2}
            self.run.watch(caller, list(lives))
        elif isinstance(caller, HttpCaller):
            self.run.listen(caller)

    @precondition(lambda self: bool(self.run.breakable() or self.run.broken))
    @rule(for_long=st.booleans())
    def lose_connections(self, for_long: bool) -> None:
        """All that could be taken up again; or take them up, if they were lost before."""
        if not self.run.broken:
            for stream in self.run.breakable():
                self.run.break_off(stream)
            if for_long:
                return
        for stream in list(self.run.broken):
            self.run.resume(stream)

    @rule(who=SOMEBODY, pick=PICK, session=st.integers(0, 3))
    def leave(self, who: int, pick: int, session: int) -> None:
        """A call that waits, or now and then a session."""
        waits = self.run.open_waits()
        if session == 3:
            self.run.renew_session(self.run.people[who])
        elif waits:
            self.run.give_up(_of(waits, pick))

    # --- others' things, and everything else -------------------------------------------------

    @rule(pick=PICK, away=st.integers(0, 1))
    def look_at_foreign(self, pick: int, away: int) -> None:
        life = _of(self.lives(), pick)
        others: list[Caller] = [c for c in self.run.callers if c.owner != life.owner]
        for wire, method in FOREIGN:
            if not self.run.wrong():
                self.run.look_at_foreign(others[away], life, wire, method)

    @rule(who=SOMEBODY, pick=PICK, what=MISCHIEF)
    def misbehave(self, who: int, pick: int, what: str | Nonsense) -> None:
        caller, other = self.run.people[who], self.run.people[1 - who]
        if what == "session":
            for verb in ("POST", "GET", "DELETE"):
                self.run.steal_session(caller, other, verb)
        elif what == "stream":
            self._replay_foreign(caller, pick)
        elif isinstance(what, Nonsense):
            self.run.talk_nonsense(caller, what)

    def _replay_foreign(self, caller: HttpCaller, pick: int) -> None:
        """Go on with a stream of somebody else: there is nothing to be had."""
        if caller.general is not None:
            self.run.renew_session(caller)
        ids = [
            channel.last_event_id
            for channel in self.run.evidence.channels
            if channel.last_event_id is not None and channel.owner != caller.owner
        ]
        name = str(_of(ids, pick)).rpartition(".")[0] if ids else "nothing"
        self.run.listen(caller, f"{name}.0")

    @rule(who=WHO, what=st.sampled_from(("call", "leave", "ask")))
    def call(self, who: int, what: str) -> None:
        """What is no task."""
        for wire in (OLD, NEW):
            if what == "ask":
                self.run.inquire(self.run.callers[who], wire)
            else:
                self.run.call_plainly(self.run.callers[who], wire, leave=what == "leave")

    @precondition(lambda self: not any(life.tool == "hasty" for life in self.lives()))
    @rule(who=WHO, wire=WIRES)
    def run_out_of_time(self, who: int, wire: Wire) -> None:
        self.run.run_out_of_time(self.run.callers[who], wire)

    # --- the end -----------------------------------------------------------------------------

    @invariant()
    def so_far_so_good(self) -> None:
        """What is known to be wrong ends a run; the rest is judged when it is over."""
        self.servers.check()
        wrong = self.run.wrong()
        assert not wrong, "\n".join(wrong)

    def teardown(self) -> None:
        try:
            if not self.run.wrong():
                self.run.finish()
                wrong = verdict(self.run.evidence)
                assert not wrong, "\n".join(wrong)
        finally:
            self.run.close()


def machine_on(servers: Servers) -> type[Callers]:
    """The machine, driving these servers."""
    return type("CallersOfServers", (Callers,), {"servers": servers})
