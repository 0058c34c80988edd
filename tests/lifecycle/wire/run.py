"""One run: the operations of the clients, and the test's model of each task."""

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Final

import attrs

from tests.lifecycle.wire.http_client import HttpClient
from tests.lifecycle.wire.judge import missing_ends
from tests.lifecycle.wire.malformed import Malformed
from tests.lifecycle.wire.observations import outcome_of_result, task_of
from tests.lifecycle.wire.record import (
    JSON,
    NEW,
    OLD,
    End,
    Evidence,
    Exchange,
    TaskModel,
    Wire,
    now,
)
from tests.lifecycle.wire.servers import NAMES, Servers
from tests.lifecycle.wire.stdio_client import STDIO, StdioClient
from tests.lifecycle.wire.tool_control import BOUND_S, REST_S, ToolRun

__all__ = ["Client", "Run"]

IDEMPOTENCY: Final = "taskmachine/idempotency-key"
STICKY: Final = "terminal_states_are_sticky"
ENDED: Final = ("completed", "failed", "cancelled")
Client = HttpClient | StdioClient

_numbers: Final = count()


class Run:
    """Two owners over HTTP and one over stdio."""

    def __init__(self, servers: Servers) -> None:
        self.number = next(_numbers)
        self.evidence = Evidence()
        self.servers = servers
        self.tool_control = servers.tool_control
        first = 2 * self.number % len(NAMES)
        names = NAMES[first : first + 2]
        self.http_clients = [
            HttpClient(name, servers.tokens[name], servers.address, self.evidence) for name in names
        ]
        servers.pipe.record_in(self.evidence)
        self.clients: list[Client] = [*self.http_clients, servers.pipe]
        self.waits: list[Exchange] = []
        self.subscriptions: list[Exchange] = []
        self.disconnected: list[Exchange] = []
        self._words = count()
        for client in self.http_clients:
            client.initialize()

    @property
    def models(self) -> list[TaskModel]:
        return self.evidence.models

    def client_of(self, owner: str) -> Client:
        return next(client for client in self.clients if client.owner == owner)

    def report(self, problem: str) -> None:
        self.evidence.problems.append(problem)

    def problems(self) -> list[str]:
        """Return the problems that were found while requests were sent."""
        failures = (e.failure for e in self.evidence.exchanges if e.failure is not None)
        return [*self.evidence.problems, *failures]

    def word(self, owner: str) -> str:
        """Return a word that only this owner may receive."""
        word = f"~{owner}.{self.number}.{next(self._words)}~"
        self.evidence.secrets[word] = owner
        return word

    def tool_run(self, name: str) -> ToolRun:
        tool_run = self.tool_control.tool_run(name)
        assert tool_run is not None, f"the tool of {name} did not start"
        return tool_run

    # --- tasks -------------------------------------------------------------------------------

    def create(
        self, client: Client, wire: Wire, ttl: int | None, key: str | None, tool: str = "controlled"
    ) -> TaskModel:
        arguments: JSON = {"name": self.word(client.owner)}
        if tool == "expiring":
            arguments["asks"] = wire == OLD  # in 2026-07-28 it would wait for an answer
        call = self._call(client, wire, tool, arguments, key, ttl)
        task = call.result["task"] if wire == OLD else call.result
        model = TaskModel(
            task["taskId"], arguments["name"], client.owner, wire,
            client.session if wire == OLD else None, arguments, key, tool,
        )  # fmt: skip
        self.models.append(model)
        if key is not None:
            self.evidence.keys.append((client.owner, key, model.id))
        if tool == "expiring":  # it ends without an order
            model.ends.append(End(("error", -32_603), call.sent))
            model.asked["q0"] = False
        else:
            self.tool_run(model.name)
        return model

    def create_again(self, model: TaskModel, wire: Wire) -> None:
        """Repeat the call under its idempotency key, which returns the same task."""
        client = self.client_of(model.owner)
        result = self._call(client, wire, model.tool, model.arguments, model.key, None).result
        task = result["task"] if wire == OLD else result
        self.evidence.keys.append((model.owner, str(model.key), task["taskId"]))

    def reuse_key(self, model: TaskModel, wire: Wire) -> None:
        """Send another call under a used idempotency key, which the server must reject."""
        client = self.client_of(model.owner)
        arguments = {"name": self.word(client.owner)}
        call = self._call(client, wire, model.tool, arguments, model.key, None)
        if call.code != -32_602:
            self.report(f"an idempotency key was accepted for another call: {call.answer}")

    def _call(
        self, client: Client, wire: Wire, tool: str, arguments: JSON, key: str | None,
        ttl: int | None,
    ) -> Exchange:  # fmt: skip
        params: JSON = {"name": tool, "arguments": arguments, "_meta": {}}
        if key is not None:
            params["_meta"][IDEMPOTENCY] = key
        if wire == OLD:
            params["task"] = {} if ttl is None else {"ttl": ttl}
            params["_meta"]["progressToken"] = arguments["name"]
        return client.ask(wire, "tools/call", params)

    def get(self, model: TaskModel, wire: Wire) -> JSON:
        return self.client_of(model.owner).ask(wire, "tasks/get", {"taskId": model.id}).result

    def cancel(self, model: TaskModel, wire: Wire) -> None:
        client, was_live = self.client_of(model.owner), model.is_live
        has_ended = any(end.done is not None for end in model.ends)
        response = client.ask(wire, "tasks/cancel", {"taskId": model.id})
        if response.code is None:
            done = response.received if was_live or wire == OLD else None
            model.ends.append(End(("cancelled",), response.sent, done))
            # 2025-11-25:cancelled-before-answer
            if wire == OLD and response.result["status"] != "cancelled":
                status = response.result["status"]
                self.report(f"tasks/cancel of {model.name} returned status {status}")
            if has_ended and wire == OLD:
                self.report(f"{STICKY}: tasks/cancel of {model.name} succeeded after its end")
        elif was_live or wire == NEW or response.code != -32_602:
            self.report(f"tasks/cancel of {model.name} failed: {response.answer}")

    def end(self, model: TaskModel, how: str, *, and_wait: bool) -> None:
        """Order the tool to end."""
        text = f"{model.name} ended"
        outcome: dict[str, tuple[Any, ...]] = {
            "result": ("result", (text,), False),
            "tool error": ("result", (text,), True),
            "call error": ("error", -31_999, text),
            "crash": ("error", -32_603),
        }
        model.ends.append(End(outcome[how], now()))
        self.tool_run(model.name).order(do="end", how=how, text=text)
        if and_wait:
            self.until_ended(model)

    def until_ended(self, model: TaskModel) -> None:
        """Read the task until it has ended; later attempts to end it have no effect."""
        if model.tool == "controlled" and not model.is_stubborn:
            tool_run = self.tool_run(model.name)
            self.tool_control.until(lambda: tool_run.has_ended)
        elif model.tool == "expiring":
            self.client_of(model.owner).ask(OLD, "tasks/result", {"taskId": model.id})
        if self._poll(model, lambda task: task["status"] in ENDED):
            model.ends[0] = attrs.evolve(model.ends[0], done=model.ends[0].done or now())
        else:
            self.report(f"{model.name} did not end within the bound")

    def _poll(self, model: TaskModel, is_so: Any) -> bool:
        deadline = now() + BOUND_S * 1e9
        while now() < deadline:
            if is_so(self.get(model, NEW)):
                return True
        return False

    def race(self, model: TaskModel, how: str) -> None:
        """Cancel a task in another process, and let its tool write before its server notices."""
        sent = now()
        self.servers.cancel_in_store(model.id)
        model.ends.append(End(("cancelled",), sent, now()))
        if how == "progress":
            self.report_progress(model)
        else:
            self.end(model, how, and_wait=False)
        status = self.get(model, NEW)["status"]
        if status != "cancelled":
            self.report(f"{STICKY}: {model.name} was cancelled, now is {status}")

    def report_progress(self, model: TaskModel) -> None:
        model.progress += 1
        message = f"{model.name} continues"
        self.instruct(model, do="progress", value=model.progress, message=message)

    def instruct(self, model: TaskModel, **order: Any) -> None:
        """Order the tool to report, and wait until it has."""
        tool_run = self.tool_run(model.name)
        before = tool_run.count("done") + tool_run.count("gone")
        tool_run.order(**order)
        self.tool_control.until(
            lambda: tool_run.count("done") + tool_run.count("gone") > before or tool_run.has_ended
        )
        if model.is_live and (tool_run.count("gone") or tool_run.has_ended):
            self.report(f"the server stopped the tool of {model.name}, which is live")

    def run_again(self, model: TaskModel, how: str) -> None:
        """Let the tool record a step and sleep or be retried; the step is not called again."""
        key, control = f"s{len(model.steps)}", self.tool_control
        first, runs = self.tool_run(model.name), len(control.runs(model.name))
        first.order(do="step", key=key)
        first.order(do=how, key=key)
        if not control.until(lambda: len(control.runs(model.name)) > runs):
            self.report(f"{model.name} did not run again: {first.events}")
            return
        second = self.tool_run(model.name)
        [*_, rested] = [said["at"] for said in first.events if said["event"] == "resting"]
        if second.events[0]["at"] - rested < REST_S:
            self.report(f"no_task_starts_before_it_is_due: {model.name} ran again at once")
        if how == "sleep":
            second.order(do=how, key=key)
            control.until(lambda: second.count("woke"))
        model.steps[key] = self._result(first, key)
        for key, result in model.steps.items():
            second.order(do="step", key=key)
            control.until(partial(self._result, second, key))
            if second.count("called") or self._result(second, key) != result:
                name = "a_recorded_step_is_run_to_an_acknowledged_end_once"
                self.report(f"{name}: '{key}' of {model.name}: {second.events}")

    def _result(self, tool_run: ToolRun, key: str) -> str | None:
        found = (said["result"] for said in tool_run.events if said.get("key") == key
                 and said["event"] == "stepped")  # fmt: skip
        return next(found, None)

    # --- questions ---------------------------------------------------------------------------

    def ask(self, model: TaskModel, number: int, *, park: bool) -> None:
        keys = [f"q{len(model.asked) + index}" for index in range(number)]
        model.asked.update(dict.fromkeys(keys, park))
        model.groups.append(keys)
        if park:
            self.tool_control.on_next_run(model.name, do="ask", keys=keys, park=True)
        self.tool_run(model.name).order(do="ask", keys=keys, park=park)
        if not self._poll(model, lambda task: set(keys) <= task.get("inputRequests", {}).keys()):
            self.report(f"{model.name} asked {keys}, but tasks/get does not show them")

    def ask_something_else(self, model: TaskModel) -> None:
        """Let the tool use a question key for another request, which must be refused."""
        key, tool_run = next(iter(model.asked)), self.tool_run(model.name)
        refusals = tool_run.count("refused")
        tool_run.order(do="ask something else", key=key)

        def is_decided(task: JSON) -> bool:
            request = task.get("inputRequests", {}).get(key)
            is_shown = request is not None and request["params"]["message"].endswith(" again")
            return is_shown or tool_run.count("refused") > refusals or tool_run.has_ended

        if not self._poll(model, is_decided) or tool_run.count("refused") == refusals:
            invariant = "a_key_names_one_request_for_life"
            self.report(f"{invariant}: {model.name} asked another request under '{key}'")

    def answer(self, model: TaskModel, keys: Sequence[str]) -> None:
        """Answer questions by `tasks/update`."""
        said = {key: f"{model.name}{key} {next(self._words)}" for key in keys}
        responses = {
            key: {"action": "accept", "content": {"said": text}} for key, text in said.items()
        }
        params = {"taskId": model.id, "inputResponses": responses}
        response = self.client_of(model.owner).ask(NEW, "tasks/update", params)
        if response.code is not None:
            self.report(f"tasks/update of {model.name} failed: {response.answer}")
        self._answered(model, said)

    def can_deliver(self, model: TaskModel) -> bool:
        """Return whether the server must send the questions of this task to its owner."""
        if any(exchange.owner == model.owner for exchange in self.disconnected):
            return False  # the question may have been sent on it
        return any(wait.params["taskId"] == model.id for wait in self.open_waits())

    def reply(self, model: TaskModel, key: str, *, twice: bool) -> None:
        """Answer a question as a client of 2025-11-25: respond to the server's request."""
        client, words = self.client_of(model.owner), f"{model.name}/{key}"

        def delivered() -> Any:
            return next(
                (
                    received.message
                    for channel in reversed(self.evidence.channels)
                    if channel.session == client.session and channel.owner == client.owner
                    for received in channel.messages
                    if received.message.get("method") == "elicitation/create"
                    and received.message["params"]["message"] == words
                ),
                None,
            )

        request = self.evidence.expect(delivered, BOUND_S, f"'{words}' was never delivered")
        if not request:
            return
        if task_of(request) != model.id:
            self.report(f"a question of {model.id} names task {task_of(request)}")
        said = f"{words} {next(self._words)}"
        client.reply(request["id"], {"action": "accept", "content": {"said": said}})
        if isinstance(client, StdioClient) and not self._poll(
            model, lambda task: key not in task.get("inputRequests", {})
        ):
            self.report(f"the answer to '{words}' was lost")
        if twice:
            client.reply(request["id"], {"action": "accept", "content": {"said": "too late"}})
        self._answered(model, {key: said})

    def _answered(self, model: TaskModel, said: dict[str, str]) -> None:
        """Record the first answer to each question, and wait until the tool has them."""
        if not model.is_live:
            return
        before = set(model.answers)
        for key, text in said.items():
            if key in model.asked:
                model.answers.setdefault(key, text)
                model.answered_at.setdefault(key, now())
        for group in model.groups:
            if set(group) <= model.answers.keys() and not set(group) <= before:
                wanted = {key: model.answers[key] for key in group}
                if not self.tool_control.until(partial(self._has, model, wanted)):
                    events = [run.events for run in self.tool_control.runs(model.name)]
                    self.report(f"the tool of {model.name} did not get {wanted}: {events}")

    def _has(self, model: TaskModel, wanted: dict[str, str]) -> bool:
        return any(
            said["event"] == "answered" and said["answers"] == wanted
            for run in self.tool_control.runs(model.name)
            for said in run.events
        )

    # --- streams -----------------------------------------------------------------------------

    def wait(self, model: TaskModel) -> None:
        """Send `tasks/result`, which blocks until the task ends."""
        client = self.client_of(model.owner)
        params = {"taskId": model.id}
        self.waits.append(client.begin(OLD, "tasks/result", params, "result", model.id))

    def subscribe(self, client: Client, models: Sequence[TaskModel]) -> None:
        """Subscribe to tasks; the server acknowledges only those of this owner."""
        subscribing = client.subscribe([model.id for model in models])
        own = [model.id for model in models if model.owner == client.owner]
        if subscribing.channel is None or not subscribing.channel.messages:
            self.report(f"subscriptions/listen was not acknowledged: {subscribing.answer}")
            return
        agreed = subscribing.channel.messages[0].message.get("params", {}).get("notifications", {})
        if sorted(agreed.get("taskIds", [])) != sorted(own):
            self.report(f"{client.owner} owns {own}, but the server acknowledged {agreed}")
        self.subscriptions.append(subscribing)

    def open_get_stream(self, client: HttpClient, last_event_id: str | None = None) -> None:
        before = client.get_stream
        client.open_get_stream(last_event_id)
        if before is not None:
            if before in self.disconnected:
                self.disconnected.remove(before)
            else:
                self.evidence.expect(before.done.is_set, BOUND_S, "a session has two GET streams")

    # Which rules apply next must depend on the rules before, never on timing: otherwise Hypothesis
    # could not replay a run.

    def open_waits(self) -> list[Exchange]:
        """Return the `tasks/result` calls whose tasks are live."""
        live = {model.id for model in self.models if model.is_live}
        return [
            wait
            for wait in self.waits
            if wait.params["taskId"] in live
            and wait.session == self.client_of(wait.owner).session
            and wait.cancelled_at is None
        ]

    def resumable(self) -> list[Exchange]:
        """Return the open streams that a client could disconnect and resume."""
        get_stream = [c.get_stream for c in self.http_clients if c.get_stream is not None]
        waits = [wait for wait in self.open_waits() if wait.owner != STDIO]
        return [stream for stream in [*get_stream, *waits] if stream not in self.disconnected]

    def disconnect(self, stream: Exchange) -> None:
        channel = stream.channel
        assert channel is not None
        self.evidence.expect(lambda: channel.last_event_id, BOUND_S, "a stream sent no event id")
        self.client_of(stream.owner).drop(stream)
        self.disconnected.append(stream)

    def resume(self, stream: Exchange) -> None:
        client = self.client_of(stream.owner)
        assert isinstance(client, HttpClient)
        self.disconnected.remove(stream)
        client.resume(stream)

    def cancel_wait(self, wait: Exchange) -> None:
        if wait in self.disconnected:
            self.disconnected.remove(wait)
        self.client_of(wait.owner).cancel_wait(wait)

    def renew_session(self, client: HttpClient) -> None:
        session = client.session
        client.end_session()
        self.disconnected = [stream for stream in self.disconnected if stream.session != session]
        client.initialize()

    # --- access to foreign tasks and sessions -------------------------------------------------

    def access_foreign(self, client: Client, model: TaskModel, wire: Wire, method: str) -> None:
        """Send the same request for a foreign task and for an unknown id."""
        responses = []
        for task_id in (model.id, model.id[:-8] + "AAAAAAAA"):
            params: JSON = {"taskId": task_id}
            if method == "tasks/update":
                params["inputResponses"] = {"q0": {"action": "accept", "content": {"said": "x"}}}
            responses.append(client.ask(wire, method, params, id=888_888))
        foreign, unknown = responses
        if foreign.code is None:
            self.report(f"{method} of {client.owner} reached {model.name}: {foreign.answer}")
        self.evidence.foreign.append((f"{method} on {wire}", foreign.raw, unknown.raw))
        if foreign.status != unknown.status:
            statuses = f"HTTP {foreign.status}, for an unknown id HTTP {unknown.status}"
            self.report(f"{method}: for a foreign id {statuses}")

    def steal_session(self, thief: HttpClient, victim: HttpClient, verb: str) -> None:
        """Send the same request in a foreign session and in an unknown one."""
        responses = []
        for session in (victim.session, "A" * len(victim.session or "")):
            headers = {**thief.headers(OLD, "", {}), "Mcp-Session-Id": session}
            ask = b'{"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {}}'
            responses.append(thief.raw(verb, headers, ask if verb == "POST" else None))
        stolen, unknown = responses
        if stolen.status != 404:
            self.report(f"{thief.owner} used a foreign session: {stolen.status} {stolen.raw!r}")
        self.evidence.foreign.append((f"{verb} in a session", stolen.raw, unknown.raw))

    # --- lists, plain calls, malformed requests -----------------------------------------------

    def list_all(self, client: Client) -> None:
        """Read pages until all tasks of this run were listed; older tasks may follow."""
        wanted = {model.id for model in self.models if model.owner == client.owner}
        pages: list[list[str]] = []
        params: JSON = {}
        while True:
            result = client.ask(OLD, "tasks/list", params).result
            pages.append([task["taskId"] for task in result["tasks"]])
            wanted -= set(pages[-1])
            if "nextCursor" not in result or not wanted:
                break
            params = {"cursor": result["nextCursor"]}
        self.evidence.listed.append((client.owner, pages))
        if wanted:
            self.report(f"{client.owner} has {len(wanted)} tasks that are not listed")

    def call_plainly(self, client: Client, wire: Wire, *, leave: bool) -> None:
        name = self.word(client.owner)
        params = {"name": "controlled_plain", "arguments": {"name": name}}
        call = client.begin(wire, "tools/call", params, "call")
        tool_run = self.tool_run(name)
        if leave:
            client.drop(call)
            if wire == NEW and not self.tool_control.until(lambda: tool_run.count("stopped")):
                self.report("the server did not stop the tool of an abandoned call")
        tool_run.order(do="end", how="result", text=name)
        self._expect_text(call, name)

    def ask_once(self, client: Client, wire: Wire) -> None:
        """Send a plain call that asks: on its stream (2025), or by a retry (2026)."""
        name = self.word(client.owner)
        params: JSON = {"name": "ask_once", "arguments": {"name": name}}
        answer = {"action": "accept", "content": {"said": name[::-1]}}
        if wire == NEW:
            paused = client.ask(NEW, "tools/call", params).result
            if [*paused.get("inputRequests", {})] != ["only"]:
                self.report(f"a plain call did not ask: {paused}")
                return
            params |= {"inputResponses": {"only": answer}, "requestState": paused["requestState"]}
            call = client.begin(NEW, "tools/call", params, "call")
        else:
            call = client.begin(OLD, "tools/call", params, "call")

            def asked() -> Any:
                received = [h.message for c in self.evidence.channels for h in c.messages]
                words = f"{name}/only"
                found = (m for m in received if m.get("params", {}).get("message") == words)
                return next(found, None)

            question = self.evidence.expect(asked, BOUND_S, f"{name} did not ask")
            if question:
                client.reply(question["id"], answer)
        self._expect_text(call, f"{name}: {name[::-1]}")

    def _expect_text(self, call: Exchange, text: str) -> None:
        if call.is_dropped:
            return
        call.done.wait(BOUND_S)
        if call.answer is None or "result" not in call.answer:
            self.report(f"a plain call failed: {call.answer}")
        elif outcome_of_result(call.answer["result"]) != ("result", (text,), False):
            self.report(f"a plain call returned {call.answer} instead of {text}")

    def run_out_of_time(self, client: Client, wire: Wire) -> None:
        """Create a task that fails: its tool run exceeds its timeout, or its question its ttl."""
        self.wait(self.create(client, wire, 1 if wire == OLD else None, None, "expiring"))

    def send_malformed(self, client: HttpClient, request: Malformed) -> None:
        headers = {**client.headers(request.wire, "", {}), **request.headers}
        response = client.raw("POST", headers, request.body)
        if response.code != request.code or response.status not in request.status:
            self.report(f"{request.body!r} got HTTP {response.status}, {response.answer}")

    # --- the end -----------------------------------------------------------------------------

    def finish(self) -> None:
        """End every task, wait for the streams, and read every task once more."""
        for stream in list(self.disconnected):
            self.resume(stream)
        for model in self.models:
            if model.is_parked:
                self.cancel(model, NEW)
            elif model.is_live:
                self.end(model, "result", and_wait=False)
        for model in self.models:
            self.until_ended(model)
            if model.tool == "controlled":
                self.expect_stop(model)
        self.evidence.until(lambda: all(wait.done.is_set() for wait in self._awaited()), BOUND_S)
        self.evidence.until(lambda: not missing_ends(self.evidence), BOUND_S)
        for model in self.models:
            self.get(model, OLD)
            self.get(model, NEW)
            client = self.client_of(model.owner)
            client.ask(OLD, "tasks/result", {"taskId": model.id})
        for client in self.clients:
            self.list_all(client)

    def expect_stop(self, model: TaskModel) -> None:
        """Wait until the tool of an ended task has ended or was cancelled."""
        tool_run = self.tool_run(model.name)
        if not self.tool_control.until(lambda: tool_run.has_ended or tool_run.count("stopped")):
            self.report(f"{model.name} has ended, but its tool was not stopped")
        if model.is_stubborn:
            tool_run.order(do="end", how="result", text=f"{model.name} ended too late")

    def _awaited(self) -> list[Exchange]:
        return [wait for wait in self.waits if not wait.is_dropped]

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for model in self.models:
            for tool_run in self.tool_control.runs(model.name):
                tool_run.disconnect()
