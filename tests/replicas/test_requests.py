"""Any replica serves any request, in both revisions."""

import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from tests.replicas.fleet import PAGE, TOKENS, Fleet, at
from tests.requirements import covers
from tests.wire_faults.clients import Session, text_of
from tests.wire_faults.server_process import eventually

JSON = dict[str, Any]


def test_each_request_of_a_session_may_go_to_another_replica(fleet: Fleet) -> None:
    session, gates = fleet.session(fleet.balancer), [fleet.new_gate() for _ in range(4)]
    tasks = [session.create("hold", gate=str(gate)) for gate in gates]
    for _ in fleet.replicas:
        assert {session.status(task_id) for task_id in tasks} == {"working"}
        assert session.ask("ping")["result"] == {}
    for gate, task_id in zip(gates, tasks, strict=True):
        wire, events = session.result(task_id)
        with wire:
            gate.touch()
            [answer] = events
        assert text_of(answer.json["result"]) == f"opened {gate.name}"
    for task_id in tasks:
        assert session.status(task_id) == "completed"


def test_each_request_of_2026_07_28_may_go_to_another_replica(fleet: Fleet) -> None:
    client, gate = fleet.modern(fleet.balancer), fleet.new_gate()
    task_id = client.create("hold", gate=str(gate))
    for _ in fleet.replicas:
        assert client.get_task(task_id)["status"] == "working"
    gate.touch()
    eventually(lambda: client.get_task(task_id)["status"] == "completed", "it ends")
    for _ in fleet.replicas:
        assert text_of(client.get_task(task_id)["result"]) == f"opened {gate.name}"


def test_a_list_is_continued_at_another_replica(fleet: Fleet) -> None:
    session, gate = fleet.session(fleet.balancer, "bob"), fleet.new_gate()
    gate.touch()
    made = {session.create("hold", gate=str(gate)) for _ in range(2 * PAGE + 1)}
    listed: list[str] = []
    cursor: JSON = {}
    while True:
        page = session.ask("tasks/list", cursor)["result"]
        listed += (task["taskId"] for task in page["tasks"])
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert made <= set(listed)
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("generation", ["session", "modern"])
def test_a_tool_is_stopped_through_any_replica(fleet: Fleet, generation: str) -> None:
    first, second, _ = fleet.replicas
    client: Any = getattr(fleet, generation)(first)
    for here in fleet.replicas:  # with local engines only one of them runs it
        gate = fleet.new_gate()
        task_id = at(first, client).create("hold", gate=str(gate))
        eventually(Path(f"{gate}.runs").exists, "the tool runs")
        at(here, client).ask("tasks/cancel", {"taskId": task_id})
        cancelled = time.monotonic()
        eventually(Path(f"{gate}.stopped").exists, "the tool is stopped")
        assert time.monotonic() - cancelled < 1
        assert at(second, client).ask("tasks/get", {"taskId": task_id})["result"]["status"] == (
            "cancelled"
        )


# --- questions --------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["ask", "park"])
def test_a_question_is_asked_and_answered_through_other_replicas(fleet: Fleet, tool: str) -> None:
    first, second, third = fleet.replicas
    session, gate = fleet.session(first), fleet.new_gate()
    gate.touch()
    arguments = {"gate": str(gate)} if tool == "ask" else {}
    task_id = session.create(tool, **arguments)
    wire, events = at(second, session).result(task_id)
    with wire:
        question = next(events).json
        assert question["method"] == "elicitation/create"
        at(third, session).reply(question, "Ada")
        answer = next(event.json for event in events if "result" in event.json)
    assert text_of(answer["result"]) == "accept Ada"


@pytest.mark.parametrize("tool", ["ask", "park"])
def test_input_is_given_through_any_replica(fleet: Fleet, tool: str) -> None:
    client, gate = fleet.modern(fleet.balancer), fleet.new_gate()
    gate.touch()
    arguments = {"gate": str(gate)} if tool == "ask" else {}
    task_id = client.create(tool, **arguments)
    asked = eventually(lambda: client.get_task(task_id).get("inputRequests"), "it asks")
    assert asked.keys() == {"name"}
    responses = {"name": {"action": "accept", "content": {"name": "Ada"}}}
    client.ask("tasks/update", {"taskId": task_id, "inputResponses": responses})
    eventually(lambda: client.get_task(task_id)["status"] == "completed", "it has the answer")
    assert text_of(client.get_task(task_id)["result"]) == "accept Ada"


@covers("2025-11-25:server-waits-for-initialized")
def test_a_client_initialized_at_one_replica_is_asked_by_all(fleet: Fleet) -> None:
    first, second, _ = fleet.replicas
    # `initialize` goes to the first replica, `notifications/initialized` to the second.
    session, gate = fleet.session(fleet.balancer), fleet.new_gate()
    gate.touch()
    task_id = at(second, session).create("ask", gate=str(gate))
    wire, events = at(first, session).result(task_id)
    with wire:
        assert next(events).json["method"] == "elicitation/create"
    at(second, session).ask("tasks/cancel", {"taskId": task_id})


def test_a_paused_call_continues_at_another_replica(fleet: Fleet) -> None:
    client, gate = fleet.modern(fleet.balancer, tasks=False), fleet.new_gate()
    gate.touch()
    call: JSON = {"name": "ask", "arguments": {"gate": str(gate)}}
    paused = client.ask("tools/call", call)["result"]
    assert paused["resultType"] == "input_required"
    responses = {"name": {"action": "accept", "content": {"name": "Ada"}}}
    again = {**call, "inputResponses": responses, "requestState": paused["requestState"]}
    assert text_of(client.ask("tools/call", again)["result"]) == "accept Ada"


# --- sessions and owners ----------------------------------------------------------------------


def delete(session: Session) -> int:
    headers = "".join(f"{k}: {v}\r\n" for k, v in {**session._headers, **session.headers}.items())
    with session.wire(f"DELETE /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n".encode()) as wire:
        return wire.answer().status


@covers("2025-11-25:session-ended-404")
def test_a_session_that_one_replica_ended_is_ended_for_all(fleet: Fleet) -> None:
    for here in fleet.replicas:
        session = fleet.session(here)
        for replica in fleet.replicas:  # now each replica has it in memory
            assert at(replica, session).ask("ping")["result"] == {}
        wire, events = session.listen()
        with wire:
            assert delete(at(here, session)) == 204
            for replica in fleet.replicas:
                ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                answer = at(replica, session).post(ping, session.headers)
                assert answer.status == 404
                assert "send initialize again" in answer.json["error"]["message"]
            assert list(events) == [], "the stream ends"


def test_an_owner_has_its_tasks_at_every_replica(fleet: Fleet) -> None:
    if not fleet.has_tokens:
        pytest.skip("needs tokens")
    gate = fleet.new_gate()
    task_id = fleet.session(fleet.replicas[0], "alice").create("hold", gate=str(gate))
    for replica in fleet.replicas:
        alice, bob = fleet.modern(replica, "alice"), fleet.modern(replica, "bob")
        assert alice.get_task(task_id)["status"] == "working"
        assert fleet.session(replica, "alice").status(task_id) == "working"
        refused = bob.ask("tasks/get", {"taskId": task_id})["error"]
        assert refused == bob.ask("tasks/get", {"taskId": "x" * len(task_id)})["error"]
    gate.touch()


def test_a_session_belongs_to_its_owner_at_every_replica(fleet: Fleet) -> None:
    if not fleet.has_tokens:
        pytest.skip("needs tokens")
    for here, there in itertools.permutations(fleet.replicas, 2):
        session = at(there, fleet.session(here, "alice"))
        stolen = {**session.headers, "Authorization": f"Bearer {TOKENS['bob']}"}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert session.post(ping, stolen).status == 404
        assert session.post(ping, session.headers).status == 200
