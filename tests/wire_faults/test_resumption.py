"""A stream of 2025-11-25 resumes without lost or repeated events."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from tests.requirements import covers
from tests.wire_faults.clients import Session, text_of
from tests.wire_faults.server_process import Server, eventually, serving
from tests.wire_faults.wire import Event, Events, Wire, first_id

TICKS: Final = 40


def gate(folder: Path) -> str:
    return str(folder / "gate")


def begun(folder: Path) -> None:
    (folder / "gate.start").touch()


def ended(folder: Path) -> None:
    (folder / "gate").touch()


def call(session: Session, folder: Path) -> tuple[Wire, Events]:
    """Make a plain call that reports progress."""
    params = {
        "name": "tick",
        "arguments": {"to": TICKS, "gate": gate(folder)},
        "_meta": {"progressToken": "plain"},
    }
    wire = session.open("tools/call", params)
    assert wire.head()[0] == 200
    return wire, Events(wire)


def is_response(event: Event) -> bool:
    return "result" in event.json or "error" in event.json


def progress(events: list[Event]) -> list[int]:
    return [event.json["params"]["progress"] for event in events if "method" in event.json]


def read_in_pieces(
    session: Session, wire: Wire, events: Events, chance: random.Random
) -> list[Event]:
    """Read all events up to the response over connections that break repeatedly."""
    read: list[Event] = []
    while True:
        for _ in range(chance.randint(0, 4)):
            event = next(events)
            read.append(event)
            if is_response(event):
                wire.close()
                return read
        last = events.last_id or (read[-1].id if read else first_id(wire))
        if chance.random() < 0.5:
            wire.reset()
        else:
            wire.close()
        wire, events = session.listen(last)


@covers("2025-11-25:sse-resumable", "2025-11-25:loss-mitigated-by-resume")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["tasks/result", "plain call"])
def test_a_stream_in_pieces_is_the_whole_stream(
    kind: str, seed: int, server: Server, tmp_path: Path
) -> None:
    session = Session(server)
    if kind == "plain call":
        wire, events = call(session, tmp_path)
    else:
        wire, events = session.result(session.create("tick", to=TICKS, gate=gate(tmp_path)))
    begun(tmp_path)
    ended(tmp_path)
    read = read_in_pieces(session, wire, events, random.Random(seed))
    assert progress(read) == list(range(1, TICKS + 1))
    assert [event for event in read if is_response(event)] == read[-1:]
    assert text_of(read[-1].json["result"]) == f"{TICKS} ticks"
    ids = [event.id for event in read]
    assert len(set(ids)) == len(ids)


@covers("2025-11-25:resume-replays")
def test_missed_events_are_replayed_as_often_as_requested(server: Server, tmp_path: Path) -> None:
    session = Session(server)
    task_id = session.create("tick", to=TICKS, gate=gate(tmp_path))
    wire, events = session.result(task_id)
    begun(tmp_path)
    seen = next(events)
    wire.close()
    ended(tmp_path)
    eventually(lambda: session.status(task_id) == "completed", "the task ends")
    replays = []
    for _ in range(3):
        wire, events = session.listen(seen.id)
        with wire:
            replays.append(list(events))
    assert replays[0] == replays[1] == replays[2]
    assert progress(replays[0]) == list(range(2, TICKS + 1))
    assert is_response(replays[0][-1])


def test_the_get_stream_resumes_where_it_was_cut(server: Server, tmp_path: Path) -> None:
    session = Session(server)
    wire, events = session.listen()
    session.create("tick", to=TICKS, gate=gate(tmp_path))
    begun(tmp_path)
    ended(tmp_path)
    chance, read = random.Random(7), list[Event]()
    while not read or read[-1].json["params"].get("status") != "completed":
        for _ in range(chance.randint(1, 5)):
            read.append(next(events))
            if read[-1].json["params"].get("status") == "completed":
                break
        else:
            wire.close()
            wire, events = session.listen(read[-1].id)
    wire.close()
    ticks = [event for event in read if event.json["method"] == "notifications/progress"]
    assert progress(ticks) == list(range(1, TICKS + 1))


@pytest.mark.slow
@pytest.mark.faults
def test_a_replaced_stream_does_not_affect_its_successor(server: Server, tmp_path: Path) -> None:
    """A few seconds after a stream ended, the server moves its questions: not from this one."""
    session = Session(server)
    first, nothing = session.listen()
    second, events = session.listen()  # ends the first one
    with first:
        assert list(nothing) == []
    session.create("tick", to=65, gate=gate(tmp_path), pause_ms=100)
    begun(tmp_path)
    # A client should not reuse an id, but must not lose anything by it.
    same = {"jsonrpc": "2.0", "id": "same", "method": "tools/call"}
    params = {"name": "hold", "arguments": {"gate": str(tmp_path / "other")}}
    with session.wire() as wire:
        wire.send(_post(session, {**same, "params": params}))
        assert wire.head()[0] == 200
    (tmp_path / "other").touch()
    ping = {"jsonrpc": "2.0", "id": "same", "method": "ping"}

    def pinged() -> bool:  # refused while the first one runs
        with session.wire() as wire:
            wire.send(_post(session, ping))
            return wire.answer().status == 200

    eventually(pinged, "the id is free")
    with second:
        read = list[Event]()
        while progress(read)[-1:] != [65]:
            event = next(events)
            if event.json["method"] == "notifications/progress":
                read.append(event)
    assert progress(read) == list(range(1, 66))


def _post(session: Session, message: dict[str, Any]) -> bytes:
    return session.post_bytes(message, session.headers)


# --- after the server was killed --------------------------------------------------------------


@attrs.frozen
class Cut:
    """A stream that a killed process was writing."""

    folder: Path
    seen: list[Event]
    last_id: str


@attrs.frozen
class Survivors:
    """A session, and its open requests when the server was killed and restarted."""

    session: Session
    blocked: dict[int, Cut]
    """`tasks/result` streams by the number of events that were read."""
    asked: Cut
    plain: Cut


@pytest.fixture(scope="module")
def survivors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivors]:
    place = tmp_path_factory.mktemp("killed")
    with serving(place) as server:
        session = Session(server)
        wires = []

        def cut(name: str, opened: Callable[[Path], tuple[Wire, Events]], count: int) -> Cut:
            folder = place / name
            folder.mkdir()
            wire, events = opened(folder)
            wires.append(wire)
            if not count:
                return Cut(folder, [], first_id(wire))
            begun(folder)
            seen = [next(events) for _ in range(count)]
            return Cut(folder, seen, seen[-1].id)

        def blocked(tool: str, **arguments: Any) -> Callable[[Path], tuple[Wire, Events]]:
            return lambda folder: session.result(
                session.create(tool, gate=gate(folder), **arguments)
            )

        counts = (0, 1, TICKS)
        alive = Survivors(
            session,
            {count: cut(f"seen {count}", blocked("tick", to=TICKS), count) for count in counts},
            cut("asked", blocked("ask"), 1),
            cut("plain", lambda folder: call(session, folder), 3),
        )
        server.kill()
        for wire in wires:
            wire.close()
        server.start()
        yield alive


@pytest.mark.parametrize("count", [0, 1, TICKS])
def test_a_blocked_call_resumes_after_a_restart(count: int, survivors: Survivors) -> None:
    cut = survivors.blocked[count]
    wire, events = survivors.session.listen(cut.last_id)
    begun(cut.folder)
    ended(cut.folder)
    with wire:
        read = list(events)
    assert is_response(read[-1])
    assert text_of(read[-1].json["result"]) == f"{TICKS} ticks"
    assert [event for event in read if is_response(event)] == read[-1:]
    assert not {event.id for event in read} & {event.id for event in cut.seen}
    # The tool ran again, and the client is not sent progress that it has seen.
    assert progress(read) == sorted({*progress(read)} - {*progress(cut.seen)})


def test_a_question_comes_on_the_stream_resumed_after_a_restart(survivors: Survivors) -> None:
    [old] = survivors.asked.seen
    wire, events = survivors.session.listen(survivors.asked.last_id)
    new = next(events)
    assert new.json["method"] == "elicitation/create"
    assert new.json["id"] != old.json["id"]
    survivors.session.reply(old.json, "me")  # under the id that the killed process gave it
    ended(survivors.asked.folder)
    with wire:
        *_, last = events
    assert text_of(last.json["result"]) == "accept me"


def test_a_plain_call_fails_after_a_restart(survivors: Survivors) -> None:
    wire, events = survivors.session.listen(survivors.plain.last_id)
    with wire:
        [event] = events
    assert event.json["error"]["code"] == -32603
    assert "restarted" in event.json["error"]["message"]
    assert survivors.session.ask("ping")["result"] == {}
