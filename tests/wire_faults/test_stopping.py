"""Waiting clients are notified of a shutdown and do not delay it."""

import time
from pathlib import Path

from tests.wire_faults.clients import Modern, Session
from tests.wire_faults.server_process import eventually, serving
from tests.wire_faults.wire import Events


def test_waiting_clients_do_not_delay_a_shutdown(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        modern, session = Modern(server), Session(server)
        task_id, other_id = modern.create("park"), session.create("park")
        eventually(lambda: modern.get_task(task_id)["status"] == "input_required", "it is parked")
        eventually(lambda: session.status(other_id) == "input_required", "it is parked")
        tag = modern.get(f"/tasks/{task_id}").headers["etag"]
        poll = modern.wire(modern.get_bytes(f"/tasks/{task_id}/poll", {"If-None-Match": tag}))
        events = modern.wire(modern.get_bytes(f"/tasks/{task_id}/events"))
        watch = modern.open("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
        general, general_events = session.listen()
        blocked, blocked_events = session.result(other_id)
        with poll, events, watch, general, blocked:
            for stream in (events, watch):
                assert stream.head()[0] == 200
                next(stream.chunks())
            began = time.monotonic()
            assert server.stop() == 0, server.log[-5:]
            assert time.monotonic() - began < 4
            assert not server.tracebacks(), server.tracebacks()[0]
            answer = poll.answer()
            assert (answer.status, answer.json["error"]["code"]) == (503, -32603)
            # Each stream ends properly; only 2026-07-28 has a message for it.
            list(Events(events))
            *_, farewell = Events(watch)
            assert farewell.json["result"]["resultType"] == "complete"
            list(general_events)
            assert not [event for event in blocked_events if "result" in event.json]
        server.start()
        assert session.status(other_id) == "input_required"
