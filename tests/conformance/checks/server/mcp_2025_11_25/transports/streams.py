"""Event streams of 2025-11-25."""

from typing import Any

from taskmachine.adapters.conformance.history import MISSING, Entry, Kind
from tests.conformance.checks.cases import (
    BAD,
    GOOD,
    NOTHING,
    Rows,
    bad,
    good,
    mixed,
    note,
    nothing,
    row,
    table,
)
from tests.conformance.histories.wire import Wire, http

RELATED = "io.modelcontextprotocol/related-task"
QUESTION = "elicitation/create"
STATUS = "notifications/tasks/status"


def primed(wire: Wire, event: str, retry: int | None = None) -> Wire:
    """Receive an event without data."""
    wire.receive(event=event, retry=retry)
    last = wire.entries[-1]
    wire.entries[-1] = Entry(
        last.number,
        last.at,
        Kind.EVENT,
        last.caller,
        last.line,
        last.post,
        MISSING,
        None,
        last.http,
    )
    return wire


def waiting(task: str = "t", **how: Any) -> Wire:
    """Open a stream for the result of a task."""
    return http().request("tasks/result", {"taskId": task}, **how).stream()


def listening(wire: Wire | None = None, **headers: str) -> Wire:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return (wire or http()).send(method="GET", headers=named).stream()


def about(task: str) -> dict[str, Any]:
    return {"_meta": {RELATED: {"taskId": task}}}


def awake(wire: Wire) -> Wire:
    """Perform another request after 4 s."""
    return wire.request("ping", after=4_000).answer({}).end()


# --- course --------------------------------------------------------------------------------


# --- which messages -----------------------------------------------------------------------


def created(task: str, token: str) -> Wire:
    params = {"name": "a", "task": {}, "_meta": {"progressToken": token}}
    shown = {"taskId": task, "status": "working"}
    return http().request("tools/call", params).answer({"task": shown}).end()


# --- one message, one stream ---------------------------------------------------------------------


# --- broken connections --------------------------------------------------------------------------


def broken() -> Wire:
    return waiting("t").disconnect()


def shown(wire: Wire, status: str) -> Wire:
    return wire.request("tasks/get", {"taskId": "t"}).answer({"taskId": "t", "status": status})


# --- resuming ------------------------------------------------------------------------------------


def two_broken() -> Wire:
    """Open two streams, receive one event on each, disconnect."""
    wire = primed(waiting("t", id=1), "a0").request("tasks/result", {"taskId": "u"}, id=2)
    return primed(wire.stream(), "b0").disconnect(post=1).disconnect(post=2)


def closed(retry: int | None = None) -> Wire:
    """Receive a GET stream that the server closes."""
    return primed(listening(), "g0", retry).end()


def twice_notified(method: str, one: Any = None, other: Any = None) -> Wire:
    """Receive two notifications on two streams of a session."""
    return listening(waiting()).push(method, one, post=1).push(method, other)


WORKING = {"taskId": "t", "status": "working"}

ROWS: Rows = {
    "sse-session-expiry-ends-stream": [
        good(listening().send(method="DELETE").head(204).end(post=1))
    ],
    "get-stream-server-may-close": [good(closed())],
    "get-stream-retry-before-close": [
        good(listening(closed(50), last_event_id="g0").push(STATUS)),
        nothing(closed()),
        note(listening(closed(), last_event_id="g0").push(STATUS)),
    ],
    "no-broadcast": [
        good(twice_notified(STATUS, WORKING, {"taskId": "t", "status": "completed"})),
        # equal notifications that may be two
        nothing(twice_notified("notifications/tools/list_changed")),
        mixed(twice_notified(STATUS, WORKING, WORKING)),
    ],
    "disconnect-may-happen": [good(shown(broken(), "working")), nothing(broken())],
    "sse-resumable loss-mitigated-by-resume resume-replays sse-event-ids": [
        good(listening(two_broken(), last_event_id="a0").answer({}, id=1))
    ],
    "sse-priming-event": [
        bad(primed(waiting(), "").answer({})),
        good(primed(waiting(), "e0").answer({})),
        nothing(waiting(), http().request("ping").answer({}), listening().push(STATUS)),
        bad(waiting().answer({}, event="e0")),
    ],
    "sse-ends-with-response sse-may-close-connection sse-retry-before-close": [
        good(
            primed(listening(primed(waiting(id=1), "e0", 50).end(), last_event_id="e0"), "e0")
            .answer({}, id=1)
            .end()
        ),
        nothing(
            waiting().disconnect(),
            waiting(),
            waiting(id=1)
            .send(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            )
            .head(202)
            .end(post=1),
            waiting().send(method="DELETE").head(200).end(post=1),
        ),
        row(primed(waiting(id=1), "e0").answer({}).end(), GOOD, NOTHING, NOTHING),
        row(waiting().end(), BAD, NOTHING, NOTHING),
        # the tester did not resume
        nothing(primed(waiting(), "e0").end()),
        row(
            primed(listening(primed(waiting(id=1), "e0").end(), last_event_id="e0"), "e0")
            .answer({}, id=1)
            .end(),
            GOOD,
            GOOD,
            BAD,
        ),
        # retry came on the resumed stream
        row(
            primed(listening(primed(waiting(id=1), "e0").end(), last_event_id="e0"), "e0", 50)
            .answer({}, id=1)
            .end(),
            GOOD,
            GOOD,
            NOTHING,
        ),
        row(
            primed(waiting(), "e0")
            .end()
            .send(method="GET", headers={"last-event-id": "e0"})
            .head(405),
            BAD,
            NOTHING,
            NOTHING,
        ),
    ],
    "sse-terminates-after-response": [
        good(waiting().answer({}).end(after=100)),
        nothing(
            waiting().answer({}).disconnect(after=100),
            waiting().disconnect(after=6_000),
            waiting().answer({}).disconnect(after=6_000),
        ),
        bad(
            awake(waiting().answer({})).end(post=1, after=6_000),
            awake(waiting().answer({})).disconnect(post=1, after=6_000),
            awake(waiting().answer({})).request("ping", after=6_000),
        ),
        # nothing else was received: the tester may have been busy
        good(waiting().answer({}).end(after=6_000)),
    ],
    "sse-messages-related": [
        good(
            waiting("t").push(QUESTION, about("t"), id=1),
            waiting("t").push(STATUS, {"taskId": "t", "status": "working"}),
            created("t", "one")
            .request("tasks/result", {"taskId": "t"})
            .stream()
            .push("notifications/progress", {"progressToken": "one", "progress": 1}),
        ),
        nothing(
            waiting("t").push("notifications/message", {"data": 1}),
            listening().push(STATUS, {"taskId": "u", "status": "working"}),
        ),
        bad(
            waiting("t").push(QUESTION, about("u"), id=1),
            waiting("t").push(STATUS, {"taskId": "u", "status": "working"}),
            created("u", "one")
            .request("tasks/result", {"taskId": "t"})
            .stream()
            .push("notifications/progress", {"progressToken": "one", "progress": 1}),
        ),
    ],
    "get-stream-unrelated": [
        good(listening(waiting()).push(QUESTION, about("t"), id=1, after=900, post=1)),
        nothing(
            listening(waiting()).push(QUESTION, about("u"), id=1, after=900),
            listening(waiting().disconnect()).push(QUESTION, about("t"), id=1, after=900),
            waiting().push(QUESTION, about("t"), id=1),
        ),
        bad(listening(waiting()).push(QUESTION, about("t"), id=1, after=900)),
        # sent before the stream was open
        nothing(listening(waiting()).push(QUESTION, about("t"), id=1, after=100)),
    ],
    "get-stream-no-responses": [
        good(listening().push(STATUS)),
        nothing(
            listening(primed(waiting(id=1), "e0").disconnect(), last_event_id="e0").answer(
                {}, id=1
            ),
            listening(last_event_id="unknown").answer({}, id=1),
        ),
        bad(
            listening(http().request("ping", id=1)).answer({}, id=1),
            listening(primed(listening(), "g0").disconnect(), last_event_id="g0").answer({}, id=1),
        ),
    ],
    "message-on-one-stream": [
        good(
            listening(waiting()).push(QUESTION, id="q", post=1),
            listening(waiting()).push(QUESTION, id="q", post=1).push(QUESTION, id="r"),
        ),
        nothing(waiting().push(QUESTION, id="q")),
        mixed(listening(waiting()).push(QUESTION, id="q", post=1).push(QUESTION, id="q")),
        # repeated on the resumed stream
        nothing(
            listening(
                primed(waiting(id=1), "e0").push(QUESTION, id="q", event="e1").disconnect(),
                last_event_id="e0",
            ).push(QUESTION, id="q", event="e1")
        ),
        # another session
        nothing(listening(waiting().push(QUESTION, id="q").on(2)).push(QUESTION, id="q")),
    ],
    "disconnect-is-not-cancel": [
        good(shown(broken(), "working"), shown(broken(), "completed")),
        nothing(
            shown(
                broken()
                .request("tasks/cancel", {"taskId": "t"})
                .answer({"taskId": "t", "status": "cancelled"}),
                "cancelled",
            ),
            shown(waiting("t").answer({}), "cancelled"),
            shown(waiting("t").push(QUESTION, about("t"), id=1).disconnect(), "cancelled"),
        ),
        bad(shown(broken(), "cancelled")),
    ],
    "sse-event-ids-unique": [
        good(
            waiting().answer({}, event="a").request("ping").stream().answer({}, event="b"),
            listening(waiting().push(STATUS, event="a").disconnect(), last_event_id="z").push(
                STATUS, event="a"
            ),
            waiting().answer({}, event="a").on(2).request("ping").stream().answer({}, event="a"),
        ),
        nothing(waiting().answer({})),
        mixed(
            waiting().answer({}, event="a").request("ping").stream().answer({}, event="a"),
            waiting().push(STATUS, event="a").answer({}, event="a"),
            listening(waiting().push(STATUS, event="a").disconnect(), last_event_id="z").push(
                QUESTION, id=1, event="a"
            ),
        ),
    ],
    "sse-event-ids-name-stream resume-no-other-stream": [
        good(
            listening(two_broken(), last_event_id="a0").answer({}, id=1),
            listening(two_broken(), last_event_id="b0").answer({}, id=2),
        ),
        nothing(two_broken().send(method="GET", headers={"last-event-id": "a0"}).head(405)),
        bad(
            listening(two_broken(), last_event_id="a0").answer({}, id=2),
            listening(
                waiting("t", id=1)
                .push(QUESTION, id="q", event="a1")
                .request("tasks/result", {"taskId": "u"}, id=2)
                .stream()
                .push(STATUS, event="b1")
                .disconnect(post=1)
                .disconnect(post=2),
                last_event_id="b1",
            ).push(QUESTION, id="q"),
        ),
        # a new stream instead
        nothing(listening(two_broken(), last_event_id="a0").push(STATUS, {"taskId": "v"})),
        # resumed twice
        good(
            listening(
                primed(listening(two_broken(), last_event_id="a0"), "a1").disconnect(),
                last_event_id="a1",
            ).answer({}, id=1)
        ),
    ],
}

CASES = table("2025-11-25", ROWS)
