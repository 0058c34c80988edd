"""Multi round-trip requests of 2026-07-28."""

from typing import Any, Final

from tests.conformance.checks.cases import Rows, bad, good, mixed, note, nothing, table, warning
from tests.conformance.histories.messages import Messages, messages

NEW: Final = "2026-07-28"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TWO = {"A": "Bearer a", "B": "Bearer b"}
FORM = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
SAMPLING = {"method": "sampling/createMessage", "params": {"messages": []}}
YES = {"action": "accept", "content": {}}
DONE = {"resultType": "complete", "content": []}
FAILED = {**DONE, "isError": True}


def params(name: str = "tool", can: Any = None, **more: Any) -> dict[str, Any]:
    """Return the parameters of a call."""
    declared = {"elicitation": {}, "sampling": {}} if can is None else can
    return {"name": name, "arguments": {"a": 1}, "_meta": {CAPABILITIES: declared}, **more}


def asking(state: Any = "state", **requests: Any) -> dict[str, Any]:
    """Return an input_required result."""
    found = {"inputRequests": requests} if requests else {}
    carried = {} if state is None else {"requestState": state}
    return {"resultType": "input_required", **found, **carried}


def call(**more: Any) -> Messages:
    """Call a tool; the response is missing."""
    return messages(NEW).request("tools/call", params(**more))


def asked(
    history: Messages | None = None, name: str = "tool", state: Any = "state", **more: Any
) -> Messages:
    """Call a tool that requires input."""
    history = messages(NEW) if history is None else history
    return history.request("tools/call", params(name, **more)).answer(asking(state, size=FORM))


def retry(history: Messages, responses: Any = None, state: Any = "state", **more: Any) -> Messages:
    """Repeat the call with responses and state."""
    name, caller = more.pop("name", "tool"), more.pop("caller", "A")
    given = {} if responses is None else {"inputResponses": responses}
    carried = {} if state is None else {"requestState": state}
    return history.request("tools/call", params(name, **given, **carried) | more, caller=caller)


def answered(history: Messages | None = None, **more: Any) -> Messages:
    """Repeat the call with the right answer."""
    return retry(asked() if history is None else history, {"size": YES}, **more)


def other_request(method: str) -> Messages:
    return messages(NEW).request(method, {"taskId": "a"})


def stolen() -> Messages:
    """Repeat the call of A as B."""
    return answered(asked(messages(NEW, principals=TWO)), caller="B")


def moved(change: dict[str, Any]) -> Messages:
    """Repeat a call with other parameters, after another call asked with a state of its own."""
    return answered(asked(asked(), name="other", state="other state"), **change)


def refused_extra() -> Messages:
    return retry(answered().answer(DONE), EXTRA).error(-32602)


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ELICITATION = {"jsonrpc": "2.0", "id": 1, **FORM}
EXTRA = {"size": YES, "other": YES}
MALFORMED: list[Any] = [5, {"action": 7}, {}, None]
TOO_FEW: list[Any] = [{}, {"other": YES}, None]
WITHOUT_MRTR = ("tasks/get", "tasks/update", "tools/list", "server/discover")
UNKNOWN_KINDS: list[Any] = [{"method": "moon/get"}, {"method": []}, 5]
OTHER_CALLS: list[dict[str, Any]] = [{"arguments": {"a": 2}}, {"name": "other"}]

ROWS: Rows = {
    # --- input requests ---
    "server-sends-no-requests questions-by-mrtr": [
        good(asked()),
        bad(call().receive(ELICITATION)),
    ],
    "server-sends-no-requests": [bad(messages(NEW).receive(PING))],
    "questions-by-mrtr": [nothing(messages(NEW).receive(PING))],
    "mrtr-no-other-requests": [
        good(*(other_request(m).answer({"resultType": "complete"}) for m in WITHOUT_MRTR)),
        nothing(asked()),
        bad(*(other_request(m).answer(asking(size=FORM)) for m in WITHOUT_MRTR)),
    ],
    "mrtr-something-to-do": [
        good(*(call().answer(r) for r in (asking(size=FORM), asking(None, size=FORM), asking()))),
        nothing(call().answer(DONE)),
        bad(call().answer(asking(None))),
    ],
    "input-request-kinds": [
        good(*(call().answer(asking(size=each)) for each in (FORM, {"method": "roots/list"}))),
        bad(*(call().answer(asking(size=each)) for each in UNKNOWN_KINDS)),
    ],
    "mrtr-declared-kinds-only": [
        good(call().answer(asking(size=FORM, line=SAMPLING))),
        mixed(call(can={"elicitation": {}}).answer(asking(size=FORM, line=SAMPLING))),
        bad(call(can={}).answer(asking(size=FORM, line=SAMPLING))),
    ],
    "mrtr-no-assumed-retry": [
        good(
            asked(asked()),
            asked(retry(asked(), {"size": YES}, "of another one").error(-32602)),
        ),
        nothing(
            asked().request("tools/call", params()).time_out(after_ms=500),
            answered().answer(DONE).request("tools/call", params()).time_out(),
        ),
        bad(asked().request("tools/call", params()).time_out()),
    ],
    # --- input responses ---
    "input-responses-malformed-error": [
        good(retry(asked(), 5).error(-32602)),
        nothing(retry(asked(), {}).answer(asking(size=FORM))),
        bad(
            retry(asked(), []).answer(asking(size=FORM)),
            messages(NEW)
            .request("tasks/update", {"taskId": "a", "inputResponses": "x"})
            .answer({"resultType": "complete"}),
        ),
    ],
    "input-responses-validated": [
        good(*(retry(asked(), {"size": each}).error(-32602) for each in MALFORMED)),
        good(*(retry(asked(), {"size": each}).answer(asking(size=FORM)) for each in MALFORMED)),
        good(*(retry(asked(), {"size": each}).answer(FAILED) for each in MALFORMED)),
        nothing(answered().answer(DONE)),
        bad(*(retry(asked(), {"size": each}).answer(DONE) for each in MALFORMED)),
    ],
    "input-responses-extra-ignored": [
        good(retry(asked(), EXTRA).answer(DONE)),
        nothing(
            retry(asked(), EXTRA).error(-32602),
            retry(answered().answer(DONE), EXTRA).error(-32603, "too many calls"),
        ),
        bad(
            refused_extra(),
            retry(refused_extra(), EXTRA).error(-32603, "too many calls"),
        ),
    ],
    "missing-answers-asked-again": [
        good(
            *(retry(asked(), few).answer(asking(size=FORM)) for few in TOO_FEW),
            retry(asked(state=None), {}, state=None).answer(asking(None, size=FORM)),
        ),
        nothing(
            *(retry(asked(), few).error(-32603) for few in TOO_FEW),
            *(retry(asked(), few).answer(DONE) for few in TOO_FEW),
            answered().error(-32602),
        ),
        bad(*(retry(asked(), few).error(-32602) for few in TOO_FEW)),
    ],
    # --- request state ---
    "request-state-protected request-state-rejected-if-tampered": [
        good(
            answered(state="stAte").error(-32602),
            answered(state="stAte").answer(asking(size=FORM)),
        ),
        nothing(answered().answer(DONE), answered(asked(state=None), state="stAte").answer(DONE)),
        warning(answered(state="stAte").answer(DONE)),
    ],
    "request-state-untrusted": [
        good(retry(asked(), {}, "x" * 9_999).error(-32602)),
        nothing(retry(asked(), {}).error(-32603, status=500)),
        bad(retry(asked(), {}, "x").error(-32603, status=500)),
    ],
    "request-state-bound-to-principal": [
        good(stolen().error(-32602)),
        nothing(
            answered(asked(messages(NEW, principals=TWO))).answer(DONE),
            answered(caller="B").answer(DONE),
        ),
        bad(stolen().answer(DONE)),
    ],
    "request-state-bound-to-request": [
        good(*(moved(change).error(-32602) for change in OTHER_CALLS)),
        nothing(
            answered().answer(DONE),
            answered(name="other").answer(DONE),  # a tool without states
        ),
        bad(*(moved(change).answer(DONE) for change in OTHER_CALLS)),
    ],
    "mrtr-supported-requests mrtr-server-may-ask mrtr-input-requests-optional": [good(asked())],
    "mrtr-may-ask-again": [good(answered().answer(asking(size=FORM)))],
    "mrtr-request-state-optional": [good(asked()), note(asked(state=5))],
    "request-scoped-notifications": [
        good(
            messages(NEW)
            .request("tools/call", params(), id=1)
            .push("notifications/progress", {"progress": 1}, on=1)
        )
    ],
}

CASES = table(NEW, ROWS)
