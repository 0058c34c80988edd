"""What callers do that have no right to it, or no sense."""

from tests.wire.http_wire import HttpCaller
from tests.wire.nonsense import Nonsense
from tests.wire.record import JSON, NEW, OLD, Life, Wire
from tests.wire.run import Caller, Run

__all__ = ["answer_foreign", "look_at_foreign", "steal_session", "talk_nonsense"]


def look_at_foreign(run: Run, caller: Caller, life: Life, wire: Wire, method: str) -> None:
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
        run.complain(f"{caller.owner} could {method} {life.name}: {foreign.answer}")
    run.evidence.foreign.append((f"{method} on {wire}", foreign.raw, nonsense.raw))
    if foreign.status != nonsense.status:
        run.complain(f"{method}: HTTP {foreign.status}, and {nonsense.status} for nonsense")


def steal_session(run: Run, thief: HttpCaller, victim: HttpCaller, verb: str) -> None:
    """Somebody else's session is none."""
    told = []
    for session in (victim.session, "A" * len(victim.session or "")):
        headers = {**thief.headers(OLD, "", {}), "Mcp-Session-Id": session}
        ask = b'{"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {}}'
        told.append(thief.raw(verb, headers, ask if verb == "POST" else None))
    stolen, nonsense = told
    if stolen.status != 404:
        run.complain(f"{thief.owner} took over a session: {stolen.status} {stolen.raw!r}")
    run.evidence.foreign.append((f"{verb} in a session", stolen.raw, nonsense.raw))


def answer_foreign(run: Run, caller: Caller) -> None:
    """Under the ids of requests that went to somebody else: these stay open."""
    for channel in run.evidence.channels:
        for heard in channel.heard if channel.owner != caller.owner else ():
            if heard.message.get("method") == "elicitation/create":
                stolen = {"action": "accept", "content": {"said": "stolen"}}
                caller.reply(heard.message["id"], stolen)
    for life in run.lives:
        if life.unanswered and life.owner != caller.owner:
            missing = set(life.unanswered) - run.get(life, NEW).get("inputRequests", {}).keys()
            if missing:
                run.complain(f"{caller.owner} answered {missing} of {life.name}")


def talk_nonsense(run: Run, caller: HttpCaller, nonsense: Nonsense) -> None:
    headers = {**caller.headers(nonsense.wire, "", {}), **nonsense.headers}
    told = caller.raw("POST", headers, nonsense.body)
    if told.code != nonsense.code or told.status not in nonsense.status:
        run.complain(f"{nonsense.body!r} was answered {told.status} {told.answer}")
