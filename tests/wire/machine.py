"""Random callers of running servers: rules act, and the history is judged when a run is over."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.wire.judge import verdict
from tests.wire.nonsense import NONSENSE, Nonsense
from tests.wire.record import NEW, OLD, Life, Wire
from tests.wire.run import Caller, Run
from tests.wire.servers import Servers

__all__ = ["machine_on"]

WIRES: Final = st.sampled_from((OLD, NEW))
PICK: Final = st.integers(0, 5)
WHO: Final = st.integers(0, 2)
ENDS: Final = st.sampled_from(("result", "tool error", "call error", "crash"))
FOREIGN: Final = (
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

    def asking(self) -> list[Life]:
        return [life for life in self.lives() if life.unanswered]

    def delivered(self) -> list[Life]:
        return [life for life in self.asking() if self.run.can_deliver(life)]

    def keyed(self) -> list[Life]:
        return [life for life in self.lives() if life.key is not None]

    # --- tasks -------------------------------------------------------------------------------

    @rule(who=WHO, wire=WIRES, ttl=st.sampled_from((None, 1_000, 3_600_000)), key=st.booleans())
    def create(self, who: int, wire: Wire, ttl: int | None, key: bool) -> None:
        caller = self.run.callers[who]
        # The same keys for everybody: they are nobody else's business.
        used = {life.key for life in self.lives() if life.owner == caller.owner}
        name = f"{self.run.number}-{len(used)}" if key else None
        self.run.create(caller, wire, ttl if wire == OLD else None, name)

    @precondition(lambda self: sum(life.tool == "hasty" for life in self.lives()) < 1)
    @rule(who=WHO, wire=WIRES, asks=st.booleans())
    def create_hasty(self, who: int, wire: Wire, asks: bool) -> None:
        """It runs out of time, or expires while somebody should answer."""
        life = self.run.create(
            self.run.callers[who], wire, 1 if wire == OLD else None, None, "hasty"
        )
        if asks and wire == OLD:  # elsewhere it would wait for an hour
            life.asked["q0"] = False
            self.run.puppet(life.name).order(do="ask", keys=["q0"], park=False)
        self.run.wait(life)

    @precondition(_some(keyed))
    @rule(pick=PICK, wire=WIRES, same=st.booleans())
    def use_key_again(self, pick: int, wire: Wire, same: bool) -> None:
        life = _of(self.keyed(), pick)
        if same:
            self.run.create_again(life, wire)
        else:
            self.run.reuse_key(life, wire)

    @precondition(_some(lives))
    @rule(pick=PICK, wire=WIRES)
    def get(self, pick: int, wire: Wire) -> None:
        self.run.get(_of(self.lives(), pick), wire)

    @rule(who=WHO)
    def list_all(self, who: int) -> None:
        self.run.list_all(self.run.callers[who])

    @precondition(_some(lives))
    @rule(pick=PICK, wire=WIRES)
    def cancel(self, pick: int, wire: Wire) -> None:
        self.run.cancel(_of(self.lives(), pick), wire)

    @precondition(_some(busy))
    @rule(pick=PICK, how=ENDS, and_wait=st.booleans())
    def end(self, pick: int, how: str, and_wait: bool) -> None:
        self.run.end(_of(self.busy(), pick), how, and_wait=and_wait)

    @precondition(_some(busy))
    @rule(pick=PICK, message=st.booleans())
    def report(self, pick: int, message: bool) -> None:
        life = _of(self.busy(), pick)
        if message:
            self.run.tell(life, do="status", message=f"{life.name} goes on")
        else:
            life.progress += 1
            self.run.tell(life, do="progress", value=life.progress, message=life.name)

    @precondition(lambda self: any(not life.is_stubborn for life in self.busy()))
    @rule(pick=PICK)
    def ignore_cancellation(self, pick: int) -> None:
        life = _of([life for life in self.busy() if not life.is_stubborn], pick)
        life.is_stubborn = True
        self.run.tell(life, do="ignore cancellation")

    # --- questions ---------------------------------------------------------------------------

    @precondition(_some(busy))
    @rule(pick=PICK, number=st.integers(1, 2), park=st.booleans())
    def ask(self, pick: int, number: int, park: bool) -> None:
        life = _of(self.busy(), pick)
        may_park = not life.unanswered and not life.is_stubborn
        self.run.ask(life, number, park=park and may_park)

    @precondition(_some(asking))
    @rule(pick=PICK, everything=st.booleans())
    def answer(self, pick: int, everything: bool) -> None:
        life = _of(self.asking(), pick)
        self.run.answer(life, life.unanswered if everything else life.unanswered[:1])

    @precondition(lambda self: any(life.answers for life in self.lives()))
    @rule(pick=PICK)
    def answer_again(self, pick: int) -> None:
        """The first answer counts."""
        life = _of([life for life in self.lives() if life.answers], pick)
        self.run.answer(life, [*life.answers, "never-asked"])

    @precondition(_some(delivered))
    @rule(pick=PICK, twice=st.booleans())
    def reply(self, pick: int, twice: bool) -> None:
        life = _of(self.delivered(), pick)
        self.run.reply(life, life.unanswered[0], twice=twice)

    # --- streams -----------------------------------------------------------------------------

    @precondition(_some(lives))
    @rule(pick=PICK)
    def wait(self, pick: int) -> None:
        self.run.wait(_of(self.lives(), pick))

    @precondition(_some(lives))
    @rule(who=WHO, first=PICK, second=PICK)
    def watch(self, who: int, first: int, second: int) -> None:
        lives = {life.id: life for life in (_of(self.lives(), first), _of(self.lives(), second))}
        self.run.watch(self.run.callers[who], list(lives.values()))

    @rule(who=st.integers(0, 1))
    def listen(self, who: int) -> None:
        self.run.listen(self.run.people[who])

    @precondition(lambda self: bool(self.run.breakable()))
    @rule(pick=PICK)
    def break_off(self, pick: int) -> None:
        self.run.break_off(_of(self.run.breakable(), pick))

    @precondition(lambda self: bool(self.run.broken))
    @rule(pick=PICK)
    def resume(self, pick: int) -> None:
        self.run.resume(_of(self.run.broken, pick))

    @precondition(lambda self: bool(self.run.open_waits()))
    @rule(pick=PICK)
    def give_up(self, pick: int) -> None:
        self.run.give_up(_of(self.run.open_waits(), pick))

    @rule(who=st.integers(0, 1))
    def renew_session(self, who: int) -> None:
        self.run.renew_session(self.run.people[who])

    # --- others' things, and everything else -------------------------------------------------

    @precondition(_some(lives))
    @rule(pick=PICK, away=st.integers(1, 2), how=st.sampled_from(FOREIGN))
    def look_at_foreign(self, pick: int, away: int, how: tuple[Wire, str]) -> None:
        life = _of(self.lives(), pick)
        others: list[Caller] = [c for c in self.run.callers if c.owner != life.owner]
        self.run.look_at_foreign(_of(others, away), life, *how)

    @rule(who=st.integers(0, 1), verb=st.sampled_from(("POST", "GET", "DELETE")))
    def steal_session(self, who: int, verb: str) -> None:
        self.run.steal_session(self.run.people[who], self.run.people[1 - who], verb)

    @rule(who=st.integers(0, 1), pick=PICK)
    def replay_foreign(self, who: int, pick: int) -> None:
        """Go on with a stream of somebody else: there is nothing to be had."""
        caller = self.run.people[who]
        if caller.general is not None:
            self.run.renew_session(caller)
        ids = [
            channel.last_event_id
            for channel in self.run.evidence.channels
            if channel.last_event_id is not None and channel.owner != caller.owner
        ]
        name = str(_of(ids, pick)).rpartition(".")[0] if ids else "nothing"
        self.run.listen(caller, f"{name}.0")

    @rule(who=WHO, wire=WIRES, leave=st.booleans())
    def call_plainly(self, who: int, wire: Wire, leave: bool) -> None:
        self.run.call_plainly(self.run.callers[who], wire, leave=leave)

    @rule(who=WHO, wire=WIRES)
    def inquire(self, who: int, wire: Wire) -> None:
        self.run.inquire(self.run.callers[who], wire)

    @rule(who=st.integers(0, 1), nonsense=st.sampled_from(NONSENSE))
    def talk_nonsense(self, who: int, nonsense: Nonsense) -> None:
        self.run.talk_nonsense(self.run.people[who], nonsense)

    # --- the end -----------------------------------------------------------------------------

    @invariant()
    def the_servers_live(self) -> None:
        self.servers.check()

    def teardown(self) -> None:
        try:
            self.run.finish()
            wrong = verdict(self.run.evidence)
            assert not wrong, "\n".join(wrong)
        finally:
            self.run.close()


def machine_on(servers: Servers) -> type[Callers]:
    """The machine, driving these servers."""
    return type("CallersOfServers", (Callers,), {"servers": servers})
