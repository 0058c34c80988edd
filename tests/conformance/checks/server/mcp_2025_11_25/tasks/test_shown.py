"""What the checks say of tasks of 2025-11-25 as they are shown, offered and called."""

from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.history import MISSING
from tests.conformance.histories.told import CAPABILITIES, Told, a_task, offering, says

load_checks()

ID = "0b7e7f4e-6a43-4c38-8d33-5f3a0e4f6d11"
OTHER = "c2f3e1a0-93a7-4f0e-9a41-0d5b8f7c6e22"
LATER = "2026-11-16T10:00:05.000Z"
RESULT = {"content": [{"type": "text", "text": "done"}]}
CENTURY = 100 * 365 * 24 * 3_600_000
PLAIN_CAPABILITIES: dict[str, Any] = {"tools": {}}


def call(
    *, task: Any = MISSING, support: Any = "optional", capabilities: Any = CAPABILITIES
) -> Told:
    """A call of the tool, not answered yet."""
    params = {"name": "tool", "arguments": {}}
    if task is not MISSING:
        params["task"] = task
    return offering(support, capabilities=capabilities).request("tools/call", params)


def wished(method: str = "ping") -> Told:
    """A request that has no tasks, with and without a wish for one; the latter is open."""
    return offering().request(method).answer({}).request(method, {"task": {}})


def notice(**fields: Any) -> Told:
    """A status notification."""
    return offering().create(a_task()).notify("notifications/tasks/status", a_task(**fields))


def seen(*statuses: str, **fields: Any) -> Told:
    """A task that was created, then polled."""
    tale = offering().create(a_task(ID))
    for status in statuses:
        tale.get(a_task(ID, status, **fields))
    return tale


def expired(code: int | None) -> Told:
    """A task that is read after its lifetime; found, or answered with an error."""
    tale = offering().create(a_task(ID, ttl=500)).wait(600).request("tasks/get", {"taskId": ID})
    return tale.answer(a_task(ID, "completed", ttl=500)) if code is None else tale.error(code)


def counting_down(*ttls: int) -> Told:
    """Polls that show these lifetimes."""
    tale = offering().create(a_task(ID, ttl=ttls[0]))
    for ttl in ttls[1:]:
        tale.get(a_task(ID, ttl=ttl))
    return tale


KEPT: list[tuple[str, Told]] = [
    ("task-id-string", seen()),
    ("task-id-from-receiver", offering().create(a_task(ID), task={"taskId": "mine"})),
    ("task-id-unique", seen().create(a_task(OTHER))),
    ("ids-unguessable", seen().create(a_task(OTHER))),
    ("begins-working", seen()),
    ("paths-from-working", seen("input_required", "completed")),
    ("paths-from-input-required", seen("input_required", "working")),
    ("terminal-final", seen("completed", "completed")),
    ("status-values", seen("failed")),
    ("status-cancelled", seen("cancelled", statusMessage="The server is about to stop.")),
    (
        "status-cancelled",
        seen().request("tasks/cancel", {"taskId": ID}).answer(a_task(ID, "cancelled")),
    ),
    ("created-at-everywhere", seen("working")),
    ("last-updated-at-everywhere", seen("working")),
    ("created-at-constant", seen("working")),
    ("last-updated-at-order", seen("completed", lastUpdatedAt=LATER)),
    ("task-required-fields", offering().create(a_task(ttl=None))),
    ("status-message-optional", seen("working", statusMessage="at it")),
    ("poll-interval-optional", seen("working", pollInterval=0.5)),
    ("status-notification-optional", notice()),
    ("status-notification-full-task", notice()),
    # lifetimes
    ("actual-ttl-in-get", seen("working", ttl=None)),
    ("ttl-from-creation", counting_down(9000, 9000)),
    ("ttl-may-be-overridden", offering().create(a_task(), task={"ttl": 1})),
    ("ttl-maximum", offering().create(a_task(), task={"ttl": CENTURY})),
    ("ttl-maximum", call(task={"ttl": CENTURY}).error(-32602)),
    ("kept-until-ttl", seen("completed")),
    ("may-delete-after-ttl", expired(-32602)),
    ("may-delete-after-ttl", expired(None)),
    ("purged-reads-as-not-found", expired(-32602)),
    ("expired-cleaned-up", expired(-32602)),
    # what is offered
    ("capability-declared", offering().create(a_task())),
    ("capability-shape", offering()),
    ("server-capability-keys", offering()),
    ("capability-requests-exhaustive", wished().answer({})),
    ("undeclared-type-processed-normally", wished().answer({})),
    ("get-and-result-always-served", seen("working")),
    ("task-support-values", offering("forbidden")),
    ("forbidden-tool-task-refused-32601", call(task={}, support="forbidden").error(-32601)),
    ("task-support-default-forbidden", call(task={}, support=MISSING).answer(RESULT)),
    ("optional-tool-served-both-ways", call().answer(RESULT)),
    ("optional-tool-served-both-ways", call(task={}).answer({"task": a_task()})),
    ("required-tool-plain-refused-32601", call(support="required").error(-32601)),
    ("may-require-augmentation", call().error(-32600)),
    ("plain-call-refused-32600", call().error(-32600)),
    # creating answers
    ("create-result-returned", call(task={}).answer({"task": a_task()})),
    ("create-result-shape", call(task={}).answer({"task": a_task()})),
    ("create-result-without-operation-result", seen()),
    ("create-answer-prompt", call(task={}).wait(4_900).answer({"task": a_task()})),
    (
        "model-immediate-response",
        call(task={}).answer(
            {
                "task": a_task(),
                "_meta": {"io.modelcontextprotocol/model-immediate-response": "Wait."},
            }
        ),
    ),
]

ALLOWED: list[tuple[str, Told]] = [
    # the ids of two processes
    (
        "task-id-unique",
        offering(transport="stdio").create(a_task("1"), line=1).create(a_task("1"), line=2),
    ),
    # it is too much at the moment
    ("kept-until-ttl", seen().request("tasks/get", {"taskId": ID}).error(-32603, "rate limit")),
    ("required-tool-plain-refused-32601", call(support="required").error(-32603, "too many")),
    ("undeclared-type-processed-normally", wished().error(-32603, "Server is busy")),
    # cancelled tasks may be deleted
    (
        "kept-until-ttl",
        seen().request("tasks/cancel", {"taskId": ID}).answer(a_task(ID, "cancelled"))
        .request("tasks/get", {"taskId": ID}).error(-32602),
    ),
    # others need not see it
    (
        "kept-until-ttl",
        seen().request("tasks/get", {"taskId": ID}, line=2).error(-32602),
    ),
    # a lifetime may change
    ("ttl-from-creation", counting_down(9000, 500)),
    ("ttl-from-creation", counting_down(9000, 8000, 9500)),
    # arguments may be wrong, or the tool too
    ("forbidden-tool-task-refused-32601", call(task={}, support="forbidden").error(-32602)),
    ("optional-tool-served-both-ways", call().error(-32602)),
    ("create-result-returned", call(task={}).error(-32000)),
    # what nobody declared need not be refused
    (
        "forbidden-tool-task-refused-32601",
        call(task={}, support="forbidden", capabilities=PLAIN_CAPABILITIES).answer(RESULT),
    ),
    (
        "create-result-returned",
        call(task={}, capabilities=PLAIN_CAPABILITIES).answer(RESULT),
    ),
]  # fmt: skip

BROKEN: list[tuple[str, Told]] = [
    ("task-id-string", offering().create({"taskId": 7, "status": "working"})),
    ("task-id-from-receiver", offering().create(a_task("mine"), task={"taskId": "mine"})),
    ("task-id-unique", seen().create(a_task(ID))),
    ("ids-unguessable", offering().create(a_task("1")).create(a_task("2")).create(a_task("3"))),
    ("begins-working", offering().create(a_task(status="submitted"))),
    ("paths-from-working", seen("paused")),
    ("paths-from-input-required", seen("input_required", "paused")),
    ("terminal-final", seen("completed", "working")),
    ("status-values", seen("done")),
    ("created-at-everywhere", seen("working", createdAt=1)),
    ("last-updated-at-everywhere", seen("working", lastUpdatedAt=MISSING)),
    ("created-at-constant", seen("working", createdAt=LATER)),
    ("last-updated-at-order", seen("working", lastUpdatedAt="2026-11-16T09:00:00Z")),
    ("task-required-fields", seen("working", ttl=MISSING)),
    ("status-message-optional", seen("working", statusMessage=None)),
    ("status-notification-full-task", notice(ttl=MISSING)),
    (
        "status-notification-full-task",
        offering().notify("notifications/tasks/status", {"task": a_task()}),
    ),
    # lifetimes
    ("actual-ttl-in-get", seen("working", ttl=MISSING)),
    ("actual-ttl-in-get", seen("working", ttl="1 h")),
    ("actual-ttl-in-get", seen("working", ttl=-1)),
    ("ttl-from-creation", counting_down(9000, 8980, 8960)),
    ("ttl-maximum", offering().create(a_task(ttl=CENTURY), task={"ttl": CENTURY})),
    ("ttl-maximum", offering().create(a_task(ttl=None), task={"ttl": CENTURY})),
    ("kept-until-ttl", seen().request("tasks/get", {"taskId": ID}).error(-32602)),
    ("purged-reads-as-not-found", expired(-32001)),
    # what is offered
    ("capability-declared", offering(capabilities=PLAIN_CAPABILITIES).create(a_task())),
    ("capability-shape", offering(capabilities={"tasks": {"list": True}})),
    ("capability-shape", offering(capabilities={"tasks": {"requests": {"tools": []}}})),
    (
        "server-capability-keys",
        offering(capabilities={"tasks": {"requests": {"sampling": {"createMessage": {}}}}}),
    ),
    ("capability-requests-exhaustive", wished().answer({"task": a_task()})),
    ("undeclared-type-processed-normally", wished().answer({"task": a_task()})),
    ("undeclared-type-processed-normally", wished().error(-32602)),
    ("get-and-result-always-served", seen().request("tasks/get", {"taskId": ID}).error(-32601)),
    ("task-support-values", offering("always")),
    ("forbidden-tool-task-refused-32601", call(task={}, support="forbidden").answer(RESULT)),
    (
        "forbidden-tool-task-refused-32601",
        call(support="forbidden").answer(RESULT)
        .request("tools/call", {"name": "tool", "arguments": {}, "task": {}}).error(-32602),
    ),
    (
        "task-support-default-forbidden",
        call(task={}, support=MISSING).answer({"task": a_task()}),
    ),
    ("optional-tool-served-both-ways", call().error(-32601)),
    ("optional-tool-served-both-ways", call(task={}).error(-32601)),
    ("optional-tool-served-both-ways", call().answer({"task": a_task()})),
    ("required-tool-plain-refused-32601", call(support="required").answer(RESULT)),
    # creating answers
    ("create-result-returned", call(task={}).answer(RESULT)),
    ("create-result-shape", call(task={}).answer(a_task())),
    ("create-result-without-operation-result", call(task={}).answer({"task": a_task(), **RESULT})),
    ("create-answer-prompt", call(task={}).wait(5_100).answer({"task": a_task()})),
]  # fmt: skip

WARNED: list[tuple[str, Told]] = [
    ("begins-working", offering().create(a_task(status="completed"))),
    ("status-cancelled", seen("cancelled")),
    (
        "last-updated-at-order",
        seen("failed").get(a_task(ID, "failed", lastUpdatedAt=LATER)),
    ),
    (
        "model-immediate-response",
        call(task={}).answer(
            {"task": a_task(), "_meta": {"io.modelcontextprotocol/model-immediate-response": 1}}
        ),
    ),
]

NOTED: list[tuple[str, Told]] = [
    ("poll-interval-optional", seen("working", pollInterval="soon")),
    ("capability-shape", offering(capabilities={"tasks": {"list": {}, "more": {}}})),
    ("optional-tool-served-both-ways", call().error(-32600)),
    ("required-tool-plain-refused-32601", call(support="required").error(-32600)),
    ("last-updated-at-order", seen("working").get(a_task(ID, lastUpdatedAt=LATER))),
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
