"""One run of callers against the servers: what they do, and what the test then knows."""

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Final

import attrs

from tests.wire.http_wire import HttpCaller
from tests.wire.judge import untold
from tests.wire.looks import outcome_of_result, task_of
from tests.wire.nonsense import Nonsense
from tests.wire.pipe_wire import STDIO, PipeCaller
from tests.wire.record import (
    JSON,
    NEW,
    OLD,
    End,
    Evidence,
    Exchange,
    Life,
    Wire,
    now,
)
from tests.wire.servers import NAMES, Servers
from tests.wire.strings import BOUND_S, Puppet

__all__ = ["Caller", "Run"]

IDEMPOTENCY: Final = "taskmachine/idempotency-key"
ENDED: Final = ("completed", "failed", "cancelled")
Caller = HttpCaller | PipeCaller

_numbers: Final = count()


class Run:
    """Alice and bob over HTTP, and whoever is at the pipe."""

    def __init__(self, servers: Servers) -> None:
        self.number = next(_numbers)
        self.evidence = Evidence()
        self.servers = servers
        self.strings = servers.strings
        first = 2 * self.number % len(NAMES)
        names = NAMES[first : first + 2]
        self.people = [
            HttpCaller(name, servers.tokens[name], servers.address, self.evidence) for name in names
        ]
        servers.pipe.take_down(self.evidence)
        self.callers: list[Caller] = [*self.people, servers.pipe]
        self.waits: list[Exchange] = []
        self.watches: list[Exchange] = []
        self.broken: list[Exchange] = []
        self._words = count()
        for caller in self.people:
            caller.introduce()

    @property
    def lives(self) -> list[Life]:
        return self.evidence.lives

    def caller_of(self, owner: str) -> Caller:
        return next(caller for caller in self.callers if caller.owner == owner)

    def complain(self, why: str) -> None:
        self.evidence.complaints.append(why)

    def wrong(self) -> list[str]:
        """What did not even have to be judged."""
        failures = (e.failure for e in self.evidence.exchanges if e.failure is not None)
        return [*self.evidence.complaints, *failures]

    def word(self, owner: str) -> str:
        """One that only this owner may ever see."""
        word = f"~{owner}.{self.number}.{next(self._words)}~"
        self.evidence.secrets[word] = owner
        return word

    def puppet(self, name: str) -> Puppet:
        puppet = self.strings.puppet(name)
        assert puppet is not None, f"the tool of {name} was not begun"
        return puppet

    # --- tasks -------------------------------------------------------------------------------

    def create(
        self, caller: Caller, wire: Wire, ttl: int | None, key: str | None, tool: str = "steered"
    ) -> Life:
        arguments: JSON = {"name": self.word(caller.owner)}
        if tool == "hasty":
            arguments["asks"] = wire == OLD  # elsewhere it would wait for an hour
        call = self._call(caller, wire, tool, arguments, key, ttl)
        task = call.result["task"] if wire == OLD else call.result
        life = Life(
            task["taskId"], arguments["name"], caller.owner, wire,
            caller.session if wire == OLD else None, arguments, key, tool,
        )  # fmt: skip
        self.lives.append(life)
        if key is not None:
            self.evidence.keys.append((caller.owner, key, life.id))
        if tool == "hasty":  # it ends by itself
            life.ends.append(End(("error", -32_603), call.sent))
            life.asked["q0"] = False
        else:
            self.puppet(life.name)
        return life

    def create_again(self, life: Life, wire: Wire) -> None:
        """The same call under the same key: the same task."""
        caller = self.caller_of(life.owner)
        result = self._call(caller, wire, life.tool, life.arguments, life.key, None).result
        task = result["task"] if wire == OLD else result
        self.evidence.keys.append((life.owner, str(life.key), task["taskId"]))

    def reuse_key(self, life: Life, wire: Wire) -> None:
        """Another call under the same key."""
        caller = self.caller_of(life.owner)
        arguments = {"name": self.word(caller.owner)}
        call = self._call(caller, wire, life.tool, arguments, life.key, None)
        if call.code != -32_602:
            self.complain(f"a key was used for something else: {call.answer}")

    def _call(
        self, caller: Caller, wire: Wire, tool: str, arguments: JSON, key: str | None,
        ttl: int | None,
    ) -> Exchange:  # fmt: skip
        params: JSON = {"name": tool, "arguments": arguments, "_meta": {}}
        if key is not None:
            params["_meta"][IDEMPOTENCY] = key
        if wire == OLD:
            params["task"] = {} if ttl is None else {"ttl": ttl}
            params["_meta"]["progressToken"] = arguments["name"]
        return caller.ask(wire, "tools/call", params)

    def get(self, life: Life, wire: Wire) -> JSON:
        return self.caller_of(life.owner).ask(wire, "tasks/get", {"taskId": life.id}).result

    def cancel(self, life: Life, wire: Wire) -> None:
        caller, was_live = self.caller_of(life.owner), life.is_live
        has_ended = any(end.done is not None for end in life.ends)
        told = caller.ask(wire, "tasks/cancel", {"taskId": life.id})
        if told.code is None:
            done = told.received if was_live or wire == OLD else None
            life.ends.append(End(("cancelled",), told.sent, done))
            # 2025-11-25:cancelled-before-answer
            if wire == OLD and told.result["status"] != "cancelled":
                self.complain(f"{life.name} was cancelled, and is {told.result['status']}")
            if has_ended and wire == OLD:
                self.complain(f"{life.name} had ended, and its cancellation was accepted")
        elif was_live or wire == NEW or told.code != -32_602:
            self.complain(f"{life.name} could not be cancelled: {told.answer}")

    def end(self, life: Life, how: str, *, and_wait: bool) -> None:
        """Let the tool end."""
        text = f"{life.name} did it"
        outcome: dict[str, tuple[Any, ...]] = {
            "result": ("result", (text,), False),
            "tool error": ("result", (text,), True),
            "call error": ("error", -31_999, text),
            "crash": ("error", -32_603),
        }
        life.ends.append(End(outcome[how], now()))
        self.puppet(life.name).order(do="end", how=how, text=text)
        if and_wait:
            self.until_ended(life)

    def until_ended(self, life: Life) -> None:
        """Look until it has; from then on nothing else can end it."""
        if life.tool == "steered" and not life.is_stubborn:
            puppet = self.puppet(life.name)
            self.strings.until(lambda: puppet.is_over)
        elif life.tool == "hasty":
            self.caller_of(life.owner).ask(OLD, "tasks/result", {"taskId": life.id})
        if self._poll(life, lambda task: task["status"] in ENDED):
            life.ends[0] = attrs.evolve(life.ends[0], done=life.ends[0].done or now())
        else:
            self.complain(f"{life.name} did not end")

    def _poll(self, life: Life, is_so: Any) -> bool:
        deadline = now() + BOUND_S * 1e9
        while now() < deadline:
            if is_so(self.get(life, NEW)):
                return True
        return False

    def tell(self, life: Life, **order: Any) -> None:
        """Let the tool report, and see that it could."""
        puppet = self.puppet(life.name)
        before = puppet.count("done") + puppet.count("gone")
        puppet.order(**order)
        self.strings.until(
            lambda: puppet.count("done") + puppet.count("gone") > before or puppet.is_over
        )
        if life.is_live and (puppet.count("gone") or puppet.is_over):
            self.complain(f"the tool of {life.name} was stopped, and nobody did that")

    # --- questions ---------------------------------------------------------------------------

    def ask(self, life: Life, number: int, *, park: bool) -> None:
        keys = [f"q{len(life.asked) + index}" for index in range(number)]
        life.asked.update(dict.fromkeys(keys, park))
        life.groups.append(keys)
        if park:
            self.strings.on_next_run(life.name, do="ask", keys=keys, park=True)
        self.puppet(life.name).order(do="ask", keys=keys, park=park)
        if not self._poll(life, lambda task: set(keys) <= task.get("inputRequests", {}).keys()):
            self.complain(f"{life.name} asked {keys}, and nobody can see it")

    def answer(self, life: Life, keys: Sequence[str]) -> None:
        """By `tasks/update`."""
        said = {key: f"{life.name}{key} {next(self._words)}" for key in keys}
        responses = {
            key: {"action": "accept", "content": {"said": text}} for key, text in said.items()
        }
        params = {"taskId": life.id, "inputResponses": responses}
        told = self.caller_of(life.owner).ask(NEW, "tasks/update", params)
        if told.code is not None:
            self.complain(f"{life.name} could not be answered: {told.answer}")
        self._answered(life, said)

    def can_deliver(self, life: Life) -> bool:
        """Whether a question of this task has to come on some channel of its owner."""
        if any(exchange.owner == life.owner for exchange in self.broken):
            return False  # it may be there
        return any(wait.params["taskId"] == life.id for wait in self.open_waits())

    def reply(self, life: Life, key: str, *, twice: bool) -> None:
        """Answer the request that brings a question in 2025-11-25."""
        caller, words = self.caller_of(life.owner), f"{life.name}/{key}"

        def delivered() -> Any:
            return next(
                (
                    heard.message
                    for channel in reversed(self.evidence.channels)
                    if channel.session == caller.session and channel.owner == caller.owner
                    for heard in channel.heard
                    if heard.message.get("method") == "elicitation/create"
                    and heard.message["params"]["message"] == words
                ),
                None,
            )

        request = self.evidence.expect(delivered, BOUND_S, f"'{words}' was never delivered")
        if not request:
            return
        if task_of(request) != life.id:
            self.complain(f"a question of {life.id} is said to be of {task_of(request)}")
        said = f"{words} {next(self._words)}"
        caller.reply(request["id"], {"action": "accept", "content": {"said": said}})
        if isinstance(caller, PipeCaller) and not self._poll(
            life, lambda task: key not in task.get("inputRequests", {})
        ):
            self.complain(f"the answer to '{words}' was lost")
        if twice:
            caller.reply(request["id"], {"action": "accept", "content": {"said": "too late"}})
        self._answered(life, {key: said})

    def _answered(self, life: Life, said: dict[str, str]) -> None:
        """The first answer counts, and the tool gets it once there are all it asked for."""
        if not life.is_live:
            return
        before = set(life.answers)
        for key, text in said.items():
            if key in life.asked:
                life.answers.setdefault(key, text)
                life.answered_at.setdefault(key, now())
        for group in life.groups:
            if set(group) <= life.answers.keys() and not set(group) <= before:
                wanted = {key: life.answers[key] for key in group}
                if not self.strings.until(partial(self._has, life, wanted)):
                    heard = [run.heard for run in self.strings.runs(life.name)]
                    self.complain(f"the tool of {life.name} did not get {wanted}: {heard}")

    def _has(self, life: Life, wanted: dict[str, str]) -> bool:
        return any(
            said["event"] == "answered" and said["answers"] == wanted
            for run in self.strings.runs(life.name)
            for said in run.heard
        )

    # --- streams -----------------------------------------------------------------------------

    def wait(self, life: Life) -> None:
        """`tasks/result`, which takes until the end of the task."""
        caller = self.caller_of(life.owner)
        params = {"taskId": life.id}
        self.waits.append(caller.begin(OLD, "tasks/result", params, "result", life.id))

    def watch(self, caller: Caller, lives: Sequence[Life]) -> None:
        """Of all these tasks; only one's own are agreed to."""
        watching = caller.watch([life.id for life in lives])
        own = [life.id for life in lives if life.owner == caller.owner]
        if watching.channel is None or not watching.channel.heard:
            self.complain(f"subscriptions/listen was not acknowledged: {watching.answer}")
            return
        agreed = watching.channel.heard[0].message.get("params", {}).get("notifications", {})
        if sorted(agreed.get("taskIds", [])) != sorted(own):
            self.complain(f"{caller.owner} may watch {own}, and was told {agreed}")
        self.watches.append(watching)

    def listen(self, caller: HttpCaller, last_event_id: str | None = None) -> None:
        before = caller.general
        caller.listen(last_event_id)
        if before is not None:
            if before in self.broken:
                self.broken.remove(before)
            else:
                self.evidence.expect(before.over.is_set, BOUND_S, "two general streams at once")

    # What could be done next must follow from what was done before, not from how fast that went:
    # else no run could be repeated.

    def open_waits(self) -> list[Exchange]:
        """Calls that cannot be over, as their tasks live."""
        live = {life.id for life in self.lives if life.is_live}
        return [
            wait
            for wait in self.waits
            if wait.params["taskId"] in live
            and wait.session == self.caller_of(wait.owner).session
            and wait.given_up is None
        ]

    def breakable(self) -> list[Exchange]:
        """Streams that could break now, and be taken up again."""
        general = [c.general for c in self.people if c.general is not None]
        waits = [wait for wait in self.open_waits() if wait.owner != STDIO]
        return [stream for stream in [*general, *waits] if stream not in self.broken]

    def break_off(self, stream: Exchange) -> None:
        channel = stream.channel
        assert channel is not None
        self.evidence.expect(lambda: channel.last_event_id, BOUND_S, "a stream did not begin")
        self.caller_of(stream.owner).drop(stream)
        self.broken.append(stream)

    def resume(self, stream: Exchange) -> None:
        caller = self.caller_of(stream.owner)
        assert isinstance(caller, HttpCaller)
        self.broken.remove(stream)
        caller.resume(stream)

    def give_up(self, wait: Exchange) -> None:
        if wait in self.broken:
            self.broken.remove(wait)
        self.caller_of(wait.owner).give_up(wait)

    def renew_session(self, caller: HttpCaller) -> None:
        session = caller.session
        caller.end_session()
        self.broken = [stream for stream in self.broken if stream.session != session]
        caller.introduce()

    # --- others' things ----------------------------------------------------------------------

    def look_at_foreign(self, caller: Caller, life: Life, wire: Wire, method: str) -> None:
        """With the id of somebody else's task, and with one of nobody's."""
        nobody = life.id[:-8] + "AAAAAAAA"
        told = []
        for task_id in (life.id, nobody):
            params: JSON = {"taskId": task_id}
            if method == "tasks/update":
                params["inputResponses"] = {"q0": {"action": "accept", "content": {"said": "x"}}}
            told.append(caller.ask(wire, method, params, id=888_888))
        foreign, nonsense = told
        if foreign.code is None:
            self.complain(f"{caller.owner} could {method} {life.name}: {foreign.answer}")
        self.evidence.foreign.append((f"{method} on {wire}", foreign.raw, nonsense.raw))
        if foreign.status != nonsense.status:
            self.complain(f"{method}: HTTP {foreign.status}, and {nonsense.status} for nonsense")

    def steal_session(self, thief: HttpCaller, victim: HttpCaller, verb: str) -> None:
        """Somebody else's session is none."""
        told = []
        for session in (victim.session, "A" * len(victim.session or "")):
            headers = {**thief.headers(OLD, "", {}), "Mcp-Session-Id": session}
            ask = b'{"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {}}'
            told.append(thief.raw(verb, headers, ask if verb == "POST" else None))
        stolen, nonsense = told
        if stolen.status != 404:
            self.complain(f"{thief.owner} took over a session: {stolen.status} {stolen.raw!r}")
        self.evidence.foreign.append((f"{verb} in a session", stolen.raw, nonsense.raw))

    # --- everything else ---------------------------------------------------------------------

    def list_all(self, caller: Caller) -> None:
        """Until all tasks of this run were seen: there may be older ones."""
        wanted = {life.id for life in self.lives if life.owner == caller.owner}
        pages: list[list[str]] = []
        params: JSON = {}
        while True:
            result = caller.ask(OLD, "tasks/list", params).result
            pages.append([task["taskId"] for task in result["tasks"]])
            wanted -= set(pages[-1])
            if "nextCursor" not in result or not wanted:
                break
            params = {"cursor": result["nextCursor"]}
        self.evidence.listed.append((caller.owner, pages))
        if wanted:
            self.complain(f"{caller.owner} has {len(wanted)} tasks that are not listed")

    def call_plainly(self, caller: Caller, wire: Wire, *, leave: bool) -> None:
        name = self.word(caller.owner)
        params = {"name": "steered_plain", "arguments": {"name": name}}
        call = caller.begin(wire, "tools/call", params, "call")
        puppet = self.puppet(name)
        if leave:
            caller.drop(call)
            if wire == NEW and not self.strings.until(lambda: puppet.count("stopped")):
                self.complain("a call that nobody waits for went on")
        puppet.order(do="end", how="result", text=name)
        self._expect_text(call, name)

    def inquire(self, caller: Caller, wire: Wire) -> None:
        """A plain call that asks: on its stream, or by being called again."""
        name = self.word(caller.owner)
        params: JSON = {"name": "inquire", "arguments": {"name": name}}
        answer = {"action": "accept", "content": {"said": name[::-1]}}
        if wire == NEW:
            paused = caller.ask(NEW, "tools/call", params).result
            if [*paused.get("inputRequests", {})] != ["only"]:
                self.complain(f"a plain call did not ask: {paused}")
                return
            params |= {"inputResponses": {"only": answer}, "requestState": paused["requestState"]}
            call = caller.begin(NEW, "tools/call", params, "call")
        else:
            call = caller.begin(OLD, "tools/call", params, "call")

            def asked() -> Any:
                heard = [h.message for c in self.evidence.channels for h in c.heard]
                words = f"{name}/only"
                found = (m for m in heard if m.get("params", {}).get("message") == words)
                return next(found, None)

            question = self.evidence.expect(asked, BOUND_S, f"{name} did not ask")
            if question:
                caller.reply(question["id"], answer)
        self._expect_text(call, f"{name}: {name[::-1]}")

    def _expect_text(self, call: Exchange, text: str) -> None:
        if call.is_dropped:
            return
        call.over.wait(BOUND_S)
        if call.answer is None or "result" not in call.answer:
            self.complain(f"a plain call was answered {call.answer}")
        elif outcome_of_result(call.answer["result"]) != ("result", (text,), False):
            self.complain(f"a plain call returned {call.answer}, and not {text}")

    def run_out_of_time(self, caller: Caller, wire: Wire) -> None:
        """A task that ends by itself: a leg took too long, or nobody answered for too long."""
        self.wait(self.create(caller, wire, 1 if wire == OLD else None, None, "hasty"))

    def talk_nonsense(self, caller: HttpCaller, nonsense: Nonsense) -> None:
        headers = {**caller.headers(nonsense.wire, "", {}), **nonsense.headers}
        told = caller.raw("POST", headers, nonsense.body)
        if told.code != nonsense.code or told.status not in nonsense.status:
            self.complain(f"{nonsense.body!r} was answered {told.status} {told.answer}")

    # --- the end -----------------------------------------------------------------------------

    def finish(self) -> None:
        """End everything that is under way, and look at it for the last time."""
        for stream in list(self.broken):
            self.resume(stream)
        for life in self.lives:
            if life.is_parked:
                self.cancel(life, NEW)
            elif life.is_live:
                self.end(life, "result", and_wait=False)
        for life in self.lives:
            self.until_ended(life)
            if life.tool == "steered":
                self.expect_stop(life)
        self.evidence.until(lambda: all(wait.over.is_set() for wait in self._awaited()), BOUND_S)
        self.evidence.until(lambda: not untold(self.evidence), BOUND_S)
        for life in self.lives:
            self.get(life, OLD)
            self.get(life, NEW)
            caller = self.caller_of(life.owner)
            caller.ask(OLD, "tasks/result", {"taskId": life.id})
        for caller in self.callers:
            self.list_all(caller)

    def expect_stop(self, life: Life) -> None:
        """The tool of a task that has ended is stopped, unless it will not."""
        puppet = self.puppet(life.name)
        if not self.strings.until(lambda: puppet.is_over or puppet.count("stopped")):
            self.complain(f"{life.name} has ended, and its tool goes on")
        if life.is_stubborn:
            puppet.order(do="end", how="result", text=f"{life.name} did it too late")

    def _awaited(self) -> list[Exchange]:
        return [wait for wait in self.waits if not wait.is_dropped]

    def close(self) -> None:
        for caller in self.callers:
            caller.close()
        for life in self.lives:
            for puppet in self.strings.runs(life.name):
                puppet.cut()
