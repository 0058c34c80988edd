"""What 2025-11-25 demands of a receiver of tasks, seen on the wire."""

import json
from datetime import datetime
from itertools import pairwise
from typing import Any

import attrs
import pytest

from taskmachine.protocol.dialects.mcp_2025_11_25.messages import DIALECT, GetTask, Initialize
from taskmachine.protocol.dialects.mcp_2025_11_25.receiver import RECEIVER, capabilities_of
from taskmachine.protocol.offer import Tool
from taskmachine.protocol.operations import Cancel, Create
from taskmachine.protocol.outputs import Abandoned, Perform, Send
from taskmachine.protocol.receiver import Receiver
from taskmachine.statemachine import (
    IllegalTransition,
    Outcome,
    StaleFence,
    Task,
    TaskmachineError,
    lifecycle,
)
from tests.oracle import LIFECYCLES, judge
from tests.protocol.memory_driver import (
    GREET,
    OFFER,
    PAGE,
    CarelessDriver,
    Connection,
    MemoryDriver,
    only,
)
from tests.protocol.peers_2025_11_25 import (
    ACCEPT,
    BROKEN,
    CLIENT,
    ENDED,
    HELLO,
    PLAIN_SERVER,
    RAISED,
    RELATED,
    REVISION,
    SAMPLING,
    VERBS,
    WAYS,
    Peer,
    returned,
)
from tests.requirements import covers


@covers(
    "2025-11-25:capability-declared",
    "2025-11-25:capability-shape",
    "2025-11-25:server-capability-keys",
    "2025-11-25:initialize-answered",
    "2025-11-25:tools-capability",
)
def test_a_server_that_takes_tasks_declares_it() -> None:
    hello = Peer(MemoryDriver(), greets=False).initialize()
    tasks: Any = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert hello["capabilities"] == {"tools": {}, "tasks": tasks}
    assert hello["serverInfo"] == {"name": "test", "version": "1"}
    assert (
        "tasks"
        not in Peer(MemoryDriver(), offer=PLAIN_SERVER, greets=False).initialize()["capabilities"]
    )


@covers(
    "2025-11-25:capability-declared",
    "2025-11-25:capability-shape",
    "2025-11-25:client-capability-keys",
)
def test_a_client_that_takes_tasks_declares_it() -> None:
    tasks = capabilities_of(CLIENT)["tasks"]
    assert tasks == {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}}}
    judge(REVISION, "ClientTasksCapability").validate(tasks)


@covers(
    "2025-11-25:capability-requests-exhaustive", "2025-11-25:undeclared-type-processed-normally"
)
def test_a_server_without_task_support_ignores_the_wish_for_one() -> None:
    peer = Peer(MemoryDriver(), offer=PLAIN_SERVER)
    id = peer.ask("tools/call", name="greet", task={"ttl": 1})
    assert peer.responses(id) == []
    [answer] = peer.connection.finish_run(id, returned(HELLO))
    assert json.loads(json.dumps(attrs.asdict(answer)["result"])) == HELLO
    assert peer.driver.tasks == {}


@covers(
    "2025-11-25:capability-requests-exhaustive", "2025-11-25:undeclared-type-processed-normally"
)
def test_a_client_makes_tasks_of_the_declared_types_only() -> None:
    peer = Peer(MemoryDriver(), offer=CLIENT)
    created = peer.result("sampling/createMessage", **SAMPLING, task={})
    judge(REVISION, "CreateTaskResult").validate(created)
    id = peer.ask("elicitation/create", message="?", requestedSchema={}, task={})
    peer.connection.finish_run(id, returned(ACCEPT))
    [answer] = peer.responses(id)
    assert answer["result"] == ACCEPT


@covers("2025-11-25:get-and-result-always-served")
@pytest.mark.parametrize("listing", [True, False])
def test_a_server_that_creates_tasks_serves_tasks_get_and_tasks_result(listing: bool) -> None:
    peer = Peer(MemoryDriver(), offer=attrs.evolve(OFFER, listing=listing))
    task_id = peer.create()
    peer.end(task_id)
    assert peer.status(task_id) == "completed"
    assert peer.result("tasks/result", taskId=task_id)["content"] == HELLO["content"]


@covers(
    "2025-11-25:list-capability",
    "2025-11-25:cancel-capability",
    "2025-11-25:list-not-declared-without-identity",
)
@pytest.mark.parametrize(
    ("offer", "declared"),
    [
        (OFFER, {"list", "cancel"}),
        (attrs.evolve(OFFER, listing=False), {"cancel"}),  # cannot distinguish its callers
        (PLAIN_SERVER, set()),
    ],
)
def test_list_and_cancel_are_served_where_they_are_declared(offer: Any, declared: set[str]) -> None:
    peer = Peer(MemoryDriver(), offer=offer)
    tasks = peer.initialize()["capabilities"].get("tasks", {})
    assert tasks.keys() & {"list", "cancel"} == declared
    listed = peer.call("tasks/list")
    assert ("result" in listed) == ("list" in declared)
    assert "result" in listed or listed["error"]["code"] == -32601
    refusal = peer.error("tasks/cancel", taskId="never issued")
    assert refusal["code"] == (-32602 if "cancel" in declared else -32601)


UNMARKED = attrs.evolve(OFFER, tools={**OFFER.tools, "odd": Tool({**GREET, "name": "odd"})})


@covers("2025-11-25:task-support-values", "2025-11-25:task-support-default-forbidden")
def test_the_list_of_tools_says_which_run_as_tasks() -> None:
    tools = Peer(MemoryDriver(), offer=UNMARKED).result("tools/list")["tools"]
    support = {tool["name"]: tool["execution"]["taskSupport"] for tool in tools}
    expected = {"greet": "optional", "slow": "required", "quick": "forbidden", "odd": "forbidden"}
    assert support == expected


@covers(
    "2025-11-25:forbidden-tool-task-refused-32601",
    "2025-11-25:task-support-default-forbidden",
    "2025-11-25:required-tool-plain-refused-32601",
    "2025-11-25:may-require-augmentation",
)
@pytest.mark.parametrize(
    ("tool", "augmented", "allowed"),
    [
        ("slow", True, True),
        ("slow", False, False),
        ("greet", True, True),
        ("greet", False, True),
        ("quick", True, False),
        ("quick", False, True),
        ("odd", True, False),
        ("odd", False, True),
    ],
)
def test_a_call_against_the_task_support_of_its_tool_is_32601(
    tool: str, augmented: bool, allowed: bool
) -> None:
    peer = Peer(MemoryDriver(), offer=UNMARKED)
    params: dict[str, Any] = {"task": {}} if augmented else {}
    answers = peer.responses(peer.ask("tools/call", name=tool, **params))
    assert bool(peer.driver.tasks) == (allowed and augmented)
    assert bool(peer.connection.runs) == (allowed and not augmented)
    if not allowed:
        [answer] = answers
        assert answer["error"]["code"] == -32601
        assert tool in answer["error"]["message"]


TTLS: list[Any] = ["60", -1, 0.5, True, [], 2**53]
TOKENS: list[Any] = [{}, [], True, 1.5]


@covers(
    "2025-11-25:tool-protocol-errors",
    "2025-11-25:ttl-parameter-number",
    "2025-11-25:progress-token-type",
)
@pytest.mark.parametrize(
    "params",
    [
        *({"name": "nobody"}, {"name": "greet", "arguments": []}, {"name": 5}, {}),
        *({"name": "greet", "task": {"ttl": ttl}} for ttl in TTLS),
        *({"name": "greet", "_meta": {"progressToken": token}} for token in TOKENS),
    ],
)
def test_an_unknown_tool_or_a_malformed_call_is_a_protocol_error(peer: Peer, params: Any) -> None:
    assert peer.error("tools/call", **{"task": {}, **params})["code"] == -32602
    assert peer.driver.tasks == {}
    assert peer.result("ping") == {}


@covers(
    "2025-11-25:task-field-asks-for-task",
    "2025-11-25:optional-tool-served-both-ways",
    "2025-11-25:create-result-returned",
    "2025-11-25:create-result-shape",
    "2025-11-25:create-result-without-operation-result",
    "2025-11-25:begins-working",
    "2025-11-25:task-id-string",
    "2025-11-25:task-required-fields",
    "2025-11-25:related-task-on-create-result",
)
def test_a_call_with_a_task_field_is_answered_with_a_task(peer: Peer) -> None:
    created = peer.result("tools/call", name="greet", task={})
    judge(REVISION, "CreateTaskResult").validate(created)
    assert created.keys() == {"task"}
    assert created["task"]["status"] == "working"
    assert isinstance(created["task"]["taskId"], str)
    plain = peer.ask("tools/call", name="greet")
    peer.connection.finish_run(plain, returned(HELLO))
    assert peer.responses(plain)[0]["result"] == HELLO


@covers("2025-11-25:task-id-from-receiver")
def test_a_requestor_cannot_choose_the_id(peer: Peer) -> None:
    task_id = peer.create(task={"taskId": "mine"}, taskId="mine")
    assert task_id != "mine"
    assert peer.error("tasks/get", taskId="mine")["code"] == -32602


class Thrifty(MemoryDriver):
    """Grants a minute at most."""

    def _perform(self, connection: Connection, wanted: Perform) -> None:
        if isinstance(wanted.operation, Create):
            granted = min(60_000, wanted.operation.ttl_ms or 60_000)
            wanted = attrs.evolve(wanted, operation=attrs.evolve(wanted.operation, ttl_ms=granted))
        super()._perform(connection, wanted)


@covers(
    "2025-11-25:request-ttl",
    "2025-11-25:actual-ttl-in-get",
    "2025-11-25:ttl-may-be-overridden",
    "2025-11-25:ttl-from-creation",
)
@pytest.mark.parametrize(
    ("driver", "task", "ttl"),
    [
        (MemoryDriver(), {}, None),
        (MemoryDriver(), {"ttl": 0}, 0),
        (MemoryDriver(), {"ttl": 90_000}, 90_000),
        (Thrifty(), {"ttl": 90_000}, 60_000),
        (Thrifty(), {}, 60_000),
    ],
)
def test_the_ttl_in_force_is_shown_and_does_not_count_down(
    driver: MemoryDriver, task: Any, ttl: Any
) -> None:
    peer = Peer(driver)
    task_id = peer.create(task=task)
    for _ in range(3):
        shown = peer.result("tasks/get", taskId=task_id)
        assert "ttl" in shown
        assert shown["ttl"] == ttl
        driver.now += 10_000
        peer.move(task_id, lambda t, now: lifecycle.report(t, now, message=f"at {now}"))


@covers("2025-11-25:get-returns-task-flat", "2025-11-25:status-working")
def test_tasks_get_immediately_returns_the_task_itself(peer: Peer, task_id: str) -> None:
    for _ in range(2):
        shown = peer.result("tasks/get", taskId=task_id)
        assert (shown["taskId"], shown["status"]) == (task_id, "working")
        assert "task" not in shown
        if peer.driver.tasks[task_id].fence == 0:
            peer.start(task_id)  # clients cannot observe whether a worker holds it


@covers("2025-11-25:poll-interval-optional")
def test_the_suggested_interval_is_a_number_that_grows_with_age(peer: Peer) -> None:
    task_id, seen = peer.create(), []
    for _ in range(5):
        seen.append(peer.result("tasks/get", taskId=task_id)["pollInterval"])
        peer.driver.now += 20_000
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] <= 5_000


@covers(
    "2025-11-25:created-at-everywhere",
    "2025-11-25:last-updated-at-everywhere",
    "2025-11-25:created-at-constant",
    "2025-11-25:last-updated-at-order",
    "2025-11-25:task-required-fields",
    "2025-11-25:status-message-optional",
    "2025-11-25:status-values",
    "2025-11-25:task-id-string",
)
def test_every_message_with_a_task_has_all_its_fields_and_times_that_make_sense(peer: Peer) -> None:
    created = peer.result("tools/call", name="greet", task={"ttl": 60_000})["task"]
    task_id = created["taskId"]
    shown = [created]

    def look() -> None:
        [listed] = peer.result("tasks/list")["tasks"]
        got = peer.result("tasks/get", taskId=task_id)
        pushed = peer.notifications("notifications/tasks/status")[-1:]
        assert got == listed
        shown.extend([*pushed, got])

    look()
    peer.ask("tasks/result", taskId=task_id)
    peer.ask_from(task_id)
    look()
    peer.answer(peer.questions()[0], ACCEPT)
    look()
    peer.move(task_id, lambda task, now: lifecycle.report(task, now, message="halfway"))
    look()
    peer.driver.now += 10
    shown.append(peer.result("tasks/cancel", taskId=task_id))
    look()
    for task in shown:
        judge(REVISION, "Task").validate(task)
        assert {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl"} <= task.keys()
        assert (task["taskId"], task["createdAt"]) == (task_id, created["createdAt"])
    times = [datetime.fromisoformat(task["lastUpdatedAt"]) for task in shown]
    assert times == sorted(times)
    assert times[0] >= datetime.fromisoformat(created["createdAt"])
    for (before, earlier), (after, later) in pairwise(zip(shown, times, strict=True)):
        assert before["status"] == after["status"] or earlier < later, "it moves with the status"
    assert [task["status"] for task in shown if "statusMessage" in task] != []


@covers(
    "2025-11-25:task-id-param-decides",
    "2025-11-25:related-task-ignored-on-task-requests",
    "2025-11-25:no-related-task-on-task-results",
    "2025-11-25:related-task-on-result",
)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
def test_the_parameter_names_the_task_whatever_the_metadata_say(peer: Peer, method: str) -> None:
    wanted, other = peer.create(), peer.create()
    if method == "tasks/result":
        peer.end(wanted)
    shown = peer.result(method, taskId=wanted, _meta={RELATED: {"taskId": other}})
    if method == "tasks/result":
        assert shown["_meta"][RELATED] == {"taskId": wanted}
    else:
        assert shown["taskId"] == wanted
        assert RELATED not in shown.get("_meta", {})
    assert peer.status(other) == "working"


@covers(
    "2025-11-25:paths-from-working",
    "2025-11-25:paths-from-input-required",
    "2025-11-25:terminal-final",
    "2025-11-25:cancelled-sticks",
    "2025-11-25:status-values",
)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("way", WAYS)
def test_whatever_happens_the_status_takes_an_allowed_path(
    peer: Peer, task_id: str, way: str, verb: str
) -> None:
    peer.walk(task_id, way)
    before = peer.result("tasks/get", taskId=task_id)
    try:
        peer.move(task_id, VERBS[verb])
    except (TaskmachineError, ValueError):
        assert peer.result("tasks/get", taskId=task_id) == before
    after = peer.result("tasks/get", taskId=task_id)
    allowed = LIFECYCLES[REVISION].edges
    assert before["status"] == after["status"] or (before["status"], after["status"]) in allowed
    if before["status"] in ENDED:
        assert after == before


@covers("2025-11-25:cancelled-sticks")
@pytest.mark.parametrize("outcome", [returned(HELLO), returned(BROKEN), RAISED])
def test_work_that_runs_on_after_a_cancel_changes_nothing(
    peer: Peer, task_id: str, outcome: Outcome
) -> None:
    peer.start(task_id)
    fence = peer.driver.tasks[task_id].fence
    cancelled = peer.result("tasks/cancel", taskId=task_id)
    verb = lifecycle.fail if outcome.result is None else lifecycle.complete
    with pytest.raises((IllegalTransition, StaleFence)):
        peer.move(task_id, lambda task, now: verb(task, now, outcome, fence=fence))
    assert peer.result("tasks/get", taskId=task_id) | {"pollInterval": 0} == cancelled | {
        "pollInterval": 0
    }


@covers(
    "2025-11-25:cancel-answers-with-task",
    "2025-11-25:cancelled-before-answer",
    "2025-11-25:status-cancelled",
)
@pytest.mark.parametrize("way", ["queued", "working", "input_required"])
def test_a_cancel_is_answered_after_the_task_is_cancelled(way: str) -> None:

    class Slow(MemoryDriver):
        """Keeps a cancel back for a while."""

        def _perform(self, connection: Connection, wanted: Perform) -> None:
            if isinstance(wanted.operation, Cancel) and wanted not in kept:
                kept.append(wanted)
            else:
                super()._perform(connection, wanted)

    kept: list[Perform] = []
    peer = Peer(Slow())
    task_id = peer.create()
    peer.walk(task_id, way)
    id = peer.ask("tasks/cancel", taskId=task_id)
    assert peer.responses(id) == [], "nothing is promised before it has happened"
    peer.driver.handle(peer.connection, kept)
    [answer] = peer.responses(id)
    judge(REVISION, "CancelTaskResult").validate(answer["result"])
    assert (answer["result"]["taskId"], answer["result"]["status"]) == (task_id, "cancelled")
    assert peer.status(task_id) == "cancelled"


@covers("2025-11-25:cancel-terminal-refused", "2025-11-25:informative-error-messages")
@pytest.mark.parametrize("way", ["completed", "failed", "broken", "cancelled"])
def test_a_task_that_has_ended_cannot_be_cancelled(peer: Peer, task_id: str, way: str) -> None:
    peer.walk(task_id, way)
    before = peer.result("tasks/get", taskId=task_id)
    error = peer.error("tasks/cancel", taskId=task_id)
    assert error["code"] == -32602
    assert before["status"] in error["message"]
    assert peer.result("tasks/get", taskId=task_id) == before


@covers("2025-11-25:status-notification-optional", "2025-11-25:status-notification-full-task")
@covers("2025-11-25:no-related-task-on-status-notification", "2025-11-25:notification-without-id")
def test_a_status_notification_carries_the_whole_task(peer: Peer, task_id: str) -> None:
    peer.answer(peer.asked(task_id)[0], ACCEPT)
    peer.end(task_id)
    told = [m for m in peer.heard if m.get("method") == "notifications/tasks/status"]
    assert [m["params"]["status"] for m in told] == ["input_required", "working", "completed"]
    assert all("id" not in m and "_meta" not in m["params"] for m in told)
    last = told[-1]["params"]
    assert last == peer.result("tasks/get", taskId=task_id)


@covers(
    "2025-11-25:list-result-shape",
    "2025-11-25:list-paginated",
    "2025-11-25:next-cursor-when-more",
    "2025-11-25:cursors-stable",
)
@pytest.mark.parametrize("number", [0, PAGE, PAGE + 1, 5])
def test_pages_follow_each_other_to_the_end(number: int) -> None:
    peer = Peer(MemoryDriver())
    created = {peer.create() for _ in range(number)}
    seen: list[str] = []
    page = peer.result("tasks/list")
    while True:
        assert len(page["tasks"]) <= PAGE
        seen += [task["taskId"] for task in page["tasks"]]
        if "nextCursor" not in page:
            break
        cursor = page["nextCursor"]
        page = peer.result("tasks/list", cursor=cursor)
        assert page == peer.result("tasks/list", cursor=cursor)
    assert len(seen) == number
    assert set(seen) == created


@covers("2025-11-25:list-bad-cursor-32602", "2025-11-25:bad-cursor-graceful")
def test_the_server_refuses_an_invalid_cursor_and_keeps_serving() -> None:
    driver = MemoryDriver()
    peer, other = Peer(driver), Peer(driver, owner="bob")
    for _ in range(PAGE + 1):
        peer.create()
    good = peer.result("tasks/list")["nextCursor"]
    bad_ones: list[Any] = ["", "made up", "AAAA", good[:-1], good + "A", good.swapcase(), 5, {}]
    for bad in bad_ones:
        assert peer.error("tasks/list", cursor=bad)["code"] == -32602
    assert other.error("tasks/list", cursor=good)["code"] == -32602
    assert len(peer.result("tasks/list", cursor=good)["tasks"]) == 1


@covers(
    "2025-11-25:get-unknown-32602",
    "2025-11-25:result-unknown-32602",
    "2025-11-25:cancel-unknown-32602",
    "2025-11-25:informative-error-messages",
)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
@pytest.mark.parametrize("params", [{"taskId": "never issued"}, {"taskId": ""}, {"taskId": 5}, {}])
def test_an_unknown_or_invalid_id_is_32602_at_once(
    peer: Peer, task_id: str, method: str, params: Any
) -> None:
    error = peer.error(method, **params)
    assert error["code"] == -32602
    assert error["message"]
    peer.end(task_id)
    refused = peer.error("tasks/cancel", taskId=task_id)["message"]
    assert error["message"] != refused, "each says what was wrong"


@covers(
    "2025-11-25:purged-reads-as-not-found",
    "2025-11-25:may-delete-after-ttl",
    "2025-11-25:may-delete-cancelled",
)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
def test_a_task_that_was_purged_reads_as_one_that_never_was(
    peer: Peer, task_id: str, method: str
) -> None:
    peer.result("tasks/cancel", taskId=task_id)
    lifecycle.purge(peer.driver.tasks.pop(task_id), peer.driver.now)
    assert peer.error(method, taskId=task_id) == peer.error(method, taskId="never issued")


@covers("2025-11-25:internal-error-32603")
@pytest.mark.parametrize("error", [ZeroDivisionError("secret"), OSError("/etc/secret")])
def test_an_internal_failure_is_32603_without_details(error: Exception) -> None:
    class Broken(MemoryDriver):
        def load(self, task_id: str, owner: str) -> Task:
            raise Failed

    class Failed(TaskmachineError):
        """Errors that a store may raise."""

    peer = Peer(Broken())
    task_id = peer.create()
    assert peer.error("tasks/get", taskId=task_id)["code"] == -32603
    receiver = Receiver(RECEIVER, OFFER, owner="alice", new_id=lambda: 1)
    receiver.receive(DIALECT.encode_request(0, Initialize(REVISION, {}, {})))
    receiver.receive(DIALECT.encode_request(1, GetTask("x")))
    send = only(receiver.refused(1, error), Send)
    shown = json.dumps(attrs.asdict(send.message))
    assert "-32603" in shown
    assert "secret" not in shown
    assert peer.result("ping") == {}


@covers(
    "2025-11-25:bound-to-auth-context",
    "2025-11-25:foreign-get-rejected",
    "2025-11-25:foreign-result-rejected",
)
@pytest.mark.parametrize("way", ["working", "input_required", "completed"])
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result"])
@pytest.mark.parametrize("kind", [MemoryDriver, CarelessDriver])
def test_a_foreign_task_is_shown_as_none(kind: type[MemoryDriver], method: str, way: str) -> None:
    driver = kind()
    alice, bob = Peer(driver), Peer(driver, owner="bob")
    task_id = alice.create()
    alice.walk(task_id, way)
    assert bob.error(method, taskId=task_id) == bob.error(method, taskId="never issued")
    if way == "working":
        alice.end(task_id)
    assert [m for m in bob.heard if task_id in json.dumps(m)] == [], "no push either"


@covers("2025-11-25:bound-to-auth-context", "2025-11-25:foreign-cancel-rejected")
def test_a_foreign_task_cannot_be_cancelled() -> None:
    driver = MemoryDriver()
    alice, bob = Peer(driver), Peer(driver, owner="bob")
    task_id = alice.create()
    refusal = bob.error("tasks/cancel", taskId=task_id)
    assert refusal == bob.error("tasks/cancel", taskId="never issued")
    assert refusal["code"] == -32602
    assert alice.status(task_id) == "working"


def test_the_receiver_reports_a_closed_request_as_abandoned(peer: Peer) -> None:
    id = peer.ask("tasks/result", taskId=peer.create())
    assert peer.connection.receiver.closed(id)[0] == Abandoned(id)
