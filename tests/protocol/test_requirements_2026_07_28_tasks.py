"""Requirements of the extension io.modelcontextprotocol/tasks on servers."""

import json
from datetime import datetime
from typing import Any

import attrs
import pytest

from taskmachine.protocol.dialects.mcp_2025_11_25 import receiver as receiver_2025_11_25
from taskmachine.protocol.jsonrpc import Request
from taskmachine.protocol.offer import Offer, Tool
from taskmachine.statemachine import Cause, IllegalTransition, Outcome, lifecycle
from tests.oracle import LIFECYCLES, judge
from tests.protocol.memory_driver import GREET, CarelessDriver, MemoryDriver
from tests.protocol.plain_2026_07_28 import (
    ABLE,
    ACCEPTED,
    EXTENSION,
    RESULT,
    REVISION,
    SAMPLING,
    TASKS,
    Peer,
    form,
    returned,
    sampling,
    still,
)
from tests.requirements import covers

META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientCapabilities": ABLE,
}
BOOM = Outcome.of_error(7, "the disk is full", b'{"disk":"a"}')


def put(peer: Peer, task_id: str, status: str) -> None:
    if status == "input_required":
        peer.ask(task_id, form(), sampling())
    elif status == "completed":
        peer.complete(task_id)
    elif status == "failed":
        peer.fail(task_id, BOOM)
    elif status == "cancelled":
        peer.cancel(task_id)


STATUSES = ["working", "input_required", "completed", "failed", "cancelled"]
TERMINAL = STATUSES[2:]


@covers(
    "2026-07-28:extension-identifier",
    "2026-07-28:capability-empty-object",
    "2026-07-28:server-declares-in-discover",
    "2026-07-28:legacy-servers-migrate",
    "2026-07-28:legacy-capabilities-not-advertised",
    "2026-07-28:extension-id-format",
    "2026-07-28:discover-implemented",
    "2026-07-28:discover-result-fields",
    "2026-07-28:tools-capability",
)
def test_a_server_is_discovered_with_the_extension() -> None:
    found = Peer().result("server/discover", {})
    judge(REVISION, "DiscoverResult").validate(found)
    assert found["supportedVersions"] == ["2026-07-28"]
    assert found["capabilities"] == {
        "tools": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }


@covers("2026-07-28:never-creating-is-fine", "2026-07-28:server-decides-alone")
def test_a_server_without_tasks_does_not_declare_them() -> None:
    peer = Peer(offer=Offer({"name": "plain", "version": "1"}, {"quick": Tool(GREET)}))
    assert "extensions" not in peer.result("server/discover")["capabilities"]
    assert peer.send("tools/call", name="quick") == []
    (id,) = peer.connection.runs
    peer.connection.finish_run(id, returned())
    assert peer.news()[0]["result"]["resultType"] == "complete"


@covers(
    "2026-07-28:server-may-create-task",
    "2026-07-28:server-decides-alone",
    "2026-07-28:create-result-type-task",
    "2026-07-28:create-result-flat",
    "2026-07-28:seed-status",
    "2026-07-28:extensions-add-result-types",
    "2026-07-28:discover-optional-for-client",
)
def test_a_call_that_declares_the_extension_may_become_a_task(peer: Peer) -> None:
    created = peer.result("tools/call", TASKS, name="greet")
    judge(REVISION, "CreateTaskResult").validate(created)
    assert (created["resultType"], created["status"]) == ("task", "working")
    assert "task" not in created
    peer.send("tools/call", TASKS, name="quick")
    assert list(peer.connection.runs), "the same declaration does not demand a task"


@covers(
    "2026-07-28:no-task-for-undeclared",
    "2026-07-28:no-state-from-earlier-requests",
    "2026-07-28:result-types-from-capabilities",
    "2026-07-28:one-sided-extension",
    "2026-07-28:legacy-capability-is-undeclared",
)
@pytest.mark.parametrize(
    "able",
    [
        {},
        {"extensions": {}},
        {"extensions": {"com.example/tasks": {}}},
        {"tasks": {"requests": {"tools": {"call": {}}}, "list": {}, "cancel": {}}},
    ],
)
def test_a_request_that_does_not_declare_the_extension_creates_no_task(
    peer: Peer, able: Any
) -> None:
    known = peer.create()
    assert peer.send("tools/call", able, name="greet", id="plain") == []
    peer.connection.finish_run("plain", returned())
    (answer,) = peer.news()
    assert answer["result"]["resultType"] == "complete"
    assert "taskId" not in answer["result"]
    assert list(peer.driver.tasks) == [known]


@covers(
    "2026-07-28:missing-capability-32021",
    "2026-07-28:missing-capability-names-extension",
    "2026-07-28:legacy-capability-is-undeclared",
)
@pytest.mark.parametrize("able", [{}, {"tasks": {"requests": {"tools": {"call": {}}}}}])
def test_a_task_only_tool_is_refused_without_the_extension(peer: Peer, able: Any) -> None:
    (answer,) = peer.send("tools/call", able, name="slow")
    judge(REVISION, "MissingRequiredClientCapabilityError").validate(answer)
    required = answer["error"]["data"]["requiredCapabilities"]
    assert required == {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    assert not peer.driver.tasks
    assert not peer.connection.runs


def test_a_task_only_tool_creates_a_task_despite_input_responses(peer: Peer) -> None:
    peer.create("slow", inputResponses={"name": ACCEPTED}, requestState="invented")
    assert not peer.connection.runs


@covers(
    "2026-07-28:get-missing-capability-32021",
    "2026-07-28:update-missing-capability-32021",
    "2026-07-28:cancel-missing-capability-32021",
    "2026-07-28:listen-missing-capability-32021",
    "2026-07-28:legacy-capability-is-undeclared",
    "2026-07-28:reserved-codes-as-defined",
)
@pytest.mark.parametrize(
    "able",
    [
        {"elicitation": {}},
        {"extensions": None},
        {"extensions": {EXTENSION: True}},
        {"tasks": {"requests": {"tools": {"call": {}}}}},  # the older generation's does not count
    ],
)
@pytest.mark.parametrize("named", ["the task", "never-issued", None])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tasks/get", {}),
        ("tasks/update", {"inputResponses": {"name": ACCEPTED}}),
        ("tasks/cancel", {}),
        ("subscriptions/listen", {"notifications": {"taskIds": ["x"]}}),
    ],
)
def test_undeclared_task_requests_are_refused_before_the_id_is_looked_up(
    peer: Peer, task_id: str, method: str, params: Any, named: str | None, able: Any
) -> None:
    peer.ask(task_id, form())
    before = peer.get(task_id)
    if named is not None:
        id = task_id if named == "the task" else named
        is_listen = method == "subscriptions/listen"
        params = {
            **params,
            **({"notifications": {"taskIds": [id]}} if is_listen else {"taskId": id}),
        }
    (answer,) = peer.send(method, able, **params)
    judge(REVISION, "MissingRequiredClientCapabilityError").validate(answer)
    assert answer["error"] == {
        "code": -32021,
        "message": "Missing required client capability",
        "data": {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}},
    }
    assert peer.get(task_id) == before


@covers("2026-07-28:task-parameter-ignored")
@pytest.mark.parametrize("task", [{"ttl": 5}, {"ttl": "wrong"}, "whatever", None, 5])
def test_the_older_way_to_ask_for_a_task_changes_nothing(peer: Peer, task: Any) -> None:
    created = peer.result("tools/call", name="greet", task=task)
    assert (created["resultType"], created["ttlMs"]) == ("task", None)
    assert peer.send("tools/call", {}, name="greet", task=task) == []
    assert len(peer.driver.tasks) == 1, "without the declaration it is a plain call"


@covers("2026-07-28:extension-not-under-2025-11-25", "2026-07-28:initialize-selects-legacy")
def test_under_2025_11_25_the_extension_means_nothing() -> None:
    driver = MemoryDriver()
    connection = driver.connect(receiver_2025_11_25.RECEIVER)
    hello = {"protocolVersion": "2025-11-25", "capabilities": TASKS, "clientInfo": {}}
    (welcome,) = connection.receive(Request(1, "initialize", hello))
    assert "extensions" not in json.dumps(attrs.asdict(welcome))
    assert connection.receive(Request(2, "tools/call", {"name": "greet"})) == []
    assert (list(connection.runs), list(driver.tasks)) == ([2], [])


@covers("2026-07-28:legacy-tasks-still-served", "2026-07-28:initialize-selects-legacy")
def test_tasks_of_2025_11_25_are_still_served_in_their_own_way() -> None:
    driver = MemoryDriver()
    connection = driver.connect(receiver_2025_11_25.RECEIVER)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    connection.receive(Request(1, "initialize", hello))
    connection.receive(Request(2, "tools/call", {"name": "greet", "task": {"ttl": 60_000}}))
    (task_id,) = driver.tasks
    for id, method, status in ((3, "tasks/get", "working"), (4, "tasks/cancel", "cancelled")):
        *_, answer = connection.receive(Request(id, method, {"taskId": task_id}))
        assert attrs.asdict(answer)["result"]["status"] == status


@covers("2026-07-28:task-id-from-server", "2026-07-28:task-id-string")
def test_task_ids_are_the_servers_and_all_different() -> None:
    driver = MemoryDriver()
    peers = [Peer(driver, owner=owner) for owner in ("alice", "alice", "bob")]
    ids = [peer.create(taskId="mine") for _ in range(3) for peer in peers]
    assert len(set(ids)) == 9
    assert "mine" not in ids
    for peer, task_id in zip(peers, ids, strict=False):
        assert {peer.get(task_id)["taskId"] for _ in range(2)} == {task_id}


@covers(
    "2026-07-28:task-required-fields",
    "2026-07-28:status-values",
    "2026-07-28:status-message-optional",
    "2026-07-28:payload-matches-status",
    "2026-07-28:ttl-ms-integer-or-null",
    "2026-07-28:poll-interval-ms-integer",
    "2026-07-28:get-answers-by-status",
    "2026-07-28:status-working",
    "2026-07-28:get-working",
    "2026-07-28:status-input-required",
    "2026-07-28:get-input-required-has-requests",
    "2026-07-28:status-completed",
    "2026-07-28:get-completed-has-result",
    "2026-07-28:status-failed",
    "2026-07-28:get-failed-has-error",
    "2026-07-28:status-cancelled",
    "2026-07-28:get-cancelled",
    "2026-07-28:get-result-type-complete",
    "2026-07-28:result-type-task-only-on-create",
    "2026-07-28:mrtr-no-other-requests",
)
@pytest.mark.parametrize("ttl", [None, 60_000])
@pytest.mark.parametrize(
    ("status", "payload"),
    [
        ("working", None),
        ("input_required", "inputRequests"),
        ("completed", "result"),
        ("failed", "error"),
        ("cancelled", None),
    ],
)
def test_a_task_has_its_status_and_the_payload_of_that_status(
    peer: Peer, task_id: str, status: str, payload: str | None, ttl: int | None
) -> None:
    record = peer.driver.tasks[task_id]
    peer.driver.tasks[task_id] = attrs.evolve(record, ttl_ms=ttl, is_ttl_chosen=True)
    (begun, first) = peer.listen(task_id, id="w")
    put(peer, task_id, status)
    shown = peer.get(task_id)
    assert (shown["resultType"], shown["status"]) == ("complete", status)
    assert shown["ttlMs"] == ttl
    assert type(shown["pollIntervalMs"]) is int
    assert isinstance(shown.get("statusMessage", ""), str)
    assert {"inputRequests", "result", "error"} & shown.keys() == ({payload} if payload else set())
    told = [m["params"] for m in peer.transcript if m.get("method") == "notifications/tasks"]
    assert told[0]["status"] == "working"
    for seen in (shown, *told):
        assert {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"} <= seen.keys()
    assert begun["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["status"] == "working"


@covers("2026-07-28:created-at-iso", "2026-07-28:last-updated-at-iso")
def test_times_are_instants_that_never_go_back(peer: Peer, task_id: str) -> None:
    seen = [peer.get(task_id)]
    for status in ("input_required", "working", "completed"):
        if status == "working":
            peer.driver.now -= 3_600_000  # the clock is set back
            peer.update(task_id, name=ACCEPTED, idea={**SAMPLING["messages"][0], "model": "m"})
        else:
            put(peer, task_id, status)
        seen.append(peer.get(task_id))
    assert [shown["status"] for shown in seen] == [
        "working", "input_required", "working", "completed",
    ]  # fmt: skip
    created = [datetime.fromisoformat(shown["createdAt"]) for shown in seen]
    updated = [datetime.fromisoformat(shown["lastUpdatedAt"]) for shown in seen]
    assert len(set(created)) == 1
    assert updated == sorted(updated)
    assert updated[0] >= created[0]
    assert updated[1] > updated[0], "it moves with the status"
    assert all(moment.utcoffset() is not None for moment in created + updated)


@covers("2026-07-28:ttl-ms-may-change", "2026-07-28:poll-interval-may-change")
def test_a_changed_ttl_is_shown_and_the_interval_grows(peer: Peer, task_id: str) -> None:
    young = peer.get(task_id)
    peer.listen(task_id)
    record = peer.driver.tasks[task_id]
    longer = attrs.evolve(record, ttl_ms=90_000, version=record.version + 1)
    peer.driver.commit(attrs.evolve(peer.driver.steps[-1], task=longer))
    assert peer.news()[-1]["params"]["ttlMs"] == peer.get(task_id)["ttlMs"] == 90_000
    peer.driver.now += 3_600_000
    assert peer.get(task_id)["pollIntervalMs"] > young["pollIntervalMs"]


@covers("2026-07-28:paths-from-working", "2026-07-28:paths-from-input-required")
@pytest.mark.parametrize("start", ["working", "input_required"])
@pytest.mark.parametrize(
    "act",
    ["report", "ask", "answer", "withdraw", "requeue", "complete", "fail", "cancel", "expire"],
)
def test_every_polled_status_change_is_an_edge_of_the_specification(
    peer: Peer, task_id: str, start: str, act: str
) -> None:
    put(peer, task_id, start)
    before = peer.get(task_id)
    verbs: dict[str, Any] = {
        "report": lambda t, now: lifecycle.report(t, now, message="busy"),
        "ask": lambda t, now: lifecycle.ask(t, now, [form("more")]),
        "withdraw": lambda t, now: lifecycle.withdraw(t, now),
        "requeue": lambda t, now: lifecycle.requeue(t, now),
        "complete": lambda t, now: lifecycle.complete(t, now, returned()),
        "fail": lambda t, now: lifecycle.fail(t, now, BOOM),
        "expire": lambda t, now: lifecycle.expire(t, now),
    }
    try:
        if act == "cancel":
            peer.cancel(task_id)
        elif act == "answer":
            peer.update(task_id, name=ACCEPTED, idea={**SAMPLING["messages"][0], "model": "m"})
        else:
            peer.work(task_id, verbs[act])
    except (IllegalTransition, ValueError):
        assert still(peer.get(task_id)) == still(before)
    spec = LIFECYCLES[REVISION]
    after = peer.get(task_id)["status"]
    assert after == start or (start, after) in spec.edges
    assert before["status"] == start


@covers(
    "2026-07-28:terminal-final",
    "2026-07-28:cancel-terminal-acked",
    "2026-07-28:cancel-may-lose",
    "2026-07-28:ignore-superseded-keys",
    "2026-07-28:cancel-ack-empty",
    "2026-07-28:update-ack-empty",
)
@pytest.mark.parametrize("end", TERMINAL)
def test_nothing_changes_a_task_that_has_ended(peer: Peer, task_id: str, end: str) -> None:
    peer.ask(task_id, form())
    put(peer, task_id, end)
    before = peer.get(task_id)
    assert before["status"] == end
    peer.driver.now += 1_000
    assert peer.cancel(task_id).keys() <= {"resultType", "_meta"}
    assert peer.update(task_id, name=ACCEPTED).keys() <= {"resultType", "_meta"}
    late: list[Any] = [
        lambda t, now: lifecycle.start(t, now, worker="w2"),
        lambda t, now: lifecycle.report(t, now, message="still here"),
        lambda t, now: lifecycle.ask(t, now, [form("late")]),
        lambda t, now: lifecycle.complete(t, now, returned({"content": []})),
        lambda t, now: lifecycle.fail(t, now, BOOM),
        lambda t, now: lifecycle.expire(t, now),
    ]
    for act in late:
        with pytest.raises(IllegalTransition):
            peer.work(task_id, act)
    assert still(peer.get(task_id)) == still(before)


@covers("2026-07-28:durable-before-create-answer")
def test_the_receiver_announces_a_task_only_after_it_is_stored() -> None:
    driver = MemoryDriver()
    peer, other = Peer(driver), Peer(driver)
    outputs = peer.connection.receiver.receive(
        Request(1, "tools/call", {"name": "greet", "_meta": META})
    )
    # The receiver says nothing of its own accord: its owner creates the task first.
    assert [type(output).__name__ for output in outputs] == ["Perform"]
    assert not driver.tasks
    driver.handle(peer.connection, outputs)
    (created,) = peer.news()
    assert other.get(created["result"]["taskId"])["status"] == "working"


@covers(
    "2026-07-28:may-fail-after-ttl",
    "2026-07-28:may-delete-after-ttl",
    "2026-07-28:purged-reads-as-not-found",
)
def test_a_task_whose_time_is_over_fails_and_is_gone_later(peer: Peer, task_id: str) -> None:
    peer.work(task_id, lifecycle.expire)
    shown = peer.get(task_id)
    assert (shown["status"], shown["error"]["code"]) == ("failed", -32603)
    del peer.driver.tasks[task_id]
    assert peer.error("tasks/get", taskId=task_id)["code"] == -32602


@covers(
    "2026-07-28:failed-only-for-jsonrpc-errors",
    "2026-07-28:is-error-is-completed",
    "2026-07-28:tool-execution-errors",
)
def test_a_tool_that_reports_an_error_has_completed(peer: Peer, task_id: str) -> None:
    result = {"content": [{"type": "text", "text": "invalid input"}], "isError": True}
    peer.complete(task_id, result)
    shown = peer.get(task_id)
    completed = ("completed", {**result, "resultType": "complete"})
    assert (shown["status"], shown["result"]) == completed
    assert "error" not in shown


@covers(
    "2026-07-28:failed-on-jsonrpc-error",
    "2026-07-28:error-is-underlying",
    "2026-07-28:failed-status-message",
    "2026-07-28:error-code-and-message",
    "2026-07-28:error-code-integer",
    "2026-07-28:error-data-optional",
    "2026-07-28:reserved-codes-not-invented",
    "2026-07-28:old-codes-not-sent",
)
@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (BOOM, {"code": 7, "message": "the disk is full", "data": {"disk": "a"}}),
        (Outcome.of_error(-32602, "no such city"), {"code": -32602, "message": "no such city"}),
        (Outcome(Cause.TIMED_OUT, message=""), {"code": -32603, "message": "Internal error"}),
        (Outcome(Cause.TIMED_OUT, message="slow"), {"code": -32603, "message": "slow"}),
        (Outcome(Cause.WORKER_LOST), {"code": -32603, "message": "Internal error"}),
        *(
            (Outcome.of_error(code, "no"), {"code": shown, "message": "no"})
            for code, shown in [
                (-32000, -32000),
                (-32002, -32602),
                (-32019, -32019),
                (-32020, -32603),  # codes that the specification reserves
                (-32042, -32603),
                (-32099, -32603),
                (-32100, -32100),
            ]
        ),
    ],
)
def test_a_failed_task_has_the_error_and_a_status_message(
    peer: Peer, task_id: str, outcome: Outcome, error: Any
) -> None:
    peer.fail(task_id, outcome)
    shown = peer.get(task_id)
    assert (shown["status"], shown["error"]) == ("failed", error)
    assert shown["statusMessage"] == error["message"]


@covers(
    "2026-07-28:result-is-underlying",
    "2026-07-28:inlined-result-type",
    "2026-07-28:result-type-complete-means-final",
)
@pytest.mark.parametrize(
    "result",
    [
        RESULT,
        {"content": [], "structuredContent": {"n": 1}, "isError": False},
        {"content": [], "isError": True, "_meta": {"com.example/x": 1}, "com.example": [None]},
    ],
)
def test_a_completed_task_has_the_result_of_the_plain_call(
    peer: Peer, task_id: str, result: Any
) -> None:
    peer.complete(task_id, result)
    assert peer.get(task_id)["result"] == {**result, "resultType": "complete"}
    peer.send("tools/call", {}, name="greet", id="plain")
    peer.connection.finish_run("plain", returned(result))
    plain = peer.news()[0]["result"]
    judge(REVISION, "CallToolResult").validate(plain)
    del plain["_meta"]["io.modelcontextprotocol/serverInfo"]  # said of the answer, not of the tool
    if not plain["_meta"]:
        del plain["_meta"]
    assert {**plain, "resultType": "complete"} == {**result, "resultType": "complete"}


@covers(
    "2026-07-28:cancel-ack-empty",
    "2026-07-28:cancel-result-type-complete",
    "2026-07-28:cancel-cooperative",
    "2026-07-28:status-cancelled",
)
@pytest.mark.parametrize("status", ["working", "input_required"])
def test_a_cancel_is_acknowledged_with_nothing_else(peer: Peer, task_id: str, status: str) -> None:
    put(peer, task_id, status)
    ack = peer.cancel(task_id)
    assert ack["resultType"] == "complete"
    assert ack.keys() <= {"resultType", "_meta"}
    shown = peer.get(task_id)
    assert shown["status"] == "cancelled"
    assert shown["statusMessage"]


@covers("2026-07-28:reads-do-not-write", "2026-07-28:questions-repeated-until-answered")
@pytest.mark.parametrize("status", STATUSES)
def test_polling_changes_nothing(peer: Peer, task_id: str, status: str) -> None:
    put(peer, task_id, status)
    record = peer.driver.tasks[task_id]
    first = peer.get(task_id)
    assert [peer.get(task_id) for _ in range(3)] == [first] * 3
    assert peer.driver.tasks[task_id] is record


@covers(
    "2026-07-28:get-unknown-32602",
    "2026-07-28:update-unknown-32602",
    "2026-07-28:cancel-unknown-32602",
    "2026-07-28:standard-jsonrpc-errors",
)
@pytest.mark.parametrize("task_id", ["never-issued", "", 5, None, {}, "x" * 10_000])
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_an_unknown_task_is_32602(peer: Peer, method: str, task_id: Any) -> None:
    extra: dict[str, Any] = {"inputResponses": {}} if method == "tasks/update" else {}
    error = peer.error(method, taskId=task_id, **extra)
    assert error["code"] == -32602
    assert error["message"]


@covers("2026-07-28:tasks-result-gone-32601", "2026-07-28:no-tasks-list")
@pytest.mark.parametrize(
    "method", ["tasks/result", "tasks/list", "tasks/create", "tasks/nonsense", "initialize"]
)
def test_methods_that_are_gone_are_unknown_for_existing_tasks_too(peer: Peer, method: str) -> None:
    assert peer.error(method, taskId=peer.create())["code"] == -32601


@covers("2026-07-28:informative-error-messages")
def test_error_messages_tell_causes_apart(peer: Peer) -> None:
    words = [
        peer.error("tasks/get", taskId="x")["message"],
        peer.error("tasks/get", {}, taskId="x")["message"],
        peer.error("tasks/get")["message"],
        peer.error("tasks/list")["message"],
        peer.error("tools/call", name="nonsense")["message"],
    ]
    assert all(words)
    assert len(set(words)) == len(words)
    assert "taskId" in words[2]


@covers(
    "2026-07-28:auth-on-each-request",
    "2026-07-28:info-not-for-security",
    "2026-07-28:info-changes-nothing",
)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_a_foreign_task_is_indistinguishable_from_an_unknown_task(method: str) -> None:
    driver = MemoryDriver()
    alice, mallory = Peer(driver), Peer(driver, owner="mallory")
    named = {"io.modelcontextprotocol/clientInfo": {"name": "alice's client", "version": "1"}}
    task = alice.create(says=named)
    alice.ask(task, form())
    before = alice.get(task)
    extra = {"inputResponses": {"name": ACCEPTED}} if method == "tasks/update" else {}
    foreign = mallory.send(method, says=named, id=1, taskId=task, **extra)
    absent = mallory.send(method, says=named, id=1, taskId="never-issued", **extra)
    assert foreign == absent
    assert foreign[0]["error"]["code"] == -32602
    other = {"io.modelcontextprotocol/clientInfo": {"name": "another", "version": "2"}}
    assert alice.get(task) == alice.result("tasks/get", says=other, taskId=task) == before


@covers("2026-07-28:auth-on-each-request")
def test_the_receiver_refuses_a_foreign_task_that_the_store_returns() -> None:
    driver = CarelessDriver()
    task = Peer(driver).create()
    assert Peer(driver, owner="mallory").error("tasks/get", taskId=task)["code"] == -32602


@covers("2026-07-28:auth-on-each-request", "2026-07-28:ack-lists-task-ids")
def test_a_client_cannot_subscribe_to_a_foreign_task() -> None:
    driver = MemoryDriver()
    alice, mallory = Peer(driver), Peer(driver, owner="mallory")
    task = alice.create()
    (begun,) = mallory.listen(task)
    assert begun["params"]["notifications"].get("taskIds", []) == []
    alice.complete(task)
    assert mallory.news() == []


@covers("2026-07-28:state-by-explicit-id", "2026-07-28:connection-not-required")
def test_a_task_is_reached_by_its_id_from_any_connection_of_its_owner() -> None:
    driver = MemoryDriver()
    task = Peer(driver).create()
    Peer(driver).ask(task, form())
    assert "name" in Peer(driver).get(task)["inputRequests"]
    Peer(driver).update(task, name=ACCEPTED)
    assert Peer(driver).get(task)["status"] == "working"
    Peer(driver).cancel(task)
    assert Peer(driver).get(task)["status"] == "cancelled"
