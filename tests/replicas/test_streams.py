"""Whoever listens at one replica hears of what was done at any; and goes on at another one."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.replicas.fleet import Fleet, at
from tests.requirements import covers
from tests.wire_faults.clients import Modern, text_of
from tests.wire_faults.server_process import eventually
from tests.wire_faults.wire import Events, Wire

JSON = dict[str, Any]

TICKS = 8


def statuses(events: Events) -> Iterator[tuple[str, str]]:
    """The tasks, and what became of them, as they are told."""
    for event in events:
        if event.json.get("method") == "notifications/tasks/status":
            yield event.json["params"]["taskId"], event.json["params"]["status"]


def until_told(events: Events, task_id: str, status: str) -> list[tuple[str, str]]:
    """All that is told up to this."""
    told = []
    for one in statuses(events):
        told.append(one)
        if one == (task_id, status):
            return told
    raise AssertionError(f"only {told}")


def watch(client: Modern, *task_ids: str) -> tuple[Wire, Events]:
    """A subscription, once it is acknowledged."""
    params = {"notifications": {"taskIds": list(task_ids)}}
    wire = client.open("subscriptions/listen", params)
    assert wire.head()[0] == 200
    events = Events(wire)
    assert next(events).json["method"] == "notifications/subscriptions/acknowledged"
    return wire, events


def test_a_subscriber_at_any_replica_hears_of_every_change(fleet: Fleet) -> None:
    first, *_ = fleet.replicas
    client, gate = fleet.modern(first), fleet.new_gate()
    task_id = client.create("ask", gate=str(gate))
    eventually(lambda: client.look(task_id)["status"] == "input_required", "it asks")
    streams = [watch(at(replica, client), task_id) for replica in fleet.replicas]
    at(first, client).ask("tasks/cancel", {"taskId": task_id})
    for wire, events in streams:
        with wire:
            told = [next(events).json["params"]["status"] for _ in range(2)]
        assert told == ["input_required", "cancelled"]


def test_the_general_stream_tells_of_tasks_that_were_made_elsewhere(fleet: Fleet) -> None:
    for here in fleet.replicas:
        session = fleet.session(here)
        wire, events = session.listen()
        with wire:
            for replica in fleet.replicas:
                gate = fleet.new_gate()
                task_id = at(replica, session).create("hold", gate=str(gate))
                at(fleet.replicas[1], session).ask("tasks/cancel", {"taskId": task_id})
                until_told(events, task_id, "cancelled")
                gate.touch()
                task_id = at(replica, session).create("hold", gate=str(gate))
                until_told(events, task_id, "completed")


def test_a_session_hears_only_of_its_own_tasks(fleet: Fleet) -> None:
    """Also if both are of the same owner: progress goes by tokens, and they are of a session."""
    first, second, third = fleet.replicas
    one, other = fleet.session(first), fleet.session(first)
    gate = fleet.new_gate()
    gate.touch()
    wire, events = at(second, one).listen()
    with wire:
        foreign = at(third, other).create("hold", gate=str(gate))
        eventually(lambda: other.status(foreign) == "completed", "it ends")
        made = [at(replica, one).create("hold", gate=str(gate)) for replica in (third, first)]
        told = [*until_told(events, made[0], "completed")]
        if (made[1], "completed") not in told:
            told += until_told(events, made[1], "completed")
    assert {task_id for task_id, _ in told} == set(made)


def test_a_task_that_is_waited_for_is_told_of_once(fleet: Fleet) -> None:
    """It was made elsewhere, so it is found there, too; but the one who waits here knows it."""
    first, second, third = fleet.replicas
    session, gate = fleet.session(first), fleet.new_gate()
    wire, events = session.listen()
    with wire:
        task_id = at(second, session).create("hold", gate=str(gate))
        with at(first, session).open("tasks/result", {"taskId": task_id}) as waiting:
            gate.touch()
            told = until_told(events, task_id, "completed")
            waiting.head()
        another = at(third, session).create("hold", gate=str(gate))
        told += until_told(events, another, "completed")
    assert told.count((task_id, "completed")) == 1


@covers("2025-11-25:message-on-one-stream", "2025-11-25:no-broadcast")
def test_the_general_stream_is_read_at_one_replica(fleet: Fleet) -> None:
    first, second, third = fleet.replicas
    session, gate = fleet.session(first), fleet.new_gate()
    old_wire, old = session.listen()
    new_wire, new = at(second, session).listen()
    with old_wire, new_wire:
        assert list(old) == [], "the newer one takes its place"
        task_id = at(first, session).create("hold", gate=str(gate))
        at(third, session).ask("tasks/cancel", {"taskId": task_id})
        until_told(new, task_id, "cancelled")


# --- streams that are cut off -----------------------------------------------------------------


def begun(wire: Wire) -> str:
    """Where to come back to, from the event by which a stream begins."""
    assert wire.head()[0] == 200
    line, *_ = next(wire.chunks()).decode().splitlines()
    return line.removeprefix("id: ")


@covers("2025-11-25:resume-replays")
def test_a_call_that_waits_goes_on_at_another_replica(fleet: Fleet) -> None:
    first, second, third = fleet.replicas
    session, gate = fleet.session(first), fleet.new_gate()
    task_id = session.create("tick", to=TICKS, gate=str(gate))
    with at(second, session).open("tasks/result", {"taskId": task_id}) as wire:
        request_id = session.last_id
        last_id = begun(wire)
    wire, events = at(third, session).listen(last_id)
    with wire:
        gate.with_suffix(".start").touch()
        told = [next(events)]
        while told[-1].json["params"]["progress"] < TICKS:  # of several perhaps only the last one
            told.append(next(events))
    progress = [event.json["params"]["progress"] for event in told]
    assert progress == sorted(set(progress))
    for replica in (first, third):  # a new one, and one that had it before
        wire, events = at(replica, session).listen(told[-1].id)
        with wire:
            gate.touch()
            [answer] = events
        assert answer.json["id"] == request_id
        assert text_of(answer.json["result"]) == f"{TICKS} ticks"


def test_a_call_that_went_on_elsewhere_comes_back(fleet: Fleet) -> None:
    """What a replica wanted to say while nobody read it is not what was said elsewhere."""
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
            last_id = next(events).id  # asked there, too
    session.reply(question.json, "Ada")
    gate.touch()
    eventually(lambda: session.status(task_id) == "completed", "it ends while nobody listens")
    wire, events = at(second, session).listen(last_id)
    with wire:
        *_, answer = events
    assert answer.json["id"] == request_id
    assert text_of(answer.json["result"]) == "accept Ada"


def test_the_general_stream_goes_on_at_another_replica(fleet: Fleet) -> None:
    first, second, third = fleet.replicas
    session, gates = fleet.session(first), [fleet.new_gate() for _ in range(3)]
    tasks = [
        at(replica, session).create("hold", gate=str(gate))
        for replica, gate in zip(fleet.replicas, gates, strict=True)
    ]
    wire, events = at(second, session).listen()
    with wire:
        gates[0].touch()
        until_told(events, tasks[0], "completed")
        last = events.last_id
    gates[1].touch()
    eventually(lambda: session.status(tasks[1]) == "completed", "it ends while nobody listens")
    wire, events = at(third, session).listen(last)
    with wire:
        until_told(events, tasks[1], "completed")
        gates[2].touch()
        until_told(events, tasks[2], "completed")


def test_whoever_waits_at_a_replica_that_is_killed_goes_on_at_another(fleet: Fleet) -> None:
    first, second, _ = fleet.replicas
    session, gate = fleet.session(first), fleet.new_gate()
    task_id = session.create("hold", gate=str(gate))
    with fleet.one_more() as doomed:
        with at(doomed, session).open("tasks/result", {"taskId": task_id}) as wire:
            request_id = session.last_id
            last_id = begun(wire)
            doomed.kill()
            with pytest.raises((EOFError, ConnectionError)):
                list(wire.chunks())
        wire, events = at(second, session).listen(last_id)
    with wire:
        gate.touch()
        [answer] = events
    assert answer.json["id"] == request_id
    assert text_of(answer.json["result"]) == f"opened {gate.name}"


def test_whoever_watches_at_a_replica_that_is_killed_goes_on_at_another(fleet: Fleet) -> None:
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
        told = [next(events).json["params"]["status"] for _ in range(2)]
    assert told == ["working", "completed"]
