"""A client that disconnects at any point loses nothing, and the server frees its resources."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.requirements import covers
from tests.wire_faults.clients import Modern, Session, text_of
from tests.wire_faults.server_process import Server, eventually
from tests.wire_faults.wire import BOTH, Events, Wire, first_id, request_bytes

# Limits so low that a place that is not freed is noticed at once.
SETTINGS: Final = {
    "transport": {"waiters_per_task": 3, "keep_alive_s": 0.2},
    "limits": {"blocked_calls": 3, "subscriptions": 3},
}

TIMES: Final = 6


def disconnect(server: Server, wire: Wire, number: int = 0) -> None:
    """Close or reset the connection and wait until the server has noticed."""
    _, port = wire.socket.getsockname()
    eventually(lambda: port in server.clients(), "the connection was accepted")
    if number % 2:
        wire.reset()
    else:
        wire.close()
    eventually(lambda: port not in server.clients(), "the server noticed")


def gate(folder: Path) -> str:
    return str(folder / "gate")


def open_gate(gate: str) -> None:
    Path(gate).touch()


def messages(events: Events) -> list[dict[str, Any]]:
    """Read a stream to its end."""
    return [event.json for event in events]


# --- a call that waits for the end of a task --------------------------------------------------


@covers(
    "2025-11-25:disconnect-may-happen",
    "2025-11-25:disconnect-is-not-cancel",
    "2025-11-25:result-stream-disconnect",
)
def test_leaving_before_the_headers_costs_nothing(server: Server, tmp_path: Path) -> None:
    session = Session(server)
    task_id = session.create("hold", gate=gate(tmp_path))
    for number in range(TIMES):
        disconnect(server, session.open("tasks/result", {"taskId": task_id}), number)

    def waiting() -> Wire | None:
        wire = session.open("tasks/result", {"taskId": task_id})
        _, headers = wire.head()
        if headers["content-type"] == "text/event-stream":
            return wire
        wire.close()  # all places are still taken
        return None

    wire = eventually(waiting, "there is a place to wait again")
    open_gate(gate(tmp_path))
    with wire:
        [response] = messages(Events(wire))
    assert text_of(response["result"]) == "opened gate"
    assert not Path(f"{gate(tmp_path)}.stopped").exists()


def test_a_client_that_reconnects_at_once_is_asked_at_once(server: Server, tmp_path: Path) -> None:
    session = Session(server)
    task_id = session.create("ask", gate=gate(tmp_path), waits=True)
    disconnect(server, session.open("tasks/result", {"taskId": task_id}))
    wire, events = session.result(task_id)
    open_gate(f"{gate(tmp_path)}.start")
    began = time.monotonic()
    with wire:
        assert next(events).json["method"] == "elicitation/create"
    assert time.monotonic() - began < 3, "without waiting for a reconnection to the first stream"


def test_leaving_after_the_first_event_costs_nothing(server: Server, tmp_path: Path) -> None:
    session = Session(server)
    task_id = session.create("tick", gate=gate(tmp_path), to=200)
    open_gate(f"{gate(tmp_path)}.start")
    seen = []
    for number in range(TIMES):
        wire, events = session.result(task_id)
        seen.append(next(events).json["params"]["progress"])
        disconnect(server, wire, number)
    assert seen == sorted(set(seen)), "progress only grows"
    open_gate(gate(tmp_path))
    wire, events = session.result(task_id)
    with wire:
        *_, last = messages(events)
    assert text_of(last["result"]) == "200 ticks"


def test_an_unread_question_is_asked_again_once(server: Server, tmp_path: Path) -> None:
    session = Session(server)
    task_id = session.create("ask", gate=gate(tmp_path))
    ids = set()
    for number in range(TIMES):
        wire = session.open("tasks/result", {"taskId": task_id})
        wire.socket.recv(1)  # the question is sent but not read
        disconnect(server, wire, number)
        wire, events = session.result(task_id)
        question = next(events).json
        assert question["method"] == "elicitation/create"
        assert question["id"] not in ids, "under a new id each time"
        ids.add(question["id"])
        disconnect(server, wire, number + 1)
    wire, events = session.result(task_id)
    question = next(events).json
    assert question["id"] not in ids
    session.reply(question, "me")
    open_gate(gate(tmp_path))
    with wire:
        [*others, last] = messages(events)
    assert not [other for other in others if other.get("method") == "elicitation/create"]
    assert text_of(last["result"]) == "accept me"


def test_an_answer_under_the_old_id_counts(server: Server, tmp_path: Path) -> None:
    session = Session(server)
    task_id = session.create("ask", gate=gate(tmp_path))
    wire, events = session.result(task_id)
    first = next(events).json
    disconnect(server, wire)
    wire, events = session.result(task_id)
    second = next(events).json
    assert second["params"] == first["params"]
    assert second["id"] != first["id"]
    session.reply(first, "early")
    open_gate(gate(tmp_path))
    with wire:
        *others, last = messages(events)
    taken_back = [o for o in others if o["method"] == "notifications/cancelled"]
    assert [one["params"]["requestId"] for one in taken_back] == [second["id"]]
    assert text_of(last["result"]) == "accept early"
    session.reply(second, "late")  # which changes nothing
    assert text_of(session.ask("tasks/result", {"taskId": task_id})["result"]) == "accept early"


def test_an_answer_without_a_waiting_request_counts(server: Server, tmp_path: Path) -> None:
    session = Session(server)
    task_id = session.create("ask", gate=gate(tmp_path))
    wire, events = session.result(task_id)
    question = next(events).json
    disconnect(server, wire)
    session.reply(question, "me")
    open_gate(gate(tmp_path))
    eventually(lambda: session.status(task_id) == "completed", "the answer was taken")
    assert text_of(session.ask("tasks/result", {"taskId": task_id})["result"]) == "accept me"


# --- streams ---------------------------------------------------------------------------------


def _general(server: Server, session: Session, modern: Modern, task_id: str) -> Wire:
    return session.listen()[0]


def _subscription(server: Server, session: Session, modern: Modern, task_id: str) -> Wire:
    wire = modern.open("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
    assert wire.head()[0] == 200
    return wire


def _events(server: Server, session: Session, modern: Modern, task_id: str) -> Wire:
    wire = modern.wire()
    wire.send(modern.get_bytes(f"/tasks/{task_id}/events"))
    assert wire.head()[0] == 200
    return wire


def _poll(server: Server, session: Session, modern: Modern, task_id: str) -> Wire:
    tag = modern.get(f"/tasks/{task_id}").headers["etag"]
    wire = modern.wire()
    wire.send(modern.get_bytes(f"/tasks/{task_id}/poll?timeout=60000", {"If-None-Match": tag}))
    return wire


@covers("2025-11-25:get-stream-client-may-close", "2026-07-28:listen-ended-by-client")
@pytest.mark.parametrize("open_stream", [_general, _subscription, _events, _poll])
def test_closed_streams_take_no_place(
    open_stream: Callable[[Server, Session, Modern, str], Wire], server: Server, tmp_path: Path
) -> None:
    session, modern = Session(server), Modern(server)
    task_id = modern.create("hold", gate=gate(tmp_path))
    eventually(lambda: Path(f"{gate(tmp_path)}.runs").exists(), "the tool runs")
    before = server.quiet_descriptors()
    for number in range(TIMES):
        disconnect(server, open_stream(server, session, modern, task_id), number)
    assert server.quiet_descriptors() <= before
    # The limit is three of a kind: this one fails if an earlier one still counts.
    stays = open_stream(server, session, modern, task_id)
    open_gate(gate(tmp_path))
    with stays:
        eventually(lambda: modern.get_task(task_id)["status"] == "completed", "the task continues")
        if open_stream is _poll:
            answer = stays.answer()
            assert (answer.status, answer.json["status"]) == (200, "completed")
    assert not Path(f"{gate(tmp_path)}.stopped").exists()


def test_a_client_that_disconnects_with_pipelined_requests_takes_no_place(
    server: Server, tmp_path: Path
) -> None:
    session, modern = Session(server), Modern(server)
    task_id = modern.create("hold", gate=gate(tmp_path))
    for number in range(TIMES):
        wire = _poll(server, session, modern, task_id)
        wire.send(2 * modern.get_bytes("/healthz"))
        disconnect(server, wire, number)
    with _poll(server, session, modern, task_id) as stays:
        stays.send(modern.get_bytes("/healthz"))
        open_gate(gate(tmp_path))
        assert stays.answer().json["status"] == "completed", "a place was left"
        assert stays.answer().json == {"status": "ok"}


# --- requests that are cut off ----------------------------------------------------------------


def _create_bytes(session: Session, folder: Path, *, announced: int = 0) -> tuple[bytes, bytes]:
    params = {"name": "hold", "arguments": {"gate": gate(folder)}, "task": {}}
    message = {"jsonrpc": "2.0", "id": "cut", "method": "tools/call", "params": params}
    body = json.dumps(message).encode()
    headers = {"Content-Type": "application/json", "Accept": BOTH, **session.headers}
    if announced:
        headers["Content-Length"] = str(len(body) + announced)
    else:
        headers["Transfer-Encoding"] = "chunked"
        body = b"%x\r\n%s\r\n" % (len(body), body)
    return request_bytes("POST", "/mcp", headers), body


@pytest.mark.parametrize(
    "cut", ["in the header", "in the body", "after all but one byte", "in chunks"]
)
def test_half_a_request_does_nothing(cut: str, server: Server, tmp_path: Path) -> None:
    session = Session(server)
    before = server.quiet_descriptors()
    for number in range(TIMES):
        head, body = _create_bytes(session, tmp_path, announced=0 if cut == "in chunks" else 1)
        sent = {
            "in the header": head[: 7 * number + 1],
            "in the body": head + body[: len(body) // 2],
            "after all but one byte": head + body,
            "in chunks": head + body,  # without the last one
        }[cut]
        wire = session.wire()
        wire.send(sent)
        disconnect(server, wire, number)
    assert server.quiet_descriptors() <= before
    assert session.ask("tasks/list")["result"]["tasks"] == []
    assert not Path(f"{gate(tmp_path)}.runs").exists()


# --- plain calls -----------------------------------------------------------------------------


@covers("2026-07-28:http-disconnect-is-cancel", "2026-07-28:http-cancelled-work-stops")
@pytest.mark.parametrize("point", ["before the headers", "in the stream"])
def test_leaving_cancels_a_plain_call_of_2026(point: str, server: Server, tmp_path: Path) -> None:
    modern = Modern(server, tasks=False)
    params = {"name": "hold", "arguments": {"gate": gate(tmp_path)}}
    wire = modern.open("tools/call", params)
    eventually(lambda: Path(f"{gate(tmp_path)}.runs").exists(), "the tool runs")
    if point == "in the stream":
        assert wire.head()[0] == 200
    disconnect(server, wire)
    eventually(lambda: Path(f"{gate(tmp_path)}.stopped").exists(), "the tool was stopped")


@covers("2025-11-25:disconnect-is-not-cancel")
def test_leaving_does_not_cancel_a_plain_call_of_2025(server: Server, tmp_path: Path) -> None:
    session = Session(server)
    wire = session.open("tools/call", {"name": "hold", "arguments": {"gate": gate(tmp_path)}})
    assert wire.head()[0] == 200
    last_id = first_id(wire)
    disconnect(server, wire)
    open_gate(gate(tmp_path))
    wire, events = session.listen(last_id)
    with wire:
        [response] = messages(events)
    assert text_of(response["result"]) == "opened gate"
    assert Path(f"{gate(tmp_path)}.runs").read_text() == "run\n"
    assert not Path(f"{gate(tmp_path)}.stopped").exists()
