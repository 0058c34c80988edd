"""The rules about `notifications/cancelled`, against histories written by hand."""

from typing import Any, Literal

import pytest

from tests.conformance.histories.judged import judged
from tests.conformance.histories.told import a_task
from tests.conformance.histories.wire import Wire, pipe, web

OLD: Literal["2025-11-25"] = "2025-11-25"
NEW: Literal["2026-07-28"] = "2026-07-28"
BOTH: list[Literal["2025-11-25", "2026-07-28"]] = [OLD, NEW]
CANCELLED = "notifications/cancelled"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
CALL = {"name": "tool", "arguments": {}, "_meta": {"progressToken": "t"}}


def ping(tale: Wire) -> Wire:
    """Something that is answered."""
    return tale.request("ping").answer({})


def cancel(tale: Wire, id: Any) -> Wire:
    """We cancel."""
    return tale.notify(CANCELLED, {"requestId": id})


def reply(tale: Wire, id: Any) -> Wire:
    """We answer a question."""
    return tale.sent({"jsonrpc": "2.0", "id": id, "result": {"action": "cancel"}})


# --- the target cancels ----------------------------------------------------------------------


def asked(tale: Wire) -> Wire:
    """The target asks."""
    return tale.tells("elicitation/create", {"message": "?"}, id="q")


def test_a_target_cancels_its_own_requests() -> None:
    tale = asked(pipe()).tells(CANCELLED, {"requestId": "q"})
    assert judged(f"{OLD}:cancelled-same-direction", tale) == {"good"}
    assert judged(f"{OLD}:cancelled-same-direction", pipe().tells(CANCELLED, {})) == set()
    ours = pipe().request("ping", id="q").tells(CANCELLED, {"requestId": "q"})
    assert judged(f"{OLD}:cancelled-same-direction", ours) == {"bad"}


def test_the_request_may_have_been_on_a_stream_that_was_left() -> None:
    tale = web().request("tasks/result", {"taskId": "a"}).leaves()
    tale.sent(method="GET").tells(CANCELLED, {"requestId": "q"})
    assert judged(f"{OLD}:cancelled-same-direction", tale) == set()


def test_a_target_cancels_what_is_open() -> None:
    name = f"{OLD}:cancelled-still-running"
    assert judged(name, asked(pipe()).tells(CANCELLED, {"requestId": "q"})) == {"good"}
    crossing = reply(asked(pipe()), "q").tells(CANCELLED, {"requestId": "q"})
    assert judged(name, crossing) == set()
    assert judged(name, ping(reply(asked(pipe()), "q")).tells(CANCELLED, {"requestId": "q"})) == {
        "bad"
    }


def test_over_http_a_later_stream_shows_it() -> None:
    tale = reply(asked(web().request("tasks/result", {"taskId": "a"})), "q").head(202)
    name = f"{OLD}:cancelled-still-running"
    tale.tells(CANCELLED, {"requestId": "q"}, post=1)
    assert judged(name, tale) == set()
    assert judged(name, tale.request("ping").tells(CANCELLED, {"requestId": "q"})) == {"bad"}


def test_late_answers_are_ignored() -> None:
    name = f"{OLD}:late-response-ignored"
    tale = reply(asked(pipe()).tells(CANCELLED, {"requestId": "q"}), "q")
    assert judged(name, ping(tale)) == {"good"}
    tale = reply(asked(pipe()).tells(CANCELLED, {"requestId": "q"}), "q")
    assert judged(name, tale.exits()) == {"bad"}
    assert judged(name, ping(reply(asked(pipe()), "q"))) == set()


def listening() -> Wire:
    """A subscription."""
    return pipe(NEW).request("subscriptions/listen", {}, id="s")


def test_a_server_cancels_nothing_but_subscriptions() -> None:
    for name in ("server-cancelled-only-for-listen", "server-cancelled-names-listen"):
        call = pipe(NEW).request("tools/call", CALL, id=1).tells(CANCELLED, {"requestId": 1})
        assert judged(f"{NEW}:{name}", call) == {"bad"}
    over = pipe(NEW).request("tasks/get", {"taskId": "a"})
    over.answer({"taskId": "a", "status": "cancelled"})
    assert judged(f"{NEW}:server-cancelled-only-for-listen", over) == {"good"}
    ended = listening().tells(CANCELLED, {"requestId": "s"})
    assert judged(f"{NEW}:server-cancelled-only-for-listen", ended) == set()
    assert judged(f"{NEW}:server-cancelled-names-listen", ended) == {"good"}
    ended.tells("notifications/tasks", {"_meta": {SUBSCRIPTION: "s"}})
    assert judged(f"{NEW}:server-cancelled-names-listen", ended) == {"bad"}


def test_the_end_of_a_subscription_is_announced() -> None:
    name = f"{NEW}:listen-teardown-cancelled"
    assert judged(name, listening().answer({}, id="s")) == {"note"}
    told = listening().tells(CANCELLED, {"requestId": "s"}).answer({}, id="s")
    assert judged(name, told) == {"good"}
    assert judged(name, cancel(listening(), "s").answer({}, id="s")) == set()


# --- we cancel -------------------------------------------------------------------------------


def task() -> Wire:
    """A call that became a task."""
    return pipe().request("tools/call", {**CALL, "task": {}}, id=1).answer({"task": a_task()})


def get(tale: Wire, status: str) -> Wire:
    """`tasks/get` shows that status."""
    return tale.request("tasks/get", {"taskId": "task-a"}).answer(a_task(status=status))


def test_cancelling_the_call_keeps_the_task() -> None:
    name = f"{OLD}:cancelled-notification-keeps-task"
    assert judged(name, get(cancel(task(), 1), "completed")) == {"good"}
    assert judged(name, get(cancel(task(), 1), "cancelled")) == {"bad"}
    rightly = cancel(task(), 1).request("tasks/cancel", {"taskId": "task-a"})
    assert judged(name, get(rightly.answer(a_task(status="cancelled")), "cancelled")) == set()


def at_work(revision: Literal["2025-11-25", "2026-07-28"]) -> Wire:
    """A call that reports, and is cancelled."""
    tale = pipe(revision).request("tools/call", CALL, id=1)
    tale.tells("notifications/progress", {"progressToken": "t", "progress": 1})
    return ping(cancel(tale, 1))


@pytest.mark.parametrize("revision", BOTH)
def test_cancelled_calls_stop_soon(revision: Literal["2025-11-25", "2026-07-28"]) -> None:
    name = f"{revision}:cancelled-request-stopped"
    more = {"progressToken": "t", "progress": 2}
    assert judged(name, at_work(revision)) == {"good"}
    assert judged(name, at_work(revision).tells("notifications/progress", more)) == set()
    late = at_work(revision).tells("notifications/progress", more, after=5_100)
    assert judged(name, late) == {"bad"}


@pytest.mark.parametrize("revision", BOTH)
def test_cancelled_calls_are_not_answered(revision: Literal["2025-11-25", "2026-07-28"]) -> None:
    name = f"{revision}:cancelled-request-not-answered"
    assert judged(name, at_work(revision)) == {"good"}
    assert judged(name, at_work(revision).answer({"content": []}, id=1)) == {"bad"}
    crossing = cancel(pipe(revision).request("tools/call", CALL, id=1), 1)
    assert judged(name, crossing.answer({"content": []}, id=1)) == set()
    saying = cancel(pipe(revision).request("tools/call", CALL, id=1), 1)
    assert judged(name, saying.error(0, "Request cancelled", id=1)) == {"bad"}


def test_over_http_a_blocked_result_shows_it() -> None:
    tale = web().request("tasks/result", {"taskId": "task-a"}, id=1)
    cancel(tale, 1).head(202)
    name = f"{OLD}:cancelled-request-not-answered"
    get(tale, "working")
    assert judged(name, tale) == {"good"}
    assert judged(name, tale.answer({"content": []}, id=1, post=1)) == {"bad"}


def test_over_http_2026_07_28_cancels_otherwise() -> None:
    tale = cancel(web(NEW).request("tools/call", CALL, id=1), 1).head(400)
    for name in ("cancelled-request-not-answered", "invalid-cancellation-ignored"):
        assert judged(f"{NEW}:{name}", ping(tale)) == set()


@pytest.mark.parametrize("revision", BOTH)
def test_races_do_no_harm(revision: Literal["2025-11-25", "2026-07-28"]) -> None:
    name = f"{revision}:cancellation-races-handled"
    racing = cancel(pipe(revision).request("tools/call", CALL, id=1), 1)
    assert judged(name, ping(racing.answer({}, id=1))) == {"good"}
    assert judged(name, cancel(pipe(revision).request("ping", id=1), 1).exits()) == {"bad"}
    assert judged(name, cancel(ping(pipe(revision)), 1).exits()) == {"bad"}


def test_whatever_else_was_said_may_be_the_cause() -> None:
    tale = cancel(pipe().request("ping", id=1).sent(text="{"), 1).exits()
    assert judged(f"{OLD}:cancellation-races-handled", tale) == set()


@pytest.mark.parametrize("revision", BOTH)
@pytest.mark.parametrize("params", [{"requestId": "nobody"}, {"requestId": []}, {}])
def test_invalid_ones_are_ignored(
    revision: Literal["2025-11-25", "2026-07-28"], params: dict[str, Any]
) -> None:
    name = f"{revision}:invalid-cancellation-ignored"
    assert judged(name, ping(pipe(revision).notify(CANCELLED, params))) == {"good"}
    answered = pipe(revision).notify(CANCELLED, params).error(-32602, id=None)
    assert judged(name, ping(answered)) == {"bad"}
    unclear = pipe(revision).sent(text="{").notify(CANCELLED, params).error(-32700, id=None)
    assert judged(name, ping(unclear)) == {"good"}
    assert judged(name, pipe(revision).notify(CANCELLED, params).exits()) == {"bad"}


def test_over_http_they_are_not_refused() -> None:
    name = f"{OLD}:invalid-cancellation-ignored"
    assert judged(name, ping(cancel(web(), "nobody").head(202))) == {"good"}
    assert judged(name, ping(cancel(web(), "nobody").head(400))) == {"bad"}
    assert judged(name, ping(web().notify(CANCELLED, []).head(400))) == {"good"}
    assert judged(name, ping(cancel(web(), "nobody").head(500))) == {"bad"}


def test_silence_is_fine() -> None:
    assert judged(f"{OLD}:cancelled-may-be-ignored", ping(cancel(pipe(), "nobody"))) == {"good"}
    assert judged(f"{NEW}:cancelled-may-be-ignored", ping(cancel(pipe(NEW), 5))) == {"good"}
