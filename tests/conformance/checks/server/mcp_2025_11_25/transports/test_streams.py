"""The checks of streams of 2025-11-25, against histories written by hand."""

from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.history import MISSING, Entry, Kind
from taskmachine.adapters.conformance.judging import CHECKS
from tests.conformance.histories.wire import Wire, web

load_checks()

RELATED = "io.modelcontextprotocol/related-task"
QUESTION = "elicitation/create"
STATUS = "notifications/tasks/status"


def outcomes(name: str, wire: Wire) -> set[str]:
    return {seen.outcome for seen in CHECKS[f"2025-11-25:{name}"].observe(wire.history)}


def primed(wire: Wire, event: str, retry: int | None = None) -> Wire:
    """An event without data."""
    wire.says(event=event, retry=retry)
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
    """A stream for the result of a task."""
    return web().request("tasks/result", {"taskId": task}, **how).stream()


def listening(wire: Wire | None = None, **headers: str) -> Wire:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return (wire or web()).sent(method="GET", headers=named).stream()


def about(task: str) -> dict[str, Any]:
    return {"_meta": {RELATED: {"taskId": task}}}


def awake(wire: Wire) -> Wire:
    """Something else is heard after 4 s."""
    return wire.request("ping", after=4_000).answer({}).ends()


# --- their course --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (primed(waiting(), "e0").answer({}), {"good"}),
        (waiting().answer({}, event="e0"), {"bad"}),
        (waiting(), set()),
        (web().request("ping").answer({}), set()),
        (listening().tells(STATUS), set()),
    ],
)
def test_a_stream_is_primed(wire: Wire, expected: set[str]) -> None:
    assert outcomes("sse-priming-event", wire) == expected


def test_a_priming_event_needs_an_id() -> None:
    wire = primed(waiting(), "").answer({})
    assert outcomes("sse-priming-event", wire) == {"bad"}


@pytest.mark.parametrize(
    ("wire", "response", "resumed", "retry"),
    [
        (primed(waiting(id=1), "e0").answer({}).ends(), {"good"}, set(), set()),
        (waiting().ends(), {"bad"}, set(), set()),
        (waiting().leaves(), set(), set(), set()),
        (waiting(), set(), set(), set()),
        # Nobody came back for the rest.
        (primed(waiting(), "e0").ends(), set(), set(), set()),
        (
            primed(listening(primed(waiting(id=1), "e0", 50).ends(), last_event_id="e0"), "e0")
            .answer({}, id=1).ends(),
            {"good"}, {"good"}, {"good"},
        ),
        (
            primed(listening(primed(waiting(id=1), "e0").ends(), last_event_id="e0"), "e0")
            .answer({}, id=1).ends(),
            {"good"}, {"good"}, {"bad"},
        ),
        (
            # It came behind the last event: who resumes has heard it.
            primed(listening(primed(waiting(id=1), "e0").ends(), last_event_id="e0"), "e0", 50)
            .answer({}, id=1).ends(),
            {"good"}, {"good"}, set(),
        ),
        (
            primed(waiting(), "e0").ends().sent(method="GET", headers={"last-event-id": "e0"})
            .head(405),
            {"bad"}, set(), set(),
        ),
        (
            waiting(id=1).sent({"jsonrpc": "2.0", "method": "notifications/cancelled",
                                "params": {"requestId": 1}}).head(202).ends(post=1),
            set(), set(), set(),
        ),
        (waiting().sent(method="DELETE").head(200).ends(post=1), set(), set(), set()),
    ],
)  # fmt: skip
def test_a_stream_brings_the_response(
    wire: Wire, response: set[str], resumed: set[str], retry: set[str]
) -> None:
    assert outcomes("sse-ends-with-response", wire) == response
    assert outcomes("sse-may-close-connection", wire) == resumed
    assert outcomes("sse-retry-before-close", wire) == retry


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (waiting().answer({}).ends(after=100), {"good"}),
        (awake(waiting().answer({})).ends(post=1, after=6_000), {"bad"}),
        (awake(waiting().answer({})).leaves(post=1, after=6_000), {"bad"}),
        (waiting().answer({}).leaves(after=100), set()),
        (awake(waiting().answer({})).request("ping", after=6_000), {"bad"}),
        (waiting().leaves(after=6_000), set()),
        # Nothing else was heard: perhaps nobody listened.
        (waiting().answer({}).ends(after=6_000), {"good"}),
        (waiting().answer({}).leaves(after=6_000), set()),
    ],
)
def test_a_stream_ends_after_the_response(wire: Wire, expected: set[str]) -> None:
    assert outcomes("sse-terminates-after-response", wire) == expected


def test_a_stream_may_end_with_its_session() -> None:
    wire = listening().sent(method="DELETE").head(204).ends(post=1)
    assert outcomes("sse-session-expiry-ends-stream", wire) == {"good"}


# --- what is said on which -----------------------------------------------------------------------


def created(task: str, token: str) -> Wire:
    params = {"name": "a", "task": {}, "_meta": {"progressToken": token}}
    shown = {"taskId": task, "status": "working"}
    return web().request("tools/call", params).answer({"task": shown}).ends()


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (waiting("t").tells(QUESTION, about("t"), id=1), {"good"}),
        (waiting("t").tells(QUESTION, about("u"), id=1), {"bad"}),
        (waiting("t").tells(STATUS, {"taskId": "t", "status": "working"}), {"good"}),
        (waiting("t").tells(STATUS, {"taskId": "u", "status": "working"}), {"bad"}),
        (waiting("t").tells("notifications/message", {"data": 1}), set()),
        (
            created("t", "one").request("tasks/result", {"taskId": "t"}).stream()
            .tells("notifications/progress", {"progressToken": "one", "progress": 1}),
            {"good"},
        ),
        (
            created("u", "one").request("tasks/result", {"taskId": "t"}).stream()
            .tells("notifications/progress", {"progressToken": "one", "progress": 1}),
            {"bad"},
        ),
        (listening().tells(STATUS, {"taskId": "u", "status": "working"}), set()),
    ],
)  # fmt: skip
def test_messages_belong_to_the_request(wire: Wire, expected: set[str]) -> None:
    assert outcomes("sse-messages-related", wire) == expected


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (listening(waiting()).tells(QUESTION, about("t"), id=1, after=900), {"bad"}),
        # It may have been under way before the stream was there.
        (listening(waiting()).tells(QUESTION, about("t"), id=1, after=100), set()),
        (listening(waiting()).tells(QUESTION, about("u"), id=1, after=900), set()),
        (listening(waiting().leaves()).tells(QUESTION, about("t"), id=1, after=900), set()),
        (listening(waiting()).tells(QUESTION, about("t"), id=1, after=900, post=1), {"good"}),
        (waiting().tells(QUESTION, about("t"), id=1), set()),
    ],
)
def test_a_question_comes_on_the_stream_of_its_task(wire: Wire, expected: set[str]) -> None:
    assert outcomes("get-stream-unrelated", wire) == expected


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (listening().tells(STATUS), {"good"}),
        (listening(web().request("ping", id=1)).answer({}, id=1), {"bad"}),
        (
            listening(primed(waiting(id=1), "e0").leaves(), last_event_id="e0").answer({}, id=1),
            set(),
        ),
        (
            listening(primed(listening(), "g0").leaves(), last_event_id="g0").answer({}, id=1),
            {"bad"},
        ),
        (listening(last_event_id="unknown").answer({}, id=1), set()),
    ],
)
def test_no_responses_by_get(wire: Wire, expected: set[str]) -> None:
    assert outcomes("get-stream-no-responses", wire) == expected


def test_a_get_stream_that_goes_on_should_have_said_retry() -> None:
    closed = primed(listening(), "g0").ends()
    assert outcomes("get-stream-server-may-close", closed) == {"good"}
    assert outcomes("get-stream-retry-before-close", closed) == set()
    resumed = listening(closed, last_event_id="g0").tells(STATUS)
    assert outcomes("get-stream-retry-before-close", resumed) == {"note"}
    polite = listening(primed(listening(), "g0", 50).ends(), last_event_id="g0").tells(STATUS)
    assert outcomes("get-stream-retry-before-close", polite) == {"good"}


# --- one message, one stream ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (listening(waiting()).tells(QUESTION, id="q", post=1), {"good"}),
        (listening(waiting()).tells(QUESTION, id="q", post=1).tells(QUESTION, id="q"),
         {"good", "bad"}),
        (listening(waiting()).tells(QUESTION, id="q", post=1).tells(QUESTION, id="r"), {"good"}),
        (waiting().tells(QUESTION, id="q"), set()),
        # What is told again after a break.
        (
            listening(primed(waiting(id=1), "e0").tells(QUESTION, id="q", event="e1").leaves(),
                      last_event_id="e0").tells(QUESTION, id="q", event="e1"),
            set(),
        ),
        # Another session.
        (
            listening(waiting().tells(QUESTION, id="q").on(2)).tells(QUESTION, id="q"), set(),
        ),
    ],
)  # fmt: skip
def test_a_question_comes_once(wire: Wire, expected: set[str]) -> None:
    assert outcomes("message-on-one-stream", wire) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"taskId": "t", "status": "working"}, {"taskId": "t", "status": "completed"}, {"good"}),
        ({"taskId": "t", "status": "working"}, {"taskId": "t", "status": "working"},
         {"good", "bad"}),
    ],
)  # fmt: skip
def test_a_notification_comes_once(one: Any, other: Any, expected: set[str]) -> None:
    wire = listening(waiting()).tells(STATUS, one, post=1).tells(STATUS, other)
    assert outcomes("no-broadcast", wire) == expected


def test_the_same_words_twice_are_not_always_the_same_message() -> None:
    wire = listening(waiting()).tells("notifications/tools/list_changed", post=1)
    assert outcomes("no-broadcast", wire.tells("notifications/tools/list_changed")) == set()


# --- broken connections --------------------------------------------------------------------------


def broken() -> Wire:
    return waiting("t").leaves()


def shown(wire: Wire, status: str) -> Wire:
    return wire.request("tasks/get", {"taskId": "t"}).answer({"taskId": "t", "status": status})


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (shown(broken(), "working"), {"good"}),
        (shown(broken(), "completed"), {"good"}),
        (shown(broken(), "cancelled"), {"bad"}),
        (
            shown(broken().request("tasks/cancel", {"taskId": "t"})
                  .answer({"taskId": "t", "status": "cancelled"}), "cancelled"),
            set(),
        ),
        (shown(waiting("t").answer({}), "cancelled"), set()),
        (shown(waiting("t").tells(QUESTION, about("t"), id=1).leaves(), "cancelled"), set()),
    ],
)  # fmt: skip
def test_a_disconnect_cancels_nothing(wire: Wire, expected: set[str]) -> None:
    assert outcomes("disconnect-is-not-cancel", wire) == expected


def test_a_disconnect_may_happen() -> None:
    assert outcomes("disconnect-may-happen", shown(broken(), "working")) == {"good"}
    assert outcomes("disconnect-may-happen", broken()) == set()


# --- resuming ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (waiting().answer({}, event="a").request("ping").stream().answer({}, event="b"), {"good"}),
        (
            waiting().answer({}, event="a").request("ping").stream().answer({}, event="a"),
            {"good", "bad"},
        ),
        (waiting().tells(STATUS, event="a").answer({}, event="a"), {"good", "bad"}),
        (
            listening(waiting().tells(STATUS, event="a").leaves(), last_event_id="z")
            .tells(STATUS, event="a"),
            {"good"},
        ),
        (
            listening(waiting().tells(STATUS, event="a").leaves(), last_event_id="z")
            .tells(QUESTION, id=1, event="a"),
            {"good", "bad"},
        ),
        (waiting().answer({}, event="a").on(2).request("ping").stream().answer({}, event="a"),
         {"good"}),
        (waiting().answer({}), set()),
    ],
)  # fmt: skip
def test_event_ids_are_unique(wire: Wire, expected: set[str]) -> None:
    assert outcomes("sse-event-ids-unique", wire) == expected


def two_broken() -> Wire:
    """Two streams with one event each."""
    wire = primed(waiting("t", id=1), "a0").request("tasks/result", {"taskId": "u"}, id=2)
    return primed(wire.stream(), "b0").leaves(post=1).leaves(post=2)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (listening(two_broken(), last_event_id="a0").answer({}, id=1), {"good"}),
        (listening(two_broken(), last_event_id="b0").answer({}, id=2), {"good"}),
        (listening(two_broken(), last_event_id="a0").answer({}, id=2), {"bad"}),
        # A fresh stream instead.
        (listening(two_broken(), last_event_id="a0").tells(STATUS, {"taskId": "v"}), set()),
        (two_broken().sent(method="GET", headers={"last-event-id": "a0"}).head(405), set()),
        # Resumed twice.
        (
            listening(
                primed(listening(two_broken(), last_event_id="a0"), "a1").leaves(),
                last_event_id="a1",
            ).answer({}, id=1),
            {"good"},
        ),
        (
            listening(
                waiting("t", id=1).tells(QUESTION, id="q", event="a1")
                .request("tasks/result", {"taskId": "u"}, id=2).stream().tells(STATUS, event="b1")
                .leaves(post=1).leaves(post=2),
                last_event_id="b1",
            ).tells(QUESTION, id="q"),
            {"bad"},
        ),
    ],
)  # fmt: skip
def test_the_stream_of_the_event_is_resumed(wire: Wire, expected: set[str]) -> None:
    assert outcomes("sse-event-ids-name-stream", wire) == expected
    assert outcomes("resume-no-other-stream", wire) == expected


def test_what_is_resumable_is_seen() -> None:
    wire = listening(two_broken(), last_event_id="a0").answer({}, id=1)
    for name in ("sse-resumable", "loss-mitigated-by-resume", "resume-replays", "sse-event-ids"):
        assert outcomes(name, wire) == {"good"}
