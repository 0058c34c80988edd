"""Tasks extension: input requests, acknowledgements, refusals and negotiation."""

from typing import Any

from tests.conformance.checks.cases import Rows, bad, good, mixed, note, nothing, table, warning
from tests.conformance.histories.messages_2026_07_28 import (
    BOTH,
    KINDS,
    QUESTION,
    TASKS,
    http,
    stdio,
    task,
)

DONE = task(status="completed")
OTHER = {**QUESTION, "params": {**QUESTION["params"], "message": "Which colour?"}}
ACCEPTED = {"action": "accept", "content": {"size": 1}}
OLD = {**KINDS, "tasks": {}}


def asks(**questions: Any) -> dict[str, Any]:
    """Return an input_required task with these requests, or the default one."""
    return task(status="input_required", inputRequests=questions or {"size": QUESTION})


def asking(*shown: Any) -> Any:
    """Create a task that requires input, then poll it."""
    return http().create().get(asks(), *shown)


def answered(*shown: Any) -> Any:
    """Answer its request, then poll it."""
    return asking().update().acknowledge().get(*shown)


def repeated(first: str, second: str) -> Any:
    """Answer twice; the result repeats the second answer."""
    history = asking()
    for words in (first, second):
        history.update({"size": {"content": {"text": words}}}).acknowledge()
    return history.get(task(status="completed", result={"content": [{"text": f"La {second}"}]}))


def partial(*shown: Any) -> Any:
    """Answer one of two requests, then poll."""
    return asking(asks(size=QUESTION, other=OTHER)).update().acknowledge().get(*shown)


def running() -> Any:
    return http().create().get(task())


def ended() -> Any:
    return http().create().get(DONE)


MISSING: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}


def undeclared(method: str, id: Any = "task-a") -> Any:
    params = {"taskId": id, "inputResponses": {}}
    return http().create().ask(method, params, declares=False)


def unknown() -> Any:
    return http().discover().ask("tasks/get", {"taskId": "x"})


def foreign() -> Any:
    return http(BOTH).create()


def both_ways(plain: Any, *, with_task: Any) -> Any:
    """Call twice without and twice with `params.task`."""
    history = http()
    for asking_for_it, answer in ((False, plain), (True, with_task)):
        for number in range(2):
            history.call(more={"task": {}} if asking_for_it else {})
            named = {"taskId": f"{asking_for_it}{number}"} if "taskId" in answer else {}
            history.answer({**answer, **named})
    return history


NEW = {"resultType": "task", **task()}
PLAIN = {"resultType": "complete", "content": []}


def old(method: str, **params: Any) -> Any:
    """Send a request in a session of 2025-11-25."""
    history = http().initialize_old(tasks={"cancel": {}})
    return history.request(method, {"name": "tool", "arguments": {}, **params}, line=2)


def old_task() -> Any:
    return old("tools/call", task={}).answer({"task": {"taskId": "o"}})


UNKNOWN_GET = [
    nothing(
        http().create().not_found(code=-32603), unknown().error(-32603, "Slow down", status=429)
    ),
    # another fault
    nothing(http().discover().not_found("x", -32001, headers={"mcp-name": "other"})),
]
METHODS = ("get", "update", "cancel")

ROWS: Rows = {
    **{
        f"{name}-unknown-32602": [
            good(http().discover().ask(f"tasks/{name}", {"taskId": "x"}).error(-32602)),
            bad(
                stdio().discover().ask(f"tasks/{name}", {"taskId": 7}).error(-32600),
                http().discover().ask(f"tasks/{name}", {"taskId": "x"}).acknowledge(),
            ),
            # the server has no tasks
            nothing(http().ask(f"tasks/{name}", {"taskId": "x"}).error(-32601)),
            *(UNKNOWN_GET if name == "get" else ()),
        ]
        for name in METHODS
    },
    **{
        f"{name}-missing-capability-32021": [
            good(undeclared(f"tasks/{name}").error(-32021)),
            bad(
                undeclared(f"tasks/{name}").acknowledge(),
                undeclared(f"tasks/{name}", "x").error(-32602),
            ),
            nothing(undeclared(f"tasks/{name}", 7).error(-32602)),  # two faults
        ]
        for name in METHODS
    },
    "key-not-two-requests": [
        good(asking(asks())),
        bad(asking(asks(size=OTHER)), asking(asks(size=OTHER, more=7))),
    ],
    "key-not-reused-after-answer": [
        good(answered(task(), DONE), answered(asks(), task())),
        bad(answered(task(), asks())),
    ],
    "keys-unique-for-life": [bad(asking(asks(size=OTHER))), mixed(answered(task(), asks()))],
    "key-scope-is-task": [
        good(http().create(more={"inputResponses": {"size": {}}}).get(asks())),
        nothing(asking()),
    ],
    "input-requests-complete": [
        good(asking(asks()), asking(task(), asks())),
        nothing(asking()),
        bad(asking(asks(other=OTHER), asks())),
        # withdrawn
        nothing(asking(asks(other=OTHER))),
    ],
    "questions-repeated-until-answered": [
        bad(asking(asks(other=OTHER), asks())),
        # of a kind that was not declared
        good(asking().get(asks(other=OTHER), capabilities={}).get(asks())),
    ],
    "questions-answered-by-update": [
        good(answered(DONE)),
        nothing(answered(asks())),
        bad(answered().wait(6_000).get(asks())),
        # no answer to the form
        nothing(
            asking()
            .update({"size": {"action": "accept", "content": {}}})
            .acknowledge()
            .wait(6_000)
            .get(asks())
        ),
    ],
    "update-ack-before-effect": [good(answered(asks())), nothing(answered(DONE))],
    "ignore-never-issued-keys": [
        good(
            asking().update({"x": ACCEPTED}).acknowledge(),
            asking().update({"x": ACCEPTED}).acknowledge().get(asks()),
        ),
        nothing(
            asking().update({"x": ACCEPTED}).error(-32603, "Too many requests"),
            asking().update({"x": 7}).error(-32602),
        ),
        bad(
            asking().update({"x": ACCEPTED}).error(-32602),
            asking().update({"x": ACCEPTED}).acknowledge().get(DONE),
        ),
    ],
    "ignore-answered-keys": [
        good(answered().update().acknowledge(), repeated("the same", "the same")),
        bad(answered().update().error(-32602), repeated("the first", "the second")),
    ],
    "ignore-superseded-keys": [
        good(answered(DONE).update().acknowledge()),
        nothing(answered().update().error(-32602)),
        bad(answered(DONE).update().error(-32602)),
        # it may be gone
        nothing(asking().cancel().acknowledge().get(task(status="cancelled")).update().error(1)),
    ],
    "partial-answers": [good(partial()), nothing(asking().update().acknowledge())],
    "partial-stays-input-required": [
        good(partial(asks(other=OTHER))),
        nothing(partial(task(status="failed")), answered(DONE)),
        warning(partial(DONE)),
    ],
    "update-ack-empty": [
        good(asking().update().acknowledge(_meta={})),
        nothing(asking().update().error(-32602)),
        note(asking().update().acknowledge(xMore=1)),
        bad(asking().update().acknowledge(status="working"), asking().update().answer(None)),
    ],
    "cancel-ack-empty": [
        good(running().cancel().acknowledge()),
        bad(running().cancel().acknowledge(**task())),
    ],
    "update-result-type-complete": [
        good(asking().update().acknowledge()),
        bad(asking().update().answer({})),
    ],
    "cancel-result-type-complete": [
        good(running().cancel().acknowledge()),
        bad(running().cancel().answer({"resultType": 1})),
    ],
    "cancel-cooperative": [
        good(running().cancel().acknowledge()),
        nothing(
            running().cancel().error(-32603, "rate limit"),
            running().cancel(caller="B").error(-32602),
            stdio().create().cancel(line=2).error(-32602),
        ),
        bad(running().cancel().error(-32603)),
    ],
    "cancel-terminal-acked": [
        good(ended().cancel().acknowledge(), ended().cancel().acknowledge().cancel().error(1)),
        nothing(ended().wait(70_000).cancel().error(-32602)),
        bad(ended().cancel().error(-32602)),
    ],
    "cancel-status-may-lag": [
        good(running().cancel().acknowledge().get(task())),
        nothing(running().cancel().acknowledge().get(DONE)),
    ],
    "cancel-may-lose": [
        good(running().cancel().acknowledge().get(DONE)),
        nothing(ended().cancel().acknowledge().get(DONE)),
    ],
    "missing-capability-names-extension": [
        good(undeclared("tasks/get").error(-32021, data=MISSING)),
        bad(undeclared("tasks/get").error(-32021)),
        # something else is missing
        nothing(
            http().call(declares=False).error(-32021, data={"requiredCapabilities": {"a": {}}})
        ),
    ],
    "standard-jsonrpc-errors": [good(unknown().error(-32602)), bad(unknown().error(-32001))],
    "internal-error-32603": [
        good(unknown().error(-32603)),
        nothing(unknown().error(-32602)),
        bad(unknown().error(1, "Internal error"), unknown().error(1, "no", status=500)),
    ],
    "informative-error-messages": [
        good(unknown().error(-32602, "Task not found")),
        bad(unknown().error(-32602, "")),
        mixed(
            unknown()
            .error(-32602, "Error")
            .ask("tasks/get", {"taskId": "x"}, declares=False)
            .error(-32021, "Error")
        ),
    ],
    "no-tasks-list": [
        good(http().ask("tasks/list").error(-32601, status=404)),
        bad(
            http().ask("tasks/list").answer({"tasks": []}),
            http().ask("tasks/list").error(-32602),
        ),
    ],
    "tasks-result-gone-32601": [
        good(http().ask("tasks/result").error(-32601)),
        bad(http().ask("tasks/result").answer({})),
    ],
    "auth-on-each-request": [
        good(foreign().not_found(caller="B")),
        nothing(foreign().get(task()), http().create().get(task(), caller="B")),
        warning(foreign().cancel(caller="B").acknowledge()),
        bad(
            foreign().get(task(), caller="B"), foreign().get(task(), headers={"authorization": ""})
        ),
    ],
    "ids-as-bearer-tokens": [
        good(http().create().get(task(), caller="B", line=2)),
        nothing(foreign().get(task(), caller="B", line=2)),
    ],
    "server-declares-in-discover": [
        good(http().discover().create()),
        nothing(http().discover({})),
        bad(http().discover({}).create()),
    ],
    "legacy-servers-migrate": [bad(http().discover(None).create())],
    "extension-identifier": [
        good(http().discover()),
        nothing(http().discover({"com.example/tasks": {}})),
        bad(http().discover({"tasks": {}})),
    ],
    "capability-empty-object": [
        good(http().discover()),
        bad(http().discover({TASKS: None}), http().call().error(-32021, data=MISSING)),
    ],
    "legacy-capabilities-not-advertised": [
        good(http().discover()),
        bad(http().discover(tasks={})),
    ],
    "extension-label-reserved": [
        good(http().discover()),
        bad(http().discover({}, experimental={TASKS: {}})),
        mixed(unknown().acknowledge(_meta={TASKS: 1})),
    ],
    "method-prefix-reserved": [
        good(http().push("notifications/tasks", task())),
        nothing(old_task().push("notifications/tasks/status", {}, line=2)),
        bad(http().push("notifications/tasks/status", {})),
    ],
    "server-may-create-task": [good(http().create())],
    "never-creating-is-fine": [
        good(http().discover().call().answer(PLAIN)),
        nothing(http().create()),
    ],
    "server-decides-alone": [
        good(http().create()),
        nothing(both_ways(PLAIN, with_task=PLAIN)),
        bad(both_ways(PLAIN, with_task=NEW)),
    ],
    "no-task-for-undeclared": [
        good(http().create().call(declares=False).answer(PLAIN)),
        nothing(http().call(declares=False).answer(PLAIN)),
        bad(http().call(declares=False).answer(NEW)),
    ],
    "missing-capability-32021": [
        good(http().call(declares=False).error(-32021, data=MISSING)),
        nothing(http().call(declares=False).error(-32602)),
        bad(
            http().create().call(declares=False).error(-32601),
            http().call(declares=False).error(-32603, data=MISSING),
        ),
    ],
    "task-parameter-ignored": [
        good(both_ways(NEW, with_task=NEW)),
        bad(
            http().call().answer(PLAIN).call(more={"task": {}}).error(-32602),
            http()
            .call(declares=False)
            .answer(PLAIN)
            .call(more={"task": {}}, declares=False)
            .answer(NEW),
        ),
    ],
    "legacy-capability-is-undeclared": [
        good(http().create().call(declares=False, capabilities=OLD).answer(PLAIN)),
        bad(
            http().create().call(declares=False, capabilities=OLD).answer(NEW),
            http().create().get(task(), declares=False, capabilities=OLD),
        ),
        # a task of the older revision
        nothing(old_task().discover().get(task("o"), declares=False, capabilities=OLD)),
    ],
    "extension-not-under-2025-11-25": [
        good(old("tools/call").answer({"content": []})),
        nothing(old_task()),
        bad(old("tools/call").answer(NEW)),
    ],
    "legacy-tasks-still-served": [
        good(old_task().request("tasks/get", {"taskId": "o"}, line=2).answer({"taskId": "o"})),
        bad(old_task().request("tasks/cancel", {"taskId": "o"}, line=2).error(-32601)),
    ],
}

CASES = table("2026-07-28", ROWS)
