"""The rules about questions inside of results, against histories written by hand."""

from typing import Any, Literal

import pytest

from tests.conformance.histories.judged import judged
from tests.conformance.histories.told import Told, told

NEW: Literal["2026-07-28"] = "2026-07-28"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TWO = {"A": "Bearer a", "B": "Bearer b"}
FORM = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
SAMPLING = {"method": "sampling/createMessage", "params": {"messages": []}}
YES = {"action": "accept", "content": {}}
DONE = {"resultType": "complete", "content": []}
FAILED = {**DONE, "isError": True}


def judge(name: str, tale: Told) -> set[str]:
    """The outcomes of a check of this revision."""
    return judged(f"{NEW}:{name}", tale)


def params(name: str = "tool", can: Any = None, **more: Any) -> dict[str, Any]:
    """Of a call."""
    declared = {"elicitation": {}, "sampling": {}} if can is None else can
    return {"name": name, "arguments": {"a": 1}, "_meta": {CAPABILITIES: declared}, **more}


def asking(state: Any = "state", **requests: Any) -> dict[str, Any]:
    """A result that asks."""
    found = {"inputRequests": requests} if requests else {}
    return {
        "resultType": "input_required",
        **found,
        **({} if state is None else {"requestState": state}),
    }


def asked(tale: Told | None = None, name: str = "tool", state: Any = "state", **more: Any) -> Told:
    """A call that asks."""
    tale = told(NEW) if tale is None else tale
    return tale.request("tools/call", params(name, **more)).answer(asking(state, size=FORM))


def retry(tale: Told, responses: Any = None, state: Any = "state", **more: Any) -> Told:
    """It is tried again."""
    name, caller = more.pop("name", "tool"), more.pop("caller", "A")
    given = {} if responses is None else {"inputResponses": responses}
    carried = {} if state is None else {"requestState": state}
    return tale.request("tools/call", params(name, **given, **carried) | more, caller=caller)


# --- asking ----------------------------------------------------------------------------------


def test_servers_send_no_requests() -> None:
    question = {"jsonrpc": "2.0", "id": 1, **FORM}
    for name in ("server-sends-no-requests", "questions-by-mrtr"):
        assert judge(name, asked()) == {"good"}
        assert judge(name, told(NEW).request("tools/call", params()).hear(question)) == {"bad"}
    ping = told(NEW).hear({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert judge("server-sends-no-requests", ping) == {"bad"}
    assert judge("questions-by-mrtr", ping) == set()


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tools/list", "server/discover"])
def test_only_three_methods_ask(method: str) -> None:
    tale = told(NEW).request(method, {"taskId": "a"})
    assert judge("mrtr-no-other-requests", tale.answer({"resultType": "complete"})) == {"good"}
    tale = told(NEW).request(method, {"taskId": "a"}).answer(asking(size=FORM))
    assert judge("mrtr-no-other-requests", tale) == {"bad"}
    assert judge("mrtr-no-other-requests", asked()) == set()


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (asking(size=FORM), {"good"}),
        (asking(None, size=FORM), {"good"}),
        (asking(), {"good"}),
        (asking(None), {"bad"}),
        (DONE, set()),
    ],
)
def test_there_is_something_to_do(result: Any, expected: set[str]) -> None:
    tale = told(NEW).request("tools/call", params()).answer(result)
    assert judge("mrtr-something-to-do", tale) == expected


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (FORM, {"good"}),
        ({"method": "roots/list"}, {"good"}),
        ({"method": "moon/get"}, {"bad"}),
        ({"method": []}, {"bad"}),
        (5, {"bad"}),
    ],
)
def test_there_are_three_kinds_of_questions(request_: Any, expected: set[str]) -> None:
    tale = told(NEW).request("tools/call", params()).answer(asking(size=request_))
    assert judge("input-request-kinds", tale) == expected


@pytest.mark.parametrize(
    ("can", "expected"),
    [
        ({"elicitation": {}, "sampling": {}}, {"good"}),
        ({"elicitation": {}}, {"good", "bad"}),
        ({}, {"bad"}),
    ],
)
def test_only_declared_kinds_are_asked(can: Any, expected: set[str]) -> None:
    tale = told(NEW).request("tools/call", params(can=can))
    tale.answer(asking(size=FORM, line=SAMPLING))
    assert judge("mrtr-declared-kinds-only", tale) == expected


def test_nobody_has_to_try_again() -> None:
    assert judge("mrtr-no-assumed-retry", asked(asked())) == {"good"}
    waiting = asked().request("tools/call", params()).give_up()
    assert judge("mrtr-no-assumed-retry", waiting) == {"bad"}
    brief = asked().request("tools/call", params()).give_up(after_ms=500)
    assert judge("mrtr-no-assumed-retry", brief) == set()
    answered = retry(asked(), {"size": YES}).answer(DONE).request("tools/call", params())
    assert judge("mrtr-no-assumed-retry", answered.give_up()) == set()
    other = retry(asked(), {"size": YES}, "of another one").error(-32602)
    assert judge("mrtr-no-assumed-retry", asked(other)) == {"good"}


# --- answers ---------------------------------------------------------------------------------


def test_malformed_answers_are_errors() -> None:
    name = "input-responses-malformed-error"
    assert judge(name, retry(asked(), 5).error(-32602)) == {"good"}
    assert judge(name, retry(asked(), []).answer(asking(size=FORM))) == {"bad"}
    assert judge(name, retry(asked(), {}).answer(asking(size=FORM))) == set()
    update = told(NEW).request("tasks/update", {"taskId": "a", "inputResponses": "x"})
    assert judge(name, update.answer({"resultType": "complete"})) == {"bad"}


@pytest.mark.parametrize("answer", [5, {"action": 7}, {}, None])
def test_misshapen_answers_are_not_taken(answer: Any) -> None:
    name = "input-responses-validated"
    assert judge(name, retry(asked(), {"size": answer}).error(-32602)) == {"good"}
    assert judge(name, retry(asked(), {"size": answer}).answer(asking(size=FORM))) == {"good"}
    assert judge(name, retry(asked(), {"size": answer}).answer(FAILED)) == {"good"}
    assert judge(name, retry(asked(), {"size": answer}).answer(DONE)) == {"bad"}
    assert judge(name, retry(asked(), {"size": YES}).answer(DONE)) == set()


def test_more_than_was_asked_is_ignored() -> None:
    name, more = "input-responses-extra-ignored", {"size": YES, "other": YES}
    assert judge(name, retry(asked(), more).answer(DONE)) == {"good"}
    assert judge(name, retry(asked(), more).error(-32602)) == set()
    fine = retry(asked(), {"size": YES}).answer(DONE)
    assert judge(name, retry(fine, more).error(-32602)) == {"bad"}
    assert judge(name, retry(fine, more).error(-32603, "too many calls")) == {"bad"}
    fine = retry(asked(), {"size": YES}).answer(DONE)
    assert judge(name, retry(fine, more).error(-32603, "too many calls")) == set()


def test_less_than_was_asked_is_asked_again() -> None:
    name = "missing-answers-asked-again"
    for given in ({}, {"other": YES}, None):
        assert judge(name, retry(asked(), given).answer(asking(size=FORM))) == {"good"}
        assert judge(name, retry(asked(), given).error(-32602)) == {"bad"}
        assert judge(name, retry(asked(), given).error(-32603)) == set()
        assert judge(name, retry(asked(), given).answer(DONE)) == set()
    assert judge(name, retry(asked(), {"size": YES}).error(-32602)) == set()


def test_without_a_state_the_call_tells_what_is_answered() -> None:
    tale = retry(asked(state=None), {}, state=None)
    assert judge("missing-answers-asked-again", tale.answer(asking(None, size=FORM))) == {"good"}


# --- states ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["request-state-protected", "request-state-rejected-if-tampered"])
def test_changed_states_are_rejected(name: str) -> None:
    assert judge(name, retry(asked(), {"size": YES}, "stAte").error(-32602)) == {"good"}
    assert judge(name, retry(asked(), {"size": YES}, "stAte").answer(asking(size=FORM))) == {"good"}
    assert judge(name, retry(asked(), {"size": YES}, "stAte").answer(DONE)) == {"warning"}
    assert judge(name, retry(asked(), {"size": YES}).answer(DONE)) == set()
    stateless = retry(asked(state=None), {"size": YES}, "stAte")
    assert judge(name, stateless.answer(DONE)) == set()


def test_no_state_breaks_a_server() -> None:
    name = "request-state-untrusted"
    assert judge(name, retry(asked(), {}, "x" * 9_999).error(-32602)) == {"good"}
    assert judge(name, retry(asked(), {}, "x").error(-32603, status=500)) == {"bad"}
    assert judge(name, retry(asked(), {}).error(-32603, status=500)) == set()


def test_states_are_for_one_principal() -> None:
    name = "request-state-bound-to-principal"

    def other() -> Told:
        return retry(asked(told(NEW, principals=TWO)), {"size": YES}, caller="B")

    assert judge(name, other().error(-32602)) == {"good"}
    assert judge(name, other().answer(DONE)) == {"bad"}
    own = retry(asked(told(NEW, principals=TWO)), {"size": YES})
    assert judge(name, own.answer(DONE)) == set()
    assert judge(name, retry(asked(), {"size": YES}, caller="B").answer(DONE)) == set()


def test_states_are_for_one_request() -> None:
    name = "request-state-bound-to-request"
    for change in ({"arguments": {"a": 2}}, {"name": "other"}):
        both = asked(asked(), name="other", state="other state")
        assert judge(name, retry(both, {"size": YES}, **change).error(-32602)) == {"good"}
        both = asked(asked(), name="other", state="other state")
        assert judge(name, retry(both, {"size": YES}, **change).answer(DONE)) == {"bad"}
    assert judge(name, retry(asked(), {"size": YES}).answer(DONE)) == set()
    deaf = retry(asked(), {"size": YES}, name="other").answer(DONE)  # it knows of no states
    assert judge(name, deaf) == set()


def test_all_that_is_allowed_is_good() -> None:
    for name in ("mrtr-supported-requests", "mrtr-server-may-ask", "mrtr-input-requests-optional"):
        assert judge(name, asked()) == {"good"}
    again = retry(asked(), {"size": YES}).answer(asking(size=FORM))
    assert judge("mrtr-may-ask-again", again) == {"good"}
    assert judge("mrtr-request-state-optional", asked()) == {"good"}
    assert judge("mrtr-request-state-optional", asked(state=5)) == {"note"}
    scoped = told(NEW).request("tools/call", params(), id=1)
    scoped.notify("notifications/progress", {"progress": 1}, on=1)
    assert judge("request-scoped-notifications", scoped) == {"good"}
