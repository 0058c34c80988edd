"""A stream at one replica carries the changes made at any, and resumes at another replica."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.replicas.fleet import Fleet, at
from tests.requirements import covers
from tests.wire_faults.clients import Modern, text_of
from tests.wire_faults.server_process import eventually
from tests.wire_faults.wire import Events, Wire, first_id

JSON = dict[str, Any]

TICKS = 8


def statuses(events: Events) -> Iterator[tuple[str, str]]:
    """Yield the task and status of each status notification."""
    for event in events:
        if event.json.get("method") == "notifications/tasks/status":
            yield event.json["params"]["taskId"], event.json["params"]["status"]


def until_status(events: Events, task_id: str, status: str) -> list[tuple[str, str]]:
    """Read status notifications up to this one and return them."""
    read = []
    for one in statuses(events):
        read.append(one)
        if one == (task_id, status):
            return read
    raise AssertionError(f"only {read}")


def watch(client: Modern, *task_ids: str) -> tuple[Wire, Events]:
    """Open a subscription and wait for its acknowledgement."""
    params = {"notifications": {"taskIds": list(task_ids)}}
    wire = client.open("subscriptions/listen", params)
    assert wire.head()[0] == 200
    events = Events(wire)
    assert next(events).json["method"] == "notifications/subscriptions/acknowledged"
    return wire, events


def test_a_subscriber_at_any_replica_gets_every_change(fleet: Fleet) -> None:
    first, *_ = fleet.replicas
    client, gate = fleet.modern(first), fleet.new_gate()
    task_id = client.create("ask", gate=str(gate))
    eventually(lambda: client.get_task(task_id)["status"] == "input_required", "it asks")
    streams = [watch(at(replica, client), task_id) for replica in fleet.replicas]
    at(first, client).ask("tasks/cancel", {"taskId": task_id})
    for wire, events in streams:
        with wire:
            seen = [next(events).json["params"]["status"] for _ in range(2)]
        assert seen == ["input_required", "cancelled"]


def test_the_get_stream_carries_tasks_created_at_other_replicas(fleet: Fleet) -> None:
    for here in fleet.replicas:
        session = fleet.session(here)
        wire, events = session.listen()
        with wire:
            for replica in fleet.replicas:
                gate = fleet.new_gate()
                task_id = at(replica, session).create("hold", gate=str(gate))
                at(fleet.replicas[1], session).ask("tasks/cancel", {"taskId": task_id})
                until_status(events, task_id, "cancelled")
                gate.touch()
                task_id = at(replica, session).create("hold", gate=str(gate))
                until_status(events, task_id, "completed")


def test_a_session_gets_only_its_own_tasks(fleet: Fleet) -> None:
    """Also if both sessions have the same owner: progress tokens belong to a session."""
    first, second, third = fleet.replicas
    one, other = fleet.session(first), fleet.session(first)
    gate = fleet.new_gate()
    gate.touch()
    wire, events = at(second, one).listen()
    with wire:
        foreign = at(third, other).create("hold", gate=str(gate))
        eventually(lambda: other.status(foreign) == "completed", "it ends")
        made = [at(replica, one).create("hold", gate=str(gate)) for replica in (third, first)]
        seen = until_status(events, made[0], "completed")
        if (made[1], "completed") not in seen:
            seen += until_status(events, made[1], "completed")
    assert {task_id for task_id, _ in seen} == set(made)


def test_a_task_with_a_waiting_request_is_notified_once(fleet: Fleet) -> None:
    """The replica finds the end both through the waiting request and in the store."""
    first, second, third = fleet.replicas
    session, gate = fleet.session(first), fleet.new_gate()
    wire, events = session.listen()
    with wire:
        task_id = at(second, session).create("hold", gate=str(gate))
        with at(first, session).open("tasks/result", {"taskId": task_id}) as waiting:
            gate.touch()
            seen = until_status(events, task_id, "completed")
            waiting.head()
        another = at(third, session).create("hold", gate=str(gate))
        seen += until_status(events, another, "completed")
    assert seen.count((task_id, "completed")) == 1


@covers("2025-11-25:message-on-one-stream", "2025-11-25:no-broadcast")
def test_the_get_stream_is_read_at_one_replica(fleet: Fleet) -> None:
    first, second, third = fleet.replicas
    session, gate = fleet.session(first), fleet.new_gate()
    old_wire, old = session.listen()
    new_wire, new = at(second, session).listen()
    with old_wire, new_wire:
        assert list(old) == [], "the newer stream replaces it"
        task_id = at(first, session).create("hold", gate=str(gate))
        at(third, session).ask("tasks/cancel", {"taskId": task_id})
        until_status(new, task_id, "cancelled")


# --- resumption -------------------------------------------------------------------------------


@covers("2025-11-25:resume-replays")
def test_a_waiting_call_resumes_at_another_replica(fleet: Fleet) -> None:
    first, second, third = fleet.replicas
    session, gate = fleet.session(first), fleet.new_gate()
    task_id = session.create("tick", to=TICKS, gate=str(gate))
    with at(second, session).open("tasks/result", {"taskId": task_id}) as wire:
        request_id = session.last_id
        assert wire.head()[0] == 200
        last_id = first_id(wire)
    wire, events = at(third, session).listen(last_id)
    with wire:
        gate.with_suffix(".start").touch()
        seen = [next(events)]
        while seen[-1].json["params"]["progress"] < TICKS:  # the server may merge several
            seen.append(next(events))
    progress = [event.json["params"]["progress"] for event in seen]
    assert progress == sorted(set(progress))
    for replica in (first, third):  # a new replica, and the one before
        wire, events = at(replica, session).listen(seen[-1].id)
        with wire:
            gate.touch()
            [answer] = events
        assert answer.json["id"] == request_id
        assert text_of(answer.json["result"]) == f"{TICKS} ticks"


def test_a_resumed_call_resumes_at_its_first_replica(fleet: Fleet) -> None:
    """The events that the first replica buffered do not repeat those of another one."""
    first, second, third = fleet.replicas
    session, gate = fleet.session(first), fleet.new_gate()
    task_id = session.create("ask", gate=str(gate))
    wire, events = at(second, session).result(task_id)
    request_id = session.last_id
    with wire:
        question = next(events)
    last_id = question.id
    for replica in (third, first, third):
        wire, events = at(replica, session).listen(last_id)
        with wire:
            last_id = next(events).id  # this replica asks again
    session.reply(question.json, "Ada")
    gate.touch()
    eventually(lambda: session.status(task_id) == "completed", "it ends without a stream")
    wire, events = at(second, session).listen(last_id)
    with wire:
        *_, answer = events
    assert answer.json["id"] == request_id
    assert text_of(answer.json["result"]) == "accept Ada"


def test_the_get_stream_resumes_at_another_replica(fleet: Fleet) -> None:
    first, second, third = fleet.replicas
    session, gates = fleet.session(first), [fleet.new_gate() for _ in range(3)]
    tasks = [
        at(replica, session).create("hold", gate=str(gate))
        for replica, gate in zip(fleet.replicas, gates, strict=True)
    ]
    wire, events = at(second, session).listen()
    with wire:
        gates[0].touch()
        until_status(events, tasks[0], "completed")
        last = events.last_id
    gates[1].touch()
    eventually(lambda: session.status(tasks[1]) == "completed", "it ends without a stream")
    wire, events = at(third, session).listen(last)
    with wire:
        until_status(events, tasks[1], "completed")
        gates[2].touch()
        until_status(events, tasks[2], "completed")


def test_a_waiting_call_resumes_after_its_replica_is_killed(fleet: Fleet) -> None:
    first, second, _ = fleet.replicas
    session, gate = fleet.session(first), fleet.new_gate()
    task_id = session.create("hold", gate=str(gate))
    with fleet.one_more() as doomed:
        with at(doomed, session).open("tasks/result", {"taskId": task_id}) as wire:
            request_id = session.last_id
            assert wire.head()[0] == 200
            last_id = first_id(wire)
            doomed.kill()
            with pytest.raises((EOFError, ConnectionError)):
                list(wire.chunks())
        wire, events = at(second, session).listen(last_id)
    with wire:
        gate.touch()
        [answer] = events
    assert answer.json["id"] == request_id
    assert text_of(answer.json["result"]) == f"opened {gate.name}"


def test_a_subscriber_continues_after_its_replica_is_killed(fleet: Fleet) -> None:
    first, second, _ = fleet.replicas
    client, gate = fleet.modern(first), fleet.new_gate()
    task_id = client.create("hold", gate=str(gate))
    with fleet.one_more() as doomed:
        wire, events = watch(at(doomed, client), task_id)
        with wire:
            doomed.kill()
            with pytest.raises((EOFError, ConnectionError)):
                list(events)
    wire, events = watch(at(second, client), task_id)
    with wire:
        gate.touch()
        seen = [next(events).json["params"]["status"] for _ in range(2)]
    assert seen == ["working", "completed"]
