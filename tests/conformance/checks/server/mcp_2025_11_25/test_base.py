"""The checks of messages and lifecycle of 2025-11-25, against histories written by hand."""

from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.judging import CHECKS
from tests.conformance.histories.wire import Wire, pipe, web

load_checks()

QUESTION = "elicitation/create"
INFO = {"name": "a", "version": "1"}


def outcomes(name: str, wire: Wire) -> set[str]:
    return {seen.outcome for seen in CHECKS[f"2025-11-25:{name}"].observe(wire.history)}


def hello(
    wire: Wire,
    proposed: str = "2025-11-25",
    agreed: str = "2025-11-25",
    *,
    declared: Any = None,
    offered: Any = None,
) -> Wire:
    """`initialize`, answered."""
    params = {"protocolVersion": proposed, "capabilities": declared or {}}
    fields = {"protocolVersion": agreed, "capabilities": offered or {}, "serverInfo": INFO}
    return wire.request("initialize", params).answer(fields)


def ready(wire: Wire, **how: Any) -> Wire:
    return hello(wire, **how).notify("notifications/initialized")


# --- requests of the target ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "type", "null"),
    [
        (1, {"good"}, {"good"}),
        ("a", {"good"}, {"good"}),
        (2.0, {"good"}, {"good"}),
        (1.5, {"bad"}, {"good"}),
        (True, {"bad"}, {"good"}),
        ([], {"bad"}, {"good"}),
        (None, set(), {"bad"}),
    ],
)
def test_ids_of_requests(id: Any, type: set[str], null: set[str]) -> None:
    wire = pipe().tells(QUESTION, id=id)
    assert outcomes("request-id-type", wire) == type
    assert outcomes("request-id-not-null", wire) == null


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (pipe().tells(QUESTION, id=1).tells(QUESTION, id=2), {"good"}),
        (pipe().tells(QUESTION, id=1).tells(QUESTION, id="1"), {"good"}),
        (pipe().tells(QUESTION, id=1).tells(QUESTION, id=1), {"good", "bad"}),
        (pipe().tells(QUESTION, id=1).on(2).tells(QUESTION, id=1), {"good"}),
        (
            web().request("a").tells(QUESTION, id=1).request("b").tells(QUESTION, {"x": 1}, id=1),
            {"good", "bad"},
        ),
        # The same one on a resumed stream.
        (web().request("a").tells(QUESTION, id=1).request("b").tells(QUESTION, id=1), {"good"}),
    ],
)
def test_ids_of_requests_are_new(wire: Wire, expected: set[str]) -> None:
    assert outcomes("request-id-not-reused", wire) == expected


# --- what is tolerated ---------------------------------------------------------------------------

UNKNOWN = {"_meta": {"io.modelcontextprotocol/unknown": 1}}


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (pipe().request("ping", UNKNOWN).answer({}), {"good"}),
        (pipe().request("ping").answer({}).request("ping", UNKNOWN).error(-32602), {"bad"}),
        (pipe().request("ping").answer({}).request("ping", UNKNOWN).error(-32603), set()),
        (pipe().request("ping", UNKNOWN).error(-32602), set()),
        (pipe().request("ping", {"_meta": {"progressToken": 1}}).answer({}), set()),
        (pipe().request("tasks/get", UNKNOWN).error(-32602), set()),
    ],
)
def test_unknown_keys_are_tolerated(wire: Wire, expected: set[str]) -> None:
    assert outcomes("meta-no-assumptions", wire) == expected


def test_odd_names_are_tolerated() -> None:
    wire = pipe().request("ping", {"_meta": {"org.example/a_b-c.d": 1}}).answer({})
    assert outcomes("meta-name-characters", wire) == {"good"}
    assert outcomes("result-any-object", wire) == {"good"}


def test_initialize_must_be_known() -> None:
    assert outcomes("base-protocol-supported", hello(pipe())) == {"good"}
    unknown = pipe().request("initialize", {}).error(-32601)
    assert outcomes("base-protocol-supported", unknown) == {"bad"}
    assert outcomes("base-protocol-supported", pipe().request("initialize").error(-1)) == set()


# --- initialization ------------------------------------------------------------------------------


def http_hello(wire: Wire) -> Wire:
    fields = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": INFO}
    return wire.on(1).request("initialize", {}).head(mcp_session_id="s").answer(fields)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (hello(pipe().request("tools/list").error(-32600)), {"good"}),
        (hello(pipe().request("tools/list").answer({"tools": []})), {"bad"}),
        (hello(pipe().request("ping").answer({})), set()),
        (hello(pipe()).request("tools/list").answer({"tools": []}), set()),
        # It waited until it was initialized: nothing wrong with that.
        (hello(pipe().request("tools/list", id=7)).answer({"tools": []}, id=7), set()),
        (http_hello(web().on(2).request("tools/list").head(400).on(1)), {"good"}),
        (http_hello(web().on(2).request("tools/list").answer({"tools": []}).on(1)), {"bad"}),
        # Without sessions nobody knows who was initialized.
        (hello(web().on(2).request("tools/list").answer({"tools": []}).on(1)), set()),
        (
            http_hello(web())
            .request("tools/list", headers={"mcp-session-id": "s"})
            .answer({"tools": []}),
            set(),
        ),
    ],
)
def test_nothing_is_served_before_initialize(wire: Wire, expected: set[str]) -> None:
    assert outcomes("initialize-first", wire) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {"good"}),
        ({"instructions": "none"}, {"good"}),
        ({"protocolVersion": None}, {"bad"}),
        ({"capabilities": []}, {"bad"}),
        ({"serverInfo": "me"}, {"bad"}),
        ({"serverInfo": {"name": "me"}}, {"bad"}),
    ],
)
def test_the_target_introduces_itself(change: dict[str, Any], expected: set[str]) -> None:
    fields = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": INFO} | change
    wire = pipe().request("initialize", {}).answer(fields)
    assert outcomes("initialize-answered", wire) == expected


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (ready(pipe()).tells(QUESTION, id=1), set()),
        (hello(pipe()).request("ping").answer({}).notify("notifications/initialized"), {"good"}),
        (hello(pipe()).tells(QUESTION, id=1).notify("notifications/initialized"), {"bad"}),
        (hello(pipe()).tells(QUESTION, id=1), {"bad"}),
        (hello(pipe()).tells("ping", id=1).notify("notifications/initialized"), set()),
        (hello(pipe()).tells("notifications/message").notify("notifications/initialized"), set()),
    ],
)
def test_nothing_is_asked_before_initialized(wire: Wire, expected: set[str]) -> None:
    assert outcomes("server-waits-for-initialized", wire) == expected


# --- versions ------------------------------------------------------------------------------------


def second(agreed: str, proposed: str = "2025-11-25") -> Wire:
    """The target supports 2025-11-25; then it is asked again."""
    return hello(hello(pipe()).on(2), proposed, agreed)


@pytest.mark.parametrize(
    ("wire", "same", "other", "latest"),
    [
        (second("2025-11-25"), {"good"}, set(), set()),
        (second("2025-06-18"), {"good", "bad"}, set(), set()),
        (second("2025-11-25", "1900-01-01"), {"good"}, {"good"}, {"good"}),
        (second("2024-11-05", "1900-01-01"), {"good"}, {"good"}, {"bad"}),
        (second("2026-07-28", "1900-01-01"), {"good"}, {"good"}, {"good"}),
        (second("1900-01-01", "1900-01-01"), {"good"}, {"bad"}, set()),
        (second("the-latest", "the-latest"), {"good"}, {"bad"}, set()),
        (second("2025-11-25", "2025-06-18"), {"good"}, set(), set()),
    ],
)
def test_versions_are_agreed_on(
    wire: Wire, same: set[str], other: set[str], latest: set[str]
) -> None:
    assert outcomes("server-same-version", wire) == same
    assert outcomes("server-other-version", wire) == other
    assert outcomes("server-version-latest", wire) == latest


@pytest.mark.parametrize(
    ("wire", "other", "handled"),
    [
        (pipe().request("initialize", {"protocolVersion": "1900-01-01"}).error(-32602),
         {"note"}, {"good"}),
        (pipe().request("initialize", {"protocolVersion": "1900-01-01"}).error(-32603),
         {"bad"}, {"good"}),
        (pipe().request("initialize", {"protocolVersion": "1900-01-01"}).gives_up(),
         set(), {"bad"}),
        (pipe().request("initialize", {"protocolVersion": "1900-01-01"}).exits(),
         set(), {"bad"}),
        (web().request("initialize", {"protocolVersion": "1900-01-01"}).head(400),
         set(), {"good"}),
        (web().request("initialize", {"protocolVersion": "1900-01-01"}).head(429).error(-1),
         set(), {"good"}),
        (pipe().request("initialize", {"protocolVersion": "2025-11-25"}).gives_up(), set(), set()),
    ],
)  # fmt: skip
def test_a_version_that_nobody_has(wire: Wire, other: set[str], handled: set[str]) -> None:
    assert outcomes("server-other-version", wire) == other
    assert outcomes("negotiation-errors-handled", wire) == handled


TASK = {"task": {"taskId": "t", "status": "working"}}


def older(offered: Any = None) -> Wire:
    return ready(pipe(), proposed="2025-06-18", agreed="2025-06-18", offered=offered)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (older().request("tools/call", {"name": "a"}).answer({"content": []}), {"good"}),
        (older().request("tools/call", {"name": "a"}).answer(TASK), {"bad"}),
        (older().request("tools/call", {"name": "a", "task": {}}).answer(TASK), {"warning"}),
        (older().tells("notifications/tasks/status", {"taskId": "t"}), {"bad"}),
        (older({"tasks": {}}), {"note"}),
        (older(), set()),
        (ready(pipe()).request("tools/call", {"name": "a"}).answer(TASK), set()),
    ],
)
def test_older_versions_have_no_tasks(wire: Wire, expected: set[str]) -> None:
    assert outcomes("version-respected", wire) == expected


# --- capabilities --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "method", "params", "expected"),
    [
        ({"elicitation": {}}, QUESTION, {}, "good"),
        ({"elicitation": {"form": {}}}, QUESTION, {"mode": "form"}, "good"),
        ({}, QUESTION, {}, "bad"),
        ({"elicitation": {"form": {}}}, QUESTION, {"mode": "url"}, "bad"),
        ({"elicitation": {"url": {}}}, QUESTION, {"mode": "url"}, "good"),
        ({"sampling": {}}, "sampling/createMessage", {}, "good"),
        ({"elicitation": {}}, "sampling/createMessage", {}, "bad"),
        ({}, "roots/list", {}, "bad"),
        ({}, "ping", {}, "good"),
        ({}, "tasks/get", {"taskId": "t"}, "bad"),
        ({"tasks": {}}, "tasks/get", {"taskId": "t"}, "good"),
        ({"sampling": {}, "tasks": {}}, "sampling/createMessage", {"task": {}}, "bad"),
        (
            {"sampling": {}, "tasks": {"requests": {"sampling": {"createMessage": {}}}}},
            "sampling/createMessage",
            {"task": {}},
            "good",
        ),
    ],
)
def test_only_what_was_declared_is_asked(
    declared: Any, method: str, params: Any, expected: str
) -> None:
    wire = ready(pipe(), declared=declared).tells(method, params, id=1)
    assert outcomes("only-negotiated-capabilities", wire) == {expected}


def test_nobody_is_asked_who_declared_nothing() -> None:
    wire = ready(pipe()).request("tools/call", {"name": "a"}).answer(TASK)
    assert outcomes("only-negotiated-capabilities", wire) == {"good"}
