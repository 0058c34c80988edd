"""The rules about progress, against histories written by hand."""

from typing import Any, Literal

import pytest

from tests.conformance.histories.judged import judged
from tests.conformance.histories.told import a_task
from tests.conformance.histories.wire import Wire, pipe, web

OLD: Literal["2025-11-25"] = "2025-11-25"
NEW: Literal["2026-07-28"] = "2026-07-28"
RELATED = "io.modelcontextprotocol/related-task"
DONE: dict[str, Any] = {"content": []}


def call(token: Any = "t", **params: Any) -> dict[str, Any]:
    """The parameters of a call with a token."""
    return {"name": "tool", "arguments": {}, "_meta": {"progressToken": token}, **params}


def told(value: Any, token: Any = "t", task: str | None = None, **more: Any) -> dict[str, Any]:
    """The parameters of progress."""
    meta = {} if task is None else {"_meta": {RELATED: {"taskId": task}}}
    return {"progressToken": token, "progress": value, **more, **meta}


def plain(*values: Any, tale: Wire | None = None, **more: Any) -> Wire:
    """A plain call, its progress, its answer."""
    tale = pipe() if tale is None else tale
    tale.request("tools/call", call(), id=1)
    for value in values:
        tale.tells("notifications/progress", told(value, **more))
    return tale.answer(DONE, id=1)


def task(tale: Wire | None = None) -> Wire:
    """A call with a token that became a task."""
    tale = pipe() if tale is None else tale
    return tale.request("tools/call", call(task={}), id=1).answer({"task": a_task()})


def get(tale: Wire, status: str, **options: Any) -> Wire:
    """`tasks/get` shows that status."""
    return tale.request("tasks/get", {"taskId": "task-a"}, **options).answer(a_task(status=status))


def tells(tale: Wire, *arguments: Any, **options: Any) -> Wire:
    """Progress comes."""
    return tale.tells("notifications/progress", told(*arguments, **options))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3.5], {"good"}),
        ([1, 1], {"bad"}),
        ([2, 1], {"bad"}),
        ([1], set()),
        (["1", None, True], set()),
    ],
)
def test_progress_grows(values: list[Any], expected: set[str]) -> None:
    assert judged(f"{OLD}:progress-increases", plain(*values)) == expected
    assert judged(f"{NEW}:progress-increases", plain(*values, tale=web(NEW))) == expected


def test_progress_of_one_task_on_two_streams_has_no_order() -> None:
    tale = task(web())
    tale.request("tasks/result", {"taskId": "task-a"}, id=2)
    tale.sent(method="GET")
    tells(tale, 2)
    tale.tells("notifications/progress", told(1), post=2)
    assert judged(f"{OLD}:progress-increases", tale) == set()


def test_a_stream_that_was_opened_later_is_later() -> None:
    tale = tells(task(web()).request("tasks/result", {"taskId": "task-a"}, id=2), 2)
    tells(tale.request("tasks/result", {"taskId": "task-a"}, id=3), 1)
    assert judged(f"{OLD}:progress-increases", tale) == {"bad"}


def test_what_is_told_again_after_a_break_is_not_new() -> None:
    tale = tells(task(web()).request("tasks/result", {"taskId": "task-a"}, id=2), 2)
    tells(tale.sent(method="GET", headers={"last-event-id": "7"}), 1)
    assert judged(f"{OLD}:progress-increases", tale) == set()


def test_a_token_that_two_requests_brought_is_not_judged() -> None:
    tale = plain(1, tale=plain(2))
    assert judged(f"{OLD}:progress-increases", tale) == set()


@pytest.mark.parametrize(
    ("message", "expected"),
    [({"message": "half"}, {"good"}), ({}, set()), ({"message": " "}, {"bad"}),
     ({"message": 5}, {"bad"})],
)  # fmt: skip
def test_messages_say_something(message: dict[str, Any], expected: set[str]) -> None:
    assert (
        judged(f"{NEW}:progress-message-readable", plain(1, tale=pipe(NEW), **message)) == expected
    )


@pytest.mark.parametrize(
    ("token", "expected"), [("t", {"good"}), ("T", {"bad"}), (5, {"bad"}), (None, {"bad"})]
)
def test_tokens_are_known(token: Any, expected: set[str]) -> None:
    tale = tells(pipe().request("tools/call", call(), id=1), 1, token)
    assert judged(f"{OLD}:progress-token-known", tale) == expected
    tale = tells(web(NEW).request("tools/call", call(), id=1), 1, token)
    assert judged(f"{NEW}:progress-token-known", tale) == expected


def test_a_number_and_its_text_are_different_tokens() -> None:
    tale = tells(pipe().request("tools/call", call(1), id=1), 1, "1")
    assert judged(f"{OLD}:progress-token-known", tale) == {"bad"}


@pytest.mark.parametrize("revision", [OLD, NEW])
def test_no_progress_after_the_answer(revision: Literal["2025-11-25", "2026-07-28"]) -> None:
    for name in ("progress-stops-after-completion", "progress-operation-running"):
        assert judged(f"{revision}:{name}", plain(1, 2, tale=pipe(revision))) == {"good"}
        late = tells(plain(1, tale=pipe(revision)), 2)
        assert judged(f"{revision}:{name}", late) == {"good", "bad"}


def test_on_another_stream_it_may_have_been_on_its_way() -> None:
    tale = web().sent(method="GET").request("tools/call", call(), id=1).answer(DONE)
    tale.tells("notifications/progress", told(1), post=1)
    assert judged(f"{OLD}:progress-stops-after-completion", tale) == {"good"}


def test_of_2026_07_28_a_task_has_no_progress() -> None:
    tale = pipe(NEW).request("tools/call", call(), id=1)
    tale.answer({"resultType": "task", "taskId": "a", "status": "working"})
    assert judged(f"{NEW}:progress-operation-running", tells(tale, 1)) == {"bad"}


def test_of_2025_11_25_it_has_until_its_end() -> None:
    tale = tells(task(), 1, task="task-a")
    get(tale, "completed")
    for name in ("progress-stops-at-terminal", "progress-operation-running"):
        assert judged(f"{OLD}:{name}", tale) == {"good"}
    tells(tale, 2, task="task-a")
    for name in ("progress-stops-at-terminal", "progress-operation-running"):
        assert judged(f"{OLD}:{name}", tale) == {"good", "bad"}


def test_the_result_is_an_end_as_well() -> None:
    tale = task().request("tasks/result", {"taskId": "task-a"}).answer(DONE)
    assert judged(f"{OLD}:progress-stops-at-terminal", tells(tale, 1)) == {"bad"}


@pytest.mark.parametrize("name", ["progress-same-token", "progress-after-create-result"])
def test_a_task_keeps_its_token(name: str) -> None:
    assert judged(f"{OLD}:{name}", tells(task(), 1, task="task-a")) == {"good"}
    assert judged(f"{OLD}:{name}", tells(task(), 1, "other", task="task-a")) == {"bad"}
    waiter = {"taskId": "task-a", "_meta": {"progressToken": "waiter"}}
    tale = tells(task().request("tasks/result", waiter, id=2), 1, "waiter")
    assert judged(f"{OLD}:{name}", tale) == {"bad"}


def test_before_the_create_answer_only_one_of_them_counts() -> None:
    tale = tells(pipe().request("tools/call", call(task={}), id=1), 1)
    tale.answer({"task": a_task()}, id=1)
    assert judged(f"{OLD}:progress-same-token", tale) == {"good"}
    assert judged(f"{OLD}:progress-after-create-result", tale) == set()


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"progressToken": "t", "progress": 1}, {"good"}),
        ({"progressToken": "t", "progress": 0.5, "total": 1, "message": "m"}, {"good"}),
        ({"progress": 1}, {"note"}),
        ({"progressToken": "t", "progress": "1"}, {"note"}),
        ({"progressToken": "t", "progress": 1, "total": "2"}, {"note"}),
        ({"progressToken": "t", "progress": 1, "message": 2}, {"note"}),
    ],
)
def test_what_is_in_it_is_never_more_than_noted(params: Any, expected: set[str]) -> None:
    tale = pipe().request("tools/call", call(), id=1).tells("notifications/progress", params)
    assert judged(f"{OLD}:progress-optional", tale) == expected


def test_all_that_is_allowed_is_good() -> None:
    for name in ("progress-may-be-float", "progress-total-optional", "progress-any-frequency"):
        assert judged(f"{NEW}:{name}", plain(0.5, tale=pipe(NEW))) == {"good"}
    assert judged(f"{OLD}:progress-may-be-absent", plain()) == {"good"}
    assert judged(f"{OLD}:progress-may-be-absent", plain(1)) == set()
