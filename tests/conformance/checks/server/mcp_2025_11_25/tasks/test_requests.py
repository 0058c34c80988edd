"""What the checks say of the methods for tasks of 2025-11-25: results, cancels, lists, owners."""

from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.history import RELATED
from tests.conformance.histories.told import Told, a_task, offering, says

load_checks()

ID = "0b7e7f4e-6a43-4c38-8d33-5f3a0e4f6d11"
OTHER = "c2f3e1a0-93a7-4f0e-9a41-0d5b8f7c6e22"
TEXT = {"content": [{"type": "text", "text": "done"}]}
TOOL_ERROR = {"content": [{"type": "text", "text": "no"}], "isError": True}
NAMED = {"_meta": {RELATED: {"taskId": ID}}}
RESULT = {**TEXT, **NAMED}
JSON = {"content-type": "application/json; charset=utf-8"}
STREAM = {"content-type": "text/event-stream"}
TWO = {"A": "alice", "B": "bob"}


def task(id: str = ID, **options: Any) -> Told:
    """A task that was created."""
    return offering(**options).create(a_task(id))


def ended(status: str = "completed", **fields: Any) -> Told:
    """A task that is over."""
    return task().get(a_task(ID, status, **fields))


def result(tale: Told, task_id: str = ID, **options: Any) -> Told:
    """Somebody asks for the result."""
    return tale.request("tasks/result", {"taskId": task_id}, **options)


def cancel(tale: Told, id: Any = ID, **options: Any) -> Told:
    """Somebody cancels it."""
    return tale.request("tasks/cancel", {"taskId": id}, **options)


def get(tale: Told, id: Any = ID, **options: Any) -> Told:
    """Somebody looks at it; the answer is missing."""
    return tale.request("tasks/get", {"taskId": id}, **options)


def plainly(tale: Told, answer: Any, times: int = 2) -> Told:
    """The same call without a task."""
    for _ in range(times):
        tale.request("tools/call", {"name": "tool", "arguments": {}})
        tale.answer(answer) if isinstance(answer, dict) else tale.error(answer)
    return tale


def cancelled() -> Told:
    """A task that was cancelled."""
    return cancel(task()).answer(a_task(ID, "cancelled"))


def waiting() -> Told:
    """Somebody waits for the result, and a look shows that it is at work."""
    return result(task(), id="wait").get(a_task(ID))


def given_up() -> Told:
    """Somebody does not want to wait any more."""
    taken_back = {"method": "notifications/cancelled", "params": {"requestId": "wait"}}
    return waiting().say(taken_back)


def listed(*pages: list[str], known: tuple[str, ...] = (ID, OTHER)) -> Told:
    """Two tasks, then the list with these pages, then a look at both."""
    tale = offering()
    for id in known:
        tale.create(a_task(id))
    for number, ids in enumerate(pages):
        tale.request("tasks/list", {"cursor": f"c{number}"} if number else {})
        following = {"nextCursor": f"c{number + 1}"} if number + 1 < len(pages) else {}
        tale.answer({"tasks": [a_task(id) for id in ids], **following})
    for id in known:
        tale.get(a_task(id))
    return tale


def foreign(method: str, **options: Any) -> Told:
    """A task of alice; bob asks for it."""
    tale = task(principals=TWO)
    return tale.request(method, {"taskId": ID}, caller="B", line=2, **options)


KEPT: list[tuple[str, Told]] = [
    # when
    ("result-blocks", waiting().answer(RESULT, to="wait").get(a_task(ID, "completed"))),
    ("result-of-terminal-task", result(ended()).answer(RESULT)),
    ("result-of-terminal-task", result(ended("failed")).error(-32602)),
    ("result-of-cancelled-task", result(cancelled()).error(-32000)),
    ("get-works-while-result-blocks", waiting()),
    ("result-request-cancellable", given_up().get(a_task(ID)).get(a_task(ID, "completed"))),
    # what
    ("result-exactly-underlying", result(result(ended()).answer(RESULT)).answer(RESULT)),
    ("result-exactly-underlying", plainly(result(ended()).answer(RESULT), TEXT)),
    ("result-matches-request-type", result(ended()).answer(RESULT)),
    ("result-is-success-response", plainly(result(ended("failed")).answer(TOOL_ERROR), TOOL_ERROR)),
    ("result-same-error", plainly(result(ended("failed")).error(-31000), -31000)),
    ("status-completed", result(ended()).answer(RESULT)),
    ("status-failed", result(ended("failed")).answer(TOOL_ERROR)),
    ("status-failed", result(ended("failed")).error(-31000)),
    ("failed-on-jsonrpc-error", result(ended("failed")).error(-31000)),
    ("failed-on-is-error", result(ended("failed")).answer(TOOL_ERROR)),
    ("failed-status-message", ended("failed", statusMessage="It broke.")),
    # get
    ("get-returns-task-flat", task().get(a_task(ID))),
    ("get-not-upgraded-to-sse", get(task()).answer(a_task(ID), headers=JSON)),
    ("streamable-http-still-applies", get(task()).answer(a_task(ID), headers=JSON)),
    ("task-id-param-decides", result(ended()).answer(RESULT)),
    # cancel
    ("cancel-capability", cancelled()),
    ("cancel-answers-with-task", cancelled()),
    ("cancelled-before-answer", get(cancelled()).error(-32602)),
    ("cancelled-sticks", cancelled().get(a_task(ID, "cancelled"))),
    ("cancel-terminal-refused", cancel(ended()).error(-32602)),
    ("may-delete-cancelled", get(cancelled()).error(-32602)),
    # errors
    ("get-unknown-32602", get(offering(), "nobody").error(-32602)),
    ("get-unknown-32602", get(offering(), 7).error(-32602)),
    ("result-unknown-32602", result(offering(), "nobody").error(-32602)),
    ("cancel-unknown-32602", cancel(offering(), "nobody").error(-32602)),
    ("internal-error-32603", get(task()).error(-32603, "Internal error")),
    ("informative-error-messages", get(offering(), "nobody").error(-32602, "no such task")),
    # lists
    ("list-capability", listed([ID, OTHER])),
    ("list-result-shape", listed([ID], [OTHER])),
    ("list-paginated", listed([ID], [OTHER])),
    ("next-cursor-when-more", listed([ID], [OTHER])),
    ("get-implies-list", listed([ID], [], [OTHER])),
    ("list-no-duplicates", listed([ID, OTHER])),
    ("list-bad-cursor-32602", offering().request("tasks/list", {"cursor": "x"}).error(-32602)),
    # owners
    ("foreign-get-rejected", foreign("tasks/get").error(-32602)),
    ("foreign-result-rejected", foreign("tasks/result").error(-32602)),
    ("foreign-cancel-rejected", foreign("tasks/cancel").error(-32602)),
    ("bound-to-auth-context", foreign("tasks/get").error(-32602)),
    (
        "foreign-not-listed",
        task(principals=TWO).request("tasks/list", caller="B", line=2).answer({"tasks": []}),
    ),
    (
        "list-not-declared-without-identity",
        task().initialize({"tasks": {"list": {}}}, line=2)
        .request("tasks/list", line=2).answer({"tasks": []}),
    ),
    ("rate-limited-operations", get(offering(), "nobody").error(-32603, "rate limit")),
    (
        "concurrency-limit",
        task().request("tools/call", {"name": "tool", "task": {}}).error(-32603, "too many tasks"),
    ),
]  # fmt: skip

ALLOWED: list[tuple[str, Told]] = [
    # it is too much at the moment
    ("result-blocks", result(task(), id="wait").error(-32603, "rate limit").get(a_task(ID))),
    ("get-unknown-32602", get(offering(), "nobody").error(-32603, "rate limit")),
    # who does not want an answer may get one
    ("result-blocks", given_up().error(0, "cancelled", to="wait").get(a_task(ID))),
    # nobody else need be told
    ("result-blocks", result(task(), line=2).error(-32602).get(a_task(ID))),
    # what was waited for in vain says nothing of what it would have been
    ("get-unknown-32602", get(offering(), "nobody").give_up()),
    # a lost connection is not a late answer
    ("result-of-terminal-task", result(ended())),
    # a cancelled task may be deleted
    ("result-exactly-underlying", result(result(cancelled()).error(-32000)).error(-32602)),
    # a task may be gone after its lifetime
    (
        "status-completed",
        result(ended(ttl=100).wait(200)).error(-32602),
    ),
    # whoever does not declare it need not have it
    (
        "cancel-unknown-32602",
        cancel(offering(capabilities={"tasks": {}}), "nobody").error(-32601),
    ),
    ("cancel-capability", cancel(task(capabilities={"tasks": {}})).error(-32601)),
    (
        "list-capability",
        offering(capabilities={"tasks": {}}).request("tasks/list").error(-32601),
    ),
    # a task that ends while it is cancelled
    ("cancel-capability", cancel(task()).error(-32602).get(a_task(ID, "completed"))),
    # no cursor at all
    (
        "list-bad-cursor-32602",
        offering().request("tasks/list", {"cursor": ""}).answer({"tasks": []}),
    ),
    # a tool that is not always the same
    (
        "result-exactly-underlying",
        plainly(plainly(result(ended()).answer(RESULT), {"content": []}, 1), {"content": [1]}, 1),
    ),
    # refusals that are not of the tool
    ("result-same-error", plainly(result(ended("failed")).error(-31000), -32601)),
    # a session of its own is an identity
    ("foreign-get-rejected", get(task(), line=2, caller="B").answer(a_task(ID))),
]  # fmt: skip

BROKEN: list[tuple[str, Told]] = [
    # when
    ("result-blocks", result(task()).error(-32600, "not over").get(a_task(ID))),
    ("result-blocks", result(task()).answer(RESULT).get(a_task(ID, "input_required"))),
    ("result-blocks", waiting().get(a_task(ID, "completed")).give_up(of="wait")),
    ("result-of-terminal-task", result(ended()).give_up()),
    ("result-of-terminal-task", result(ended()).wait(5_100).answer(RESULT)),
    ("result-of-cancelled-task", result(cancelled()).give_up()),
    ("get-works-while-result-blocks", get(result(task())).give_up()),
    ("result-request-cancellable", given_up().get(a_task(ID, "cancelled"))),
    # what
    (
        "result-exactly-underlying",
        result(result(ended()).answer(RESULT)).answer({**RESULT, "content": []}),
    ),
    (
        "result-exactly-underlying",
        plainly(result(ended()).answer(RESULT), {**TEXT, "structuredContent": {}}),
    ),
    ("result-matches-request-type", result(ended()).answer({**RESULT, "taskId": ID})),
    ("result-matches-request-type", result(ended()).answer(NAMED)),
    ("result-is-success-response", plainly(result(ended("failed")).error(-32000), TOOL_ERROR)),
    ("result-same-error", plainly(result(ended("failed")).error(-32000), -31000)),
    ("result-same-error", plainly(result(ended("failed")).answer(TOOL_ERROR), -31000)),
    ("status-completed", result(ended()).error(-31000)),
    ("status-failed", result(ended("failed")).answer(RESULT)),
    ("failed-on-jsonrpc-error", result(ended()).error(-31000)),
    ("failed-status-message", ended("failed")),
    ("failed-status-message", ended("failed", statusMessage=" ")),
    # get
    ("get-returns-task-flat", get(task()).answer({"task": a_task(ID)})),
    ("get-returns-task-flat", task().get(a_task(ID, "completed"), takes_ms=5_100)),
    ("get-not-upgraded-to-sse", get(task()).answer(a_task(ID), headers=STREAM)),
    (
        "streamable-http-still-applies",
        get(task()).answer(a_task(ID), headers={"content-type": "text/plain"}),
    ),
    ("task-id-param-decides", get(task()).answer(a_task(OTHER))),
    ("task-id-param-decides", result(ended().create(a_task(OTHER)), OTHER).answer(RESULT)),
    # cancel
    ("cancel-capability", cancel(task()).error(-32601)),
    ("cancel-capability", cancel(task()).error(-32602).get(a_task(ID))),
    ("cancel-answers-with-task", cancel(task()).answer({})),
    ("cancel-answers-with-task", cancel(task()).answer(a_task(ID))),
    ("cancelled-before-answer", cancel(task()).answer(a_task(ID))),
    ("cancelled-before-answer", cancelled().get(a_task(ID))),
    ("cancelled-sticks", cancelled().get(a_task(ID, "completed"))),
    ("cancel-terminal-refused", cancel(ended()).answer(a_task(ID, "completed"))),
    ("cancel-terminal-refused", cancel(cancelled()).answer(a_task(ID, "cancelled"))),
    ("cancel-terminal-refused", cancel(ended()).error(-32603)),
    # errors
    ("get-unknown-32602", get(offering(), "nobody").error(-32603)),
    ("get-unknown-32602", get(offering(), None).error(-32600)),
    ("get-unknown-32602", get(offering(), "nobody").answer({})),
    ("result-unknown-32602", result(offering(), "nobody").error(-32001)),
    ("result-unknown-32602", result(offering(), "nobody").give_up()),
    ("cancel-unknown-32602", cancel(offering(), "nobody").answer({})),
    ("internal-error-32603", get(task()).error(-32000, "Internal error")),
    ("informative-error-messages", get(offering(), "nobody").error(-32602, "")),
    ("informative-error-messages", get(offering(), "nobody").error(-32602, None)),
    (
        "informative-error-messages",
        cancel(cancel(ended(), "nobody").error(-32602, "Invalid")).error(-32602, "Invalid"),
    ),
    # lists
    ("list-capability", offering().request("tasks/list").error(-32601)),
    ("list-result-shape", offering().request("tasks/list").answer({"tasks": {}})),
    ("list-result-shape", offering().request("tasks/list").answer({"tasks": [{"taskId": ID}]})),
    (
        "list-result-shape",
        offering().request("tasks/list").answer({"tasks": [], "nextCursor": None}),
    ),
    ("next-cursor-when-more", listed([ID])),
    ("get-implies-list", listed([])),
    ("get-implies-list", listed([ID], [])),
    ("list-no-duplicates", listed([ID, ID])),
    (
        "list-bad-cursor-32602",
        offering().request("tasks/list", {"cursor": "x"}).answer({"tasks": []}),
    ),
    ("list-bad-cursor-32602", offering().request("tasks/list", {"cursor": 7}).error(-32603)),
    # owners
    ("foreign-get-rejected", foreign("tasks/get").answer(a_task(ID))),
    ("foreign-result-rejected", foreign("tasks/result").answer(RESULT)),
    ("foreign-result-rejected", foreign("tasks/result").give_up()),
    ("foreign-cancel-rejected", foreign("tasks/cancel").answer(a_task(ID, "cancelled"))),
    ("foreign-cancel-rejected", foreign("tasks/cancel").error(-32602).get(a_task(ID, "cancelled"))),
    ("bound-to-auth-context", foreign("tasks/get").answer(a_task(ID))),
    (
        "foreign-not-listed",
        task(principals=TWO).request("tasks/list", caller="B", line=2)
        .answer({"tasks": [a_task(ID)]}),
    ),
    (
        "list-not-declared-without-identity",
        task().initialize({"tasks": {"list": {}}}, line=2)
        .request("tasks/list", line=2).answer({"tasks": [a_task(ID)]}),
    ),
]  # fmt: skip

WARNED: list[tuple[str, Told]] = [
    ("failed-on-is-error", result(ended()).answer({**TOOL_ERROR, **NAMED})),
    ("result-exactly-underlying", plainly(result(ended()).answer(RESULT), {"content": []})),
    ("list-no-duplicates", listed([ID, OTHER], [ID])),
    (
        "list-capability",
        offering(capabilities={"tasks": {}}).request("tasks/list").answer({"tasks": []}),
    ),
    (
        "cancel-capability",
        cancel(task(capabilities={"tasks": {}})).answer(a_task(ID, "cancelled")),
    ),
]

NOTED: list[tuple[str, Told]] = [
    ("result-of-cancelled-task", result(cancelled()).answer(RESULT)),
]


@pytest.mark.parametrize(("name", "tale"), KEPT)
def test_what_is_kept(name: str, tale: Told) -> None:
    assert says(f"2025-11-25:{name}", tale) == {"good"}


@pytest.mark.parametrize(("name", "tale"), ALLOWED)
def test_what_is_allowed(name: str, tale: Told) -> None:
    assert says(f"2025-11-25:{name}", tale) <= {"good"}


@pytest.mark.parametrize(("name", "tale"), BROKEN)
def test_what_is_broken(name: str, tale: Told) -> None:
    assert "bad" in says(f"2025-11-25:{name}", tale)


@pytest.mark.parametrize(("name", "tale"), WARNED)
def test_what_is_worth_a_warning(name: str, tale: Told) -> None:
    found = says(f"2025-11-25:{name}", tale)
    assert "warning" in found
    assert "bad" not in found


@pytest.mark.parametrize(("name", "tale"), NOTED)
def test_what_is_worth_a_note(name: str, tale: Told) -> None:
    assert says(f"2025-11-25:{name}", tale) - {"good"} == {"note"}


def test_very_much_that_is_never_refused_is_worth_a_note() -> None:
    tale = offering()
    for number in range(100):
        get(tale, f"guess-{number}").error(-32602)
    assert says("2025-11-25:rate-limited-operations", tale) == {"note"}
    for number in range(40):
        tale.create(a_task(f"task-{number}"))
    for number in range(40):
        tale.get(a_task(f"task-{number}"))
    assert says("2025-11-25:concurrency-limit", tale) == {"note"}


def test_a_page_of_hundreds_is_worth_a_note() -> None:
    tale = offering().request("tasks/list")
    tale.answer({"tasks": [a_task(str(number)) for number in range(200)]})
    assert says("2025-11-25:list-paginated", tale) == {"note"}


def test_whoever_asks_very_much_at_once_may_have_to_wait() -> None:
    tale = offering()
    for number in range(20):
        tale.request("tools/call", {"name": "tool", "task": {}}, id=f"call-{number}")
    tale.wait(6_000)
    for number in range(20):
        tale.answer({"task": a_task(f"task-{number}")}, to=f"call-{number}")
    assert says("2025-11-25:create-answer-prompt", tale) == {"good"}
