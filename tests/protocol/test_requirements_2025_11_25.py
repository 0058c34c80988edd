"""What 2025-11-25 demands of everybody: the base protocol, the handshake, `_meta`."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from taskmachine.protocol.dialects.mcp_2025_11_25.requestor import Requestor2025
from taskmachine.protocol.operations import Browse
from taskmachine.protocol.outputs import Asked, Finished, Perform
from taskmachine.statemachine import Call, Outcome, Reply
from tests.protocol.memory_driver import Connection, MemoryDriver
from tests.protocol.peers_2025_11_25 import (
    ACCEPT,
    FORM,
    HELLO,
    NAME,
    RELATED,
    SUM,
    Caller,
    Peer,
    shown,
)
from tests.requirements import covers


def life_of_a_receiver() -> list[Any]:
    """Everything that a receiver sends while a task has all kinds of things happen to it."""
    peer = Peer(MemoryDriver())
    peer.result("ping")
    peer.result("tools/list")
    task_id = peer.create(_meta={"progressToken": 1})
    waiting = peer.ask("tasks/result", taskId=task_id)
    peer.ask_from(task_id, NAME, SUM)
    peer.answer(peer.questions()[0], ACCEPT)
    peer.report(task_id, 1, 2, "half")
    peer.result("tasks/list")
    peer.result("tasks/get", taskId=task_id)
    peer.result("tasks/cancel", taskId=task_id)
    assert len(peer.responses(waiting)) == 1
    done = peer.create()
    peer.end(done)
    peer.result("tasks/result", taskId=done)
    peer.error("tasks/cancel", taskId=done)
    peer.error("tasks/get", taskId="never issued")
    peer.error("no/such/method")
    plain = peer.ask("tools/call", name="greet")
    peer.connection.finish_run(plain, Outcome.of_result(json.dumps(HELLO).encode()))
    return peer.heard


def life_of_a_requestor() -> list[Any]:
    """Everything that a requestor sends while a call of it lives."""
    caller = Caller()
    caller.start(call=Call("tools/call", "greet", progress_token="p"))
    caller.reply({"task": shown()})
    caller.wait(1_000)
    caller.reply(shown(status="input_required"))
    meta = {RELATED: {"taskId": "t1"}}
    caller.hear(id="q", method="elicitation/create", params={**FORM, "_meta": meta})
    asked = caller.said[-1]
    assert isinstance(asked, Asked)
    reply = Reply(json.dumps(ACCEPT).encode())
    caller.do(caller.requestor.answer("job", asked.key, reply, now=caller.now))
    caller.hear(id="r", method="elicitation/create", params=FORM)
    caller.do(caller.requestor.cancel("job", now=caller.now))
    return caller.sent


LIVES = pytest.mark.parametrize("life", [life_of_a_receiver, life_of_a_requestor])


@covers(
    "2025-11-25:jsonrpc-2-0",
    "2025-11-25:request-id-type",
    "2025-11-25:request-id-not-null",
    "2025-11-25:result-field",
    "2025-11-25:error-code-and-message",
    "2025-11-25:error-code-integer",
    "2025-11-25:notification-without-id",
)
@LIVES
def test_every_message_is_one_of_the_four_kinds(life: Any) -> None:
    kinds = set()
    for message in life():
        assert message["jsonrpc"] == "2.0"
        [kind] = message.keys() & {"method", "result", "error"}
        if kind == "method":
            kind = "request" if "id" in message else "notification"
            assert isinstance(message["method"], str)
        elif kind == "result":
            assert isinstance(message["result"], dict)
        else:
            assert type(message["error"]["code"]) is int
            assert isinstance(message["error"]["message"], str)
            assert message["error"]["message"]
        if kind != "notification":
            assert type(message["id"]) in (str, int)
        kinds.add(kind)
    assert {"request", "result", "error"} <= kinds


@covers(
    "2025-11-25:result-same-id", "2025-11-25:error-same-id", "2025-11-25:base-protocol-supported"
)
@pytest.mark.parametrize("id", [0, 1, -5, 2**70, "", "1", "a b", "\u00e9"], ids=repr)
def test_an_answer_has_the_id_of_its_request(peer: Peer, id: Any) -> None:
    for method, member in [("ping", "result"), ("no/such", "error"), ("tasks/get", "error")]:
        [answer] = peer.say({"id": id, "method": method})
        assert answer["id"] == id
        assert type(answer["id"]) is type(id)
        assert member in answer


@covers("2025-11-25:result-same-id")
def test_answers_find_their_requests_in_any_order(peer: Peer) -> None:
    tasks = [peer.create() for _ in range(5)]
    waits = {peer.ask("tasks/result", taskId=task_id): task_id for task_id in tasks}
    for task_id in [tasks[i] for i in (3, 0, 4, 2, 1)]:
        peer.end(task_id)
    for id, task_id in waits.items():
        [answer] = peer.responses(id)
        assert answer["result"]["_meta"][RELATED] == {"taskId": task_id}


@covers("2025-11-25:notification-not-answered")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/initialized", {}),
        ("notifications/cancelled", {"requestId": []}),
        ("notifications/progress", {"progressToken": {}, "progress": "x"}),
        ("notifications/tasks/status", {"taskId": 5}),
        ("no/such/notification", {}),
        ("tasks/get", {"taskId": "x"}),
        ("tools/call", {"name": "greet", "task": {}}),
    ],
)
def test_no_notification_is_answered(method: str, params: Any) -> None:
    peer, caller = Peer(MemoryDriver()), Caller()
    assert peer.notify(method, **params) == []
    assert peer.driver.tasks == {}
    caller.hear(method=method, params=params)
    assert caller.sent == []


LABEL = r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?"
KEY = re.compile(
    rf"(?P<prefix>{LABEL}(\.{LABEL})*/)?(?P<name>([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?)"
)
OF_THE_SPECIFICATION = {RELATED, "io.modelcontextprotocol/model-immediate-response"}


def metas(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if "_meta" in value:
            yield value["_meta"]
        for inner in value.values():
            yield from metas(inner)


@covers(
    "2025-11-25:meta-prefix-format",
    "2025-11-25:meta-label-format",
    "2025-11-25:meta-prefix-reverse-dns",
    "2025-11-25:meta-prefix-reserved",
    "2025-11-25:meta-name-format",
)
@LIVES
def test_our_meta_keys_are_well_formed_and_none_is_invented_under_a_reserved_prefix(
    life: Any,
) -> None:
    keys = {key for message in life() for meta in metas(message) for key in meta}
    assert RELATED in keys
    for key in keys - {"progressToken"}:
        match = KEY.fullmatch(key)
        assert match is not None, key
        labels = (match["prefix"] or "").rstrip("/").split(".")
        assert len(labels) >= 2, f"{key} has no prefix that is a reversed domain name"
        if labels[1] in ("modelcontextprotocol", "mcp"):
            assert key in OF_THE_SPECIFICATION


@covers(
    "2025-11-25:meta-no-assumptions",
    "2025-11-25:meta-name-characters",
    "2025-11-25:result-any-object",
)
@pytest.mark.parametrize(
    "meta",
    [
        {"io.modelcontextprotocol/unheard-of": 5},
        {RELATED: "no object"},
        {"a-b_c.d": 1, "": None, "x/": []},
        None,
    ],
)
def test_the_server_accepts_requests_with_any_metadata(peer: Peer, meta: Any) -> None:
    task_id = peer.create(_meta=meta)
    assert peer.result("tasks/get", taskId=task_id, _meta=meta)["taskId"] == task_id
    peer.ask("tasks/result", taskId=task_id, _meta=meta)
    peer.ask_from(task_id)
    peer.answer(peer.questions()[0], {**ACCEPT, "_meta": meta, "future": 1})
    assert peer.status(task_id) == "working"


@covers(
    "2025-11-25:server-same-version",
    "2025-11-25:server-other-version",
    "2025-11-25:server-version-latest",
    "2025-11-25:negotiation-errors-handled",
)
@pytest.mark.parametrize("version", ["2025-11-25", "2024-11-05", "1900-01-01", "2099-01-01", ""])
def test_every_proposal_is_answered_with_the_one_version_that_is_spoken(version: str) -> None:
    peer = Peer(MemoryDriver(), greets=False)
    assert peer.initialize(version)["protocolVersion"] == "2025-11-25"
    peer.notify("notifications/initialized")
    assert peer.status(peer.create()) == "working"


@covers("2025-11-25:base-protocol-supported")
def test_a_ping_is_answered_at_any_time() -> None:
    peer = Peer(MemoryDriver(), greets=False)
    assert peer.result("ping") == {}
    peer.initialize()
    assert peer.result("ping") == {}


@covers("2025-11-25:initialize-first")
@pytest.mark.parametrize(
    ("method", "params"),
    [("tools/call", {"name": "greet", "task": {}}), ("tasks/list", {}), ("tools/list", {})],
)
def test_nothing_but_a_ping_is_served_before_the_handshake(method: str, params: Any) -> None:
    peer = Peer(MemoryDriver(), greets=False)
    assert "error" in peer.call(method, **params)
    assert peer.driver.tasks == {}


@covers("2025-11-25:server-waits-for-initialized")
def test_a_server_asks_nothing_before_the_client_is_ready() -> None:
    peer = Peer(MemoryDriver(), greets=False)
    peer.initialize(capabilities={"elicitation": {}})
    task_id = peer.create()
    peer.ask("tasks/result", taskId=task_id)
    peer.ask_from(task_id)
    assert peer.questions() == []
    peer.notify("notifications/initialized")
    assert len(peer.questions()) == 1


class Indiscreet(MemoryDriver):
    """Forgets to compare owners when it lists."""

    def _perform(self, connection: Connection, wanted: Perform) -> None:
        if isinstance(wanted.operation, Browse):
            assert wanted.id is not None
            everything = list(self.tasks.values())
            self.handle(connection, connection.receiver.paged(wanted.id, everything, now=self.now))
        else:
            super()._perform(connection, wanted)


@covers("2025-11-25:foreign-not-listed")
def test_a_list_shows_only_tasks_of_the_requestor() -> None:
    driver = Indiscreet()
    alice, bob = Peer(driver), Peer(driver, owner="bob")
    hers, his = alice.create(), bob.create()
    assert [task["taskId"] for task in alice.result("tasks/list")["tasks"]] == [hers]
    assert [task["taskId"] for task in bob.result("tasks/list")["tasks"]] == [his]


@covers("2025-11-25:progress-token-unique")
def test_a_token_of_a_call_under_way_is_not_used_again() -> None:
    caller = Caller()
    call = Call("tools/call", "greet", progress_token="p")
    caller.start("one", call)
    with pytest.raises(ValueError, match="progress token"):
        caller.start("two", call)
    caller.reply({"task": shown(status="cancelled")}, to=caller.sent[0])
    caller.start("three", call)  # once the first has ended it is free


# "if their previous tasks/result request failed": an error is the outcome of a task that has
# ended, but for a task that was last seen live it only ends the wait.
@covers("2025-11-25:poll-when-not-waiting")
def test_a_wait_that_failed_is_followed_by_polls() -> None:
    caller = Caller()
    caller.create(status="input_required")
    assert caller.refuse(-32603, "too many waiters") == []
    polls = caller.wait(60_000)
    assert polls[0]["method"] == "tasks/get"
    caller.reply(shown(status="failed"), to=polls[0])
    assert caller.sent[-1]["method"] == "tasks/result"
    [told] = caller.refuse(-32603, "boom")
    assert told == Finished("job", Outcome.of_error(-32603, "boom"))


@covers("2025-11-25:only-negotiated-capabilities", "2025-11-25:cancel-capability")
def test_a_peer_that_takes_no_cancel_is_sent_none() -> None:
    peer: Any = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}
    caller = Caller(Requestor2025({}, peer, {"greet": "optional"}))
    caller.create()
    caller.do(caller.requestor.cancel("job", now=caller.now))
    assert "tasks/cancel" not in [message["method"] for message in caller.sent]
