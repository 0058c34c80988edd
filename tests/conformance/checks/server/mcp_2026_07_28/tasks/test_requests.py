"""The checks of the tasks extension, against histories written by hand: requests and answers."""

from collections.abc import Callable
from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from tests.conformance.histories.extension import (
    BOTH,
    KINDS,
    QUESTION,
    TASKS,
    Extension,
    numbered,
    outcomes,
    piped,
    posted,
    task,
)

load_checks()

PASS, FAIL, WARN, NOTE, SILENT = {"good"}, {"bad"}, {"warning"}, {"note"}, set[str]()
MIXED = {"good", "bad"}
Row = tuple[str, Callable[[], Any], set[str]]
DONE = task(status="completed")
OTHER = {**QUESTION, "params": {**QUESTION["params"], "message": "Which colour?"}}
ACCEPTED = {"action": "accept", "content": {"size": 1}}
OLD = {**KINDS, "tasks": {}}


def asks(**questions: Any) -> dict[str, Any]:
    """A task that asks these questions, or the usual one."""
    return task(status="input_required", inputRequests=questions or {"size": QUESTION})


def asking(*shown: Any) -> Any:
    """A task that is created and asks, and is then shown like this."""
    told = posted().create()
    for one in (asks(), *shown):
        told.get(one)
    return told


def answered(*shown: Any) -> Any:
    """The same, answered; then shown like this."""
    told = asking().update().acknowledge()
    for one in shown:
        told.get(one)
    return told


def sung(first: str, second: str) -> Any:
    """Two answers, and a result that repeats the second."""
    told = asking()
    for words in (first, second):
        told.update({"size": {"content": {"text": words}}}).acknowledge()
    return told.get(task(status="completed", result={"content": [{"text": f"La {second}"}]}))


QUESTIONS: list[Row] = [
    ("key-not-two-requests", lambda: asking(asks()), PASS),
    ("key-not-two-requests", lambda: asking(asks(size=OTHER)), FAIL),
    ("key-not-two-requests", lambda: asking(asks(size=OTHER, more=7)), FAIL),
    ("key-not-reused-after-answer", lambda: answered(task(), DONE), PASS),
    ("key-not-reused-after-answer", lambda: answered(asks(), task()), PASS),
    ("key-not-reused-after-answer", lambda: answered(task(), asks()), FAIL),
    ("keys-unique-for-life", lambda: asking(asks(size=OTHER)), FAIL),
    ("keys-unique-for-life", lambda: answered(task(), asks()), MIXED),
    ("key-scope-is-task", lambda: asking(), SILENT),
    (
        "key-scope-is-task",
        lambda: posted().create(more={"inputResponses": {"size": {}}}).get(asks()),
        PASS,
    ),
    ("input-requests-complete", lambda: asking(), SILENT),
    ("input-requests-complete", lambda: asking(asks()), PASS),
    ("input-requests-complete", lambda: asking(asks(other=OTHER)), SILENT),  # withdrawn
    ("input-requests-complete", lambda: asking(asks(other=OTHER), asks()), FAIL),
    ("input-requests-complete", lambda: asking(task(), asks()), PASS),
    ("questions-repeated-until-answered", lambda: asking(asks(other=OTHER), asks()), FAIL),
    (
        "questions-repeated-until-answered",
        lambda: asking().get(asks(other=OTHER), capabilities={}).get(asks()),
        PASS,  # of a kind that was not declared
    ),
    ("questions-answered-by-update", lambda: answered(DONE), PASS),
    ("questions-answered-by-update", lambda: answered(asks()), SILENT),
    ("questions-answered-by-update", lambda: answered().wait(6_000).get(asks()), FAIL),
    (
        "questions-answered-by-update",
        lambda: (
            asking()
            .update({"size": {"action": "accept", "content": {}}})
            .acknowledge()
            .wait(6_000)
            .get(asks())
        ),
        SILENT,  # no answer to the form
    ),
    ("update-ack-before-effect", lambda: answered(asks()), PASS),
    ("update-ack-before-effect", lambda: answered(DONE), SILENT),
    ("ignore-never-issued-keys", lambda: asking().update({"x": ACCEPTED}).acknowledge(), PASS),
    ("ignore-never-issued-keys", lambda: asking().update({"x": ACCEPTED}).error(-32602), FAIL),
    (
        "ignore-never-issued-keys",
        lambda: asking().update({"x": ACCEPTED}).error(-32603, "Too many requests"),
        SILENT,
    ),
    (
        "ignore-never-issued-keys",
        lambda: asking().update({"x": ACCEPTED}).acknowledge().get(DONE),
        FAIL,
    ),
    (
        "ignore-never-issued-keys",
        lambda: asking().update({"x": ACCEPTED}).acknowledge().get(asks()),
        PASS,
    ),
    ("ignore-never-issued-keys", lambda: asking().update({"x": 7}).error(-32602), SILENT),
    ("ignore-answered-keys", lambda: answered().update().acknowledge(), PASS),
    ("ignore-answered-keys", lambda: answered().update().error(-32602), FAIL),
    ("ignore-answered-keys", lambda: sung("the first", "the second"), FAIL),
    ("ignore-answered-keys", lambda: sung("the same", "the same"), PASS),
    ("ignore-superseded-keys", lambda: answered(DONE).update().acknowledge(), PASS),
    ("ignore-superseded-keys", lambda: answered(DONE).update().error(-32602), FAIL),
    ("ignore-superseded-keys", lambda: answered().update().error(-32602), SILENT),
    (
        "ignore-superseded-keys",
        lambda: asking().cancel().acknowledge().get(task(status="cancelled")).update().error(1),
        SILENT,  # it may be gone
    ),
    ("partial-answers", lambda: asking().update().acknowledge(), SILENT),
    ("partial-answers", lambda: partial(), PASS),
    ("partial-stays-input-required", lambda: partial(asks(other=OTHER)), PASS),
    ("partial-stays-input-required", lambda: partial(DONE), WARN),
    ("partial-stays-input-required", lambda: partial(task(status="failed")), SILENT),
    ("partial-stays-input-required", lambda: answered(DONE), SILENT),
]


def partial(*shown: Any) -> Any:
    """One of two questions is answered."""
    told = asking(asks(size=QUESTION, other=OTHER)).update().acknowledge()
    for one in shown:
        told.get(one)
    return told


def running() -> Any:
    return posted().create().get(task())


def ended() -> Any:
    return posted().create().get(DONE)


ACKNOWLEDGEMENTS: list[Row] = [
    ("update-ack-empty", lambda: asking().update().acknowledge(_meta={}), PASS),
    ("update-ack-empty", lambda: asking().update().acknowledge(status="working"), FAIL),
    ("update-ack-empty", lambda: asking().update().acknowledge(xMore=1), NOTE),
    ("update-ack-empty", lambda: asking().update().answer(None), FAIL),
    ("update-ack-empty", lambda: asking().update().error(-32602), SILENT),
    ("cancel-ack-empty", lambda: running().cancel().acknowledge(), PASS),
    ("cancel-ack-empty", lambda: running().cancel().acknowledge(**task()), FAIL),
    ("update-result-type-complete", lambda: asking().update().acknowledge(), PASS),
    ("update-result-type-complete", lambda: asking().update().answer({}), FAIL),
    ("cancel-result-type-complete", lambda: running().cancel().acknowledge(), PASS),
    ("cancel-result-type-complete", lambda: running().cancel().answer({"resultType": 1}), FAIL),
    ("cancel-cooperative", lambda: running().cancel().acknowledge(), PASS),
    ("cancel-cooperative", lambda: running().cancel().error(-32603), FAIL),
    ("cancel-cooperative", lambda: running().cancel().error(-32603, "rate limit"), SILENT),
    ("cancel-cooperative", lambda: running().cancel(caller="B").error(-32602), SILENT),
    ("cancel-cooperative", lambda: piped().create().cancel(line=2).error(-32602), SILENT),
    ("cancel-terminal-acked", lambda: ended().cancel().acknowledge(), PASS),
    ("cancel-terminal-acked", lambda: ended().cancel().error(-32602), FAIL),
    ("cancel-terminal-acked", lambda: ended().cancel().acknowledge().cancel().error(1), PASS),
    ("cancel-terminal-acked", lambda: ended().wait(70_000).cancel().error(-32602), SILENT),
    ("cancel-status-may-lag", lambda: running().cancel().acknowledge().get(task()), PASS),
    ("cancel-status-may-lag", lambda: running().cancel().acknowledge().get(DONE), SILENT),
    ("cancel-may-lose", lambda: running().cancel().acknowledge().get(DONE), PASS),
    ("cancel-may-lose", lambda: ended().cancel().acknowledge().get(DONE), SILENT),
]

MISSING: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}


def undeclared(method: str, id: Any = "task-a") -> Any:
    params = {"taskId": id, "inputResponses": {}}
    return posted().create().ask(method, params, declares=False)


REFUSALS: list[Row] = [
    *(
        row
        for name in ("get", "update", "cancel")
        for row in (
            (
                f"{name}-unknown-32602",
                lambda name=name: (
                    posted().discover().ask(f"tasks/{name}", {"taskId": "x"}).error(-32602)
                ),
                PASS,
            ),
            (
                f"{name}-unknown-32602",
                lambda name=name: (
                    piped().discover().ask(f"tasks/{name}", {"taskId": 7}).error(-32600)
                ),
                FAIL,
            ),
            (
                f"{name}-unknown-32602",
                lambda name=name: (
                    posted().discover().ask(f"tasks/{name}", {"taskId": "x"}).acknowledge()
                ),
                FAIL,
            ),
            (
                f"{name}-unknown-32602",
                lambda name=name: posted().ask(f"tasks/{name}", {"taskId": "x"}).error(-32601),
                SILENT,  # it knows nothing of tasks
            ),
            (
                f"{name}-missing-capability-32021",
                lambda name=name: undeclared(f"tasks/{name}").error(-32021),
                PASS,
            ),
            (
                f"{name}-missing-capability-32021",
                lambda name=name: undeclared(f"tasks/{name}").acknowledge(),
                FAIL,
            ),
            (
                f"{name}-missing-capability-32021",
                lambda name=name: undeclared(f"tasks/{name}", "x").error(-32602),
                FAIL,
            ),
            (
                f"{name}-missing-capability-32021",
                lambda name=name: undeclared(f"tasks/{name}", 7).error(-32602),
                SILENT,  # two faults
            ),
        )
    ),
    ("get-unknown-32602", lambda: posted().create().misses(code=-32603), SILENT),
    (
        "get-unknown-32602",
        lambda: posted().discover().misses("x", -32001, headers={"mcp-name": "other"}),
        SILENT,  # another fault
    ),
    ("get-unknown-32602", lambda: unknown().error(-32603, "Slow down", status=429), SILENT),
    (
        "missing-capability-names-extension",
        lambda: undeclared("tasks/get").error(-32021, data=MISSING),
        PASS,
    ),
    ("missing-capability-names-extension", lambda: undeclared("tasks/get").error(-32021), FAIL),
    (
        "missing-capability-names-extension",
        lambda: (
            posted().call(declares=False).error(-32021, data={"requiredCapabilities": {"a": {}}})
        ),
        SILENT,  # something else is missing
    ),
    ("standard-jsonrpc-errors", lambda: unknown().error(-32602), PASS),
    ("standard-jsonrpc-errors", lambda: unknown().error(-32001), FAIL),
    ("internal-error-32603", lambda: unknown().error(-32603), PASS),
    ("internal-error-32603", lambda: unknown().error(1, "Internal error"), FAIL),
    ("internal-error-32603", lambda: unknown().error(1, "no", status=500), FAIL),
    ("internal-error-32603", lambda: unknown().error(-32602), SILENT),
    ("informative-error-messages", lambda: unknown().error(-32602, "Task not found"), PASS),
    ("informative-error-messages", lambda: unknown().error(-32602, ""), FAIL),
    (
        "informative-error-messages",
        lambda: (
            unknown()
            .error(-32602, "Error")
            .ask("tasks/get", {"taskId": "x"}, declares=False)
            .error(-32021, "Error")
        ),
        MIXED,
    ),
    ("no-tasks-list", lambda: posted().ask("tasks/list").error(-32601, status=404), PASS),
    ("no-tasks-list", lambda: posted().ask("tasks/list").answer({"tasks": []}), FAIL),
    ("no-tasks-list", lambda: posted().ask("tasks/list").error(-32602), FAIL),
    ("tasks-result-gone-32601", lambda: posted().ask("tasks/result").error(-32601), PASS),
    ("tasks-result-gone-32601", lambda: posted().ask("tasks/result").answer({}), FAIL),
    ("auth-on-each-request", lambda: foreign().misses(caller="B"), PASS),
    ("auth-on-each-request", lambda: foreign().get(task(), caller="B"), FAIL),
    ("auth-on-each-request", lambda: foreign().get(task()), SILENT),
    ("auth-on-each-request", lambda: foreign().get(task(), headers={"authorization": ""}), FAIL),
    ("auth-on-each-request", lambda: foreign().cancel(caller="B").acknowledge(), WARN),
    ("auth-on-each-request", lambda: posted().create().get(task(), caller="B"), SILENT),
    ("ids-as-bearer-tokens", lambda: posted().create().get(task(), caller="B", line=2), PASS),
    ("ids-as-bearer-tokens", lambda: foreign().get(task(), caller="B", line=2), SILENT),
]


def unknown() -> Any:
    return posted().discover().ask("tasks/get", {"taskId": "x"})


def foreign() -> Any:
    return posted(BOTH).create()


def both_ways(plain: Any, *, with_task: Any) -> Any:
    """Calls with and without `params.task`, twice each."""
    told = posted()
    for asking_for_it, answer in ((False, plain), (True, with_task)):
        for number in range(2):
            told.call(more={"task": {}} if asking_for_it else {})
            named = {"taskId": f"{asking_for_it}{number}"} if "taskId" in answer else {}
            told.answer({**answer, **named})
    return told


NEW = {"resultType": "task", **task()}
PLAIN = {"resultType": "complete", "content": []}


def old(method: str, **params: Any) -> Any:
    """A request on a session of 2025-11-25."""
    told = posted().initialize_old(tasks={"cancel": {}})
    return told.request(method, {"name": "tool", "arguments": {}, **params}, line=2)


def old_task() -> Any:
    return old("tools/call", task={}).answer({"task": {"taskId": "o"}})


NEGOTIATION: list[Row] = [
    ("server-declares-in-discover", lambda: posted().discover().create(), PASS),
    ("server-declares-in-discover", lambda: posted().discover({}).create(), FAIL),
    ("server-declares-in-discover", lambda: posted().discover({}), SILENT),
    ("legacy-servers-migrate", lambda: posted().discover(None).create(), FAIL),
    ("extension-identifier", lambda: posted().discover(), PASS),
    ("extension-identifier", lambda: posted().discover({"tasks": {}}), FAIL),
    ("extension-identifier", lambda: posted().discover({"com.example/tasks": {}}), SILENT),
    ("capability-empty-object", lambda: posted().discover(), PASS),
    ("capability-empty-object", lambda: posted().discover({TASKS: None}), FAIL),
    ("capability-empty-object", lambda: posted().call().error(-32021, data=MISSING), FAIL),
    ("legacy-capabilities-not-advertised", lambda: posted().discover(), PASS),
    ("legacy-capabilities-not-advertised", lambda: posted().discover(tasks={}), FAIL),
    ("extension-label-reserved", lambda: posted().discover(), PASS),
    ("extension-label-reserved", lambda: posted().discover({}, experimental={TASKS: {}}), FAIL),
    ("extension-label-reserved", lambda: unknown().acknowledge(_meta={TASKS: 1}), MIXED),
    ("method-prefix-reserved", lambda: posted().notify("notifications/tasks", task()), PASS),
    ("method-prefix-reserved", lambda: posted().notify("notifications/tasks/status", {}), FAIL),
    (
        "method-prefix-reserved",
        lambda: old_task().notify("notifications/tasks/status", {}, line=2),
        SILENT,
    ),
    ("server-may-create-task", lambda: posted().create(), PASS),
    ("never-creating-is-fine", lambda: posted().discover().call().answer(PLAIN), PASS),
    ("never-creating-is-fine", lambda: posted().create(), SILENT),
    ("server-decides-alone", lambda: posted().create(), PASS),
    ("server-decides-alone", lambda: both_ways(PLAIN, with_task=NEW), FAIL),
    ("server-decides-alone", lambda: both_ways(PLAIN, with_task=PLAIN), SILENT),
    ("no-task-for-undeclared", lambda: posted().create().call(declares=False).answer(PLAIN), PASS),
    ("no-task-for-undeclared", lambda: posted().call(declares=False).answer(NEW), FAIL),
    ("no-task-for-undeclared", lambda: posted().call(declares=False).answer(PLAIN), SILENT),
    (
        "missing-capability-32021",
        lambda: posted().call(declares=False).error(-32021, data=MISSING),
        PASS,
    ),
    ("missing-capability-32021", lambda: posted().call(declares=False).error(-32602), SILENT),
    (
        "missing-capability-32021",
        lambda: posted().create().call(declares=False).error(-32601),
        FAIL,
    ),
    (
        "missing-capability-32021",
        lambda: posted().call(declares=False).error(-32603, data=MISSING),
        FAIL,
    ),
    ("task-parameter-ignored", lambda: both_ways(NEW, with_task=NEW), PASS),
    (
        "task-parameter-ignored",
        lambda: posted().call().answer(PLAIN).call(more={"task": {}}).error(-32602),
        FAIL,
    ),
    (
        "task-parameter-ignored",
        lambda: (
            posted()
            .call(declares=False)
            .answer(PLAIN)
            .call(more={"task": {}}, declares=False)
            .answer(NEW)
        ),
        FAIL,
    ),
    (
        "legacy-capability-is-undeclared",
        lambda: posted().create().call(declares=False, capabilities=OLD).answer(PLAIN),
        PASS,
    ),
    (
        "legacy-capability-is-undeclared",
        lambda: posted().create().call(declares=False, capabilities=OLD).answer(NEW),
        FAIL,
    ),
    (
        "legacy-capability-is-undeclared",
        lambda: posted().create().get(task(), declares=False, capabilities=OLD),
        FAIL,
    ),
    (
        "legacy-capability-is-undeclared",
        lambda: old_task().discover().get(task("o"), declares=False, capabilities=OLD),
        SILENT,  # a task of the older revision
    ),
    ("extension-not-under-2025-11-25", lambda: old("tools/call").answer({"content": []}), PASS),
    ("extension-not-under-2025-11-25", lambda: old("tools/call").answer(NEW), FAIL),
    ("extension-not-under-2025-11-25", lambda: old_task(), SILENT),
    (
        "legacy-tasks-still-served",
        lambda: old_task().request("tasks/get", {"taskId": "o"}, line=2).answer({"taskId": "o"}),
        PASS,
    ),
    (
        "legacy-tasks-still-served",
        lambda: old_task().request("tasks/cancel", {"taskId": "o"}, line=2).error(-32601),
        FAIL,
    ),
]


@pytest.mark.parametrize(
    ("id", "tale", "expected"),
    numbered(*QUESTIONS, *ACKNOWLEDGEMENTS, *REFUSALS, *NEGOTIATION),
)
def test_the_check_says(id: str, tale: Callable[[], Extension], expected: set[str]) -> None:
    assert outcomes(id, tale()) == expected
