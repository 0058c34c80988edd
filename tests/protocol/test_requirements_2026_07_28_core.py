"""Requirements of the core of 2026-07-28 on every message of a server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from taskmachine.protocol.dialects.mcp_2025_11_25 import receiver as receiver_2025_11_25
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as g2
from taskmachine.protocol.errors import MalformedMessage
from taskmachine.protocol.jsonrpc import Request, decode_message, encode_message
from taskmachine.protocol.offer import Offer
from taskmachine.statemachine import LimitExceeded, NotFound, Outcome
from tests.oracle import judge
from tests.protocol.memory_driver import OFFER, MemoryDriver
from tests.protocol.plain_2026_07_28 import (
    ABLE,
    ACCEPTED,
    CAPABILITIES_KEY,
    EXTENSION,
    REVISION,
    VERSION_KEY,
    Peer,
    form,
    on_the_wire,
    returned,
    sampling,
)
from tests.protocol.test_requirements_2025_11_25 import KEY
from tests.requirements import covers


def conversation() -> Peer:
    """A peer to whom everything has been said that our server can say."""
    peer = Peer()
    peer.result("server/discover")
    peer.result("tools/list")
    tasks = [peer.create() for _ in range(4)]
    peer.listen(*tasks, id="watch")
    peer.ask(tasks[0], form(), sampling())
    peer.update(tasks[0], name=ACCEPTED)
    peer.cancel(tasks[0])
    peer.complete(tasks[1])
    peer.complete(tasks[2], {"content": [], "isError": True, "_meta": {"com.example/x": 1}})
    for code in (7, -32002, -32042, -32021, -32099):
        failing = peer.create()
        peer.fail(failing, Outcome.of_error(code, "boom"))
        peer.get(failing)
    for task in tasks:
        peer.get(task)
    peer.send("tools/call", {"elicitation": {}}, name="greet", id="plain")
    peer.connection.finish_run("plain", returned())
    peer.send("tools/call", {"elicitation": {}}, name="greet", id="paused")
    peer.do(peer.receiver.paused("paused", [form()], "s"))
    for method in ("nonsense", "tasks/list", "initialize", "tasks/get"):
        peer.error(method)
    peer.error("tasks/get", {}, taskId=tasks[0])
    peer.error("tools/call", {}, name="slow")
    peer.error("tasks/get", taskId="never-issued")
    peer.error("tools/list", says={VERSION_KEY: "1900-01-01"})
    for error in (LimitExceeded("tasks", 5), ZeroDivisionError(), NotFound("x")):
        peer.send("tools/call", {}, name="greet", id="refused")
        peer.do(peer.receiver.refused("refused", error))
    peer.do(peer.receiver.ended("watch"))
    return peer


def parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from parts(inner)


@covers(
    "2026-07-28:base-protocol-supported",
    "2026-07-28:jsonrpc-2-0",
    "2026-07-28:result-field",
    "2026-07-28:result-type-present",
    "2026-07-28:server-sends-no-requests",
    "2026-07-28:only-tools-call",
    "2026-07-28:result-type-task-only-on-create",
    "2026-07-28:result-type-task-reserved",
    "2026-07-28:method-prefix-reserved",
    "2026-07-28:mrtr-no-other-requests",
    "2026-07-28:notification-without-id",
    "2026-07-28:request-scoped-notifications",
    "2026-07-28:server-info-sent",
)
def test_every_message_of_a_server_is_a_response_or_a_notification_that_exists() -> None:
    for seen in conversation().transcript:
        assert seen["jsonrpc"] == "2.0"
        if "method" in seen:
            assert "id" not in seen
            assert seen["method"] in {
                "notifications/subscriptions/acknowledged",
                "notifications/tasks",
                "notifications/cancelled",
            }
        elif "result" in seen:
            assert seen["result"]["_meta"]["io.modelcontextprotocol/serverInfo"] == OFFER.info
            kind = seen["result"]["resultType"]
            assert kind in {"complete", "input_required", "task"}
            assert (kind == "task") == ("createdAt" in seen["result"] and kind != "complete")
            assert (kind == "input_required") == ("requestState" in seen["result"])


@covers(
    "2026-07-28:error-code-and-message",
    "2026-07-28:error-code-integer",
    "2026-07-28:no-new-codes-in-legacy-range",
    "2026-07-28:legacy-codes-avoided",
    "2026-07-28:reserved-codes-not-invented",
    "2026-07-28:reserved-codes-as-defined",
    "2026-07-28:old-codes-not-sent",
    "2026-07-28:own-codes-outside-range",
    "2026-07-28:internal-error-32603",
    "2026-07-28:standard-jsonrpc-errors",
)
def test_every_error_code_is_one_that_may_be_sent() -> None:
    transcript = conversation().transcript
    errors = [part["error"] for seen in transcript for part in parts(seen) if "error" in part]
    codes = {error["code"] for error in errors}
    assert codes == {-32601, -32602, -32603, -32021, -32022, 7}
    for error in errors:
        judge(REVISION, "Error").validate(error)
        assert error["message"]
        assert ("requiredCapabilities" in error.get("data", {})) == (error["code"] == -32021)
        assert ("supported" in error.get("data", {})) == (error["code"] == -32022)


@covers(
    "2026-07-28:meta-prefix-format",
    "2026-07-28:meta-label-format",
    "2026-07-28:meta-name-format",
    "2026-07-28:meta-prefix-reserved",
    "2026-07-28:meta-prefix-reverse-dns",
    "2026-07-28:extension-id-format",
    "2026-07-28:extension-label-reserved",
    "2026-07-28:trace-context-format",
)
def test_every_meta_key_of_a_server_is_well_formed_and_defined() -> None:
    keys: set[str] = set()
    for seen in conversation().transcript:
        for part in parts(seen):
            keys |= part.get("_meta", {}).keys() | part.get("extensions", {}).keys()
        declared = sum(EXTENSION in part.get("extensions", {}) for part in parts(seen))
        assert json.dumps(seen).count(EXTENSION) == declared, "it is not a key of anything else"
    assert all(KEY.fullmatch(key) for key in keys)
    assert keys == {
        "io.modelcontextprotocol/serverInfo",
        "io.modelcontextprotocol/subscriptionId",
        "io.modelcontextprotocol/tasks",
        "com.example/x",  # the tool's own
    }


@covers("2026-07-28:result-same-id", "2026-07-28:error-same-id")
def test_every_response_carries_the_id_of_its_request(peer: Peer) -> None:
    ids: list[Any] = [0, -1, 1, "1", "", "ü", 2**60]
    for id in ids:
        peer.send("tools/call", {}, name="greet", id=id)
    for id in reversed(ids):
        peer.connection.finish_run(id, returned())
    answered = [seen["id"] for seen in peer.news()]
    assert [(id, type(id)) for id in answered] == [(id, type(id)) for id in reversed(ids)]
    for id in ids:
        (error,) = peer.send("nonsense", id=id)
        assert (error["id"], type(error["id"])) == (id, type(id))


@covers(
    "2025-11-25:error-same-id",
    "2026-07-28:error-same-id",
    "2026-07-28:request-id-type",
    "2026-07-28:request-id-not-null",
    "2026-07-28:jsonrpc-2-0",
)
@pytest.mark.parametrize(
    ("data", "id"),
    [
        (b"{", None),
        (b'{"jsonrpc":"1.0","id":"a","method":"m"}', "a"),
        (b'{"jsonrpc":"2.0","id":3,"method":"m","params":5}', 3),
        (b'{"jsonrpc":"2.0","id":0,"method":5}', 0),
        (b'{"jsonrpc":"2.0","id":3}', 3),
        (b'{"jsonrpc":"2.0","id":3,"result":[]}', 3),
        (b'{"jsonrpc":"2.0","id":3,"error":5}', 3),
        (b'{"jsonrpc":"2.0","id":3,"error":{"code":"1","message":"x"}}', 3),
        (b'{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":5}}', 3),
        (b'{"jsonrpc":"2.0","id":null,"method":"tasks/get"}', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"tasks/get"}', None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"tasks/get"}', None),
        (b'{"jsonrpc":"1.0","id":3,"method":"tasks/get"}', 3),
        (b'{"jsonrpc":"2.0","id":"a","method":"tasks/get","params":[]}', "a"),
    ],
)
def test_a_malformed_request_is_refused_under_its_readable_id(data: bytes, id: Any) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode_message(data)
    assert caught.value.id == id
    seen = on_the_wire(g2.DIALECT.encode_error(caught.value.id, caught.value))
    assert seen.get("id") == id
    assert ("id" in seen) == (id is not None)


@covers("2026-07-28:request-id-not-in-use")
def test_a_request_id_in_use_is_refused_and_the_first_request_continues(peer: Peer) -> None:
    peer.send("tools/call", {}, name="greet", id=1)
    (refusal,) = peer.send("tools/call", {}, name="greet", id=1)
    assert refusal["error"]["code"] == -32600
    peer.connection.finish_run(1, returned())
    assert [seen["id"] for seen in peer.news()] == [1]


@covers("2026-07-28:internal-error-32603")
def test_a_fault_of_the_server_is_32603_and_betrays_nothing(peer: Peer) -> None:
    peer.send("tools/call", {}, name="greet", id=1)
    error = KeyError("secret of the database")
    (answer,) = peer.do(peer.receiver.refused(1, error))
    assert answer["error"]["code"] == -32603
    assert "secret" not in json.dumps(answer)
    assert peer.result("tools/list")["tools"]


@covers("2026-07-28:meta-missing-32602", "2026-07-28:meta-required-fields")
@pytest.mark.parametrize("missing", [VERSION_KEY, CAPABILITIES_KEY, "_meta"])
@pytest.mark.parametrize(
    "method", ["server/discover", "tools/list", "tools/call", "tasks/get", "tasks/cancel"]
)
def test_a_request_without_its_required_metadata_is_32602(
    peer: Peer, task_id: str, method: str, missing: str
) -> None:
    meta = {VERSION_KEY: REVISION, CAPABILITIES_KEY: ABLE}
    meta.pop(missing, None)
    params: dict[str, Any] = {"taskId": task_id, "name": "greet", "_meta": meta}
    if missing == "_meta":
        del params["_meta"]
    (answer,) = peer.post({"id": 1, "method": method, "params": params})
    assert answer["error"]["code"] == -32602
    assert "_meta" in answer["error"]["message"]
    assert peer.get(task_id)["status"] == "working"


@covers(
    "2026-07-28:meta-no-assumptions",
    "2026-07-28:meta-name-characters",
    "2026-07-28:trace-context-format",
    "2026-07-28:info-changes-nothing",
)
@pytest.mark.parametrize(
    "says",
    [
        {"io.modelcontextprotocol/unheard-of": [1]},
        {"com.example.mcp/a-b_c.d": {}, "com.example/": 1, "plain": None},
        {"traceparent": "nonsense", "tracestate": 5, "baggage": {}},
        {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"},
        {"io.modelcontextprotocol/clientInfo": {"name": "x", "version": "9"}},
        {"io.modelcontextprotocol/related-task": {"taskId": "x"}},
    ],
)
def test_unknown_meta_changes_nothing(peer: Peer, says: Any) -> None:
    task = peer.create(says=says)
    assert peer.result("tasks/get", says=says, taskId=task) == peer.get(task)
    assert "traceparent" not in json.dumps(peer.transcript)


@covers("2026-07-28:unsupported-version-32022", "2026-07-28:reserved-codes-as-defined")
@pytest.mark.parametrize("version", ["1900-01-01", "2025-11-25", "", "2026-07-28 "])
@pytest.mark.parametrize("method", ["tasks/get", "tools/call", "server/discover", "nonsense"])
def test_another_version_is_refused_with_those_that_are_served(
    peer: Peer, method: str, version: str
) -> None:
    (answer,) = peer.send(method, {}, says={VERSION_KEY: version}, taskId="x", name="greet")
    judge(REVISION, "UnsupportedProtocolVersionError").validate(answer)
    assert answer["error"] == {
        "code": -32022,
        "message": "Unsupported protocol version",
        "data": {"supported": ["2026-07-28"], "requested": version},
    }
    assert not peer.connection.runs


@covers("2026-07-28:initialize-refusal-names-versions", "2026-07-28:both-eras")
def test_the_refusal_of_initialize_names_the_supported_version() -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    (answer,) = Peer().post({"id": 1, "method": "initialize", "params": hello})
    assert "2026-07-28" in json.dumps(answer["error"])
    connection = MemoryDriver().connect(receiver_2025_11_25.RECEIVER)
    (welcome,) = connection.receive(Request(1, "initialize", hello))
    assert "result" in json.loads(encode_message(welcome))


@covers("2026-07-28:tools-list-answered", "2026-07-28:tools-list-not-per-connection")
def test_the_list_of_tools_is_the_same_for_every_connection() -> None:
    driver = MemoryDriver()
    peer = Peer(driver)
    first = peer.result("tools/list")
    judge(REVISION, "ListToolsResult").validate(first)
    assert [tool["name"] for tool in first["tools"]] == ["greet", "slow", "quick"]
    peer.create()
    assert peer.result("tools/list", {}) == Peer(driver).result("tools/list") == first


TOKENS: list[Any] = [{}, [], True, 1.5]


@covers("2026-07-28:tool-protocol-errors", "2026-07-28:progress-token-type")
@pytest.mark.parametrize(
    "params",
    [
        *({"name": "greet", "says": {"progressToken": token}} for token in TOKENS),
        *({"name": "nonsense"}, {}, {"name": 5}, {"name": "greet", "arguments": []}),
    ],
)
def test_a_call_of_nothing_is_an_error_and_no_task(peer: Peer, params: Any) -> None:
    assert peer.error("tools/call", **params)["code"] == -32602
    assert not peer.driver.tasks


@covers("2026-07-28:tool-access-controlled")
def test_a_caller_reaches_only_the_tools_that_it_is_offered() -> None:
    driver = MemoryDriver()
    few = Offer(OFFER.info, {"quick": OFFER.tools["quick"]})
    guest = Peer(driver, owner="guest", offer=few)
    assert [tool["name"] for tool in guest.result("tools/list")["tools"]] == ["quick"]
    assert guest.error("tools/call", name="greet")["code"] == -32602
    assert not driver.tasks
    assert Peer(driver).create()
