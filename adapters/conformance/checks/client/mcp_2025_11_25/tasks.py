"""Checks of clients that create, poll, and cancel tasks (2025-11-25)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.checks.client.polling import (
    INACTIVE_MS,
    active_until,
    requests_for,
    was_stopped,
)
from taskmachine.adapters.conformance.clients.view import as_client
from taskmachine.adapters.conformance.history import RELATED, Exchange, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good, note

__all__: list[str] = []

_CALLS: Final = "a client that calls tools"


def _has(capabilities: Any, *path: str) -> bool:
    found = capabilities
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return isinstance(found, Mapping)


def _client_capabilities(history: History) -> dict[int, Mapping[str, Any]]:
    """Return the capabilities of the client for each connection."""
    return {
        entry.line: entry.params["capabilities"]
        for entry in history.heard
        if entry.method == "initialize" and isinstance(entry.params.get("capabilities"), dict)
    }


def _calls_and_capabilities(client: History) -> Iterator[tuple[Exchange, Mapping[str, Any]]]:
    """Yield tool calls of the client with the server's capabilities."""
    for exchange in client.calls("tools/call"):
        capabilities = client.capabilities.get(exchange.request.line)
        if capabilities is not None:
            yield exchange, capabilities


# --- creation -------------------------------------------------------------------------------------


@client_check(
    "2025-11-25:no-tasks-without-capability",
    needs="a client that calls tools of a server without tasks",
)
def no_tasks_without_capability(history: History) -> Iterator[Observation]:
    """Check that a server without `tasks` receives no `params.task`."""
    for exchange, capabilities in _calls_and_capabilities(as_client(history)):
        if not _has(capabilities, "tasks"):
            if "task" in exchange.params:
                words = "the client sent 'params.task' to a server that does not declare 'tasks'"
                yield bad(words, exchange)
            else:
                yield good(exchange)


@client_check(
    "2025-11-25:no-tool-task-without-capability",
    "2025-11-25:augment-only-if-declared",
    needs="a client that calls tools of a server without tasks for tool calls",
)
def no_tool_tasks_without_capability(history: History) -> Iterator[Observation]:
    """Check that `params.task` requires `tasks.requests.tools.call`, whatever the tools declare."""
    for exchange, capabilities in _calls_and_capabilities(as_client(history)):
        if not _has(capabilities, "tasks", "requests", "tools", "call"):
            if "task" in exchange.params:
                words = "the server does not declare tasks for tool calls, but got 'params.task'"
                yield bad(words, exchange)
            else:
                yield good(exchange)


@client_check("2025-11-25:only-negotiated-capabilities", needs=_CALLS)
def only_negotiated(history: History) -> Iterator[Observation]:
    """Check that `params.task` and task methods are used only with the server's capability."""
    client = as_client(history)
    for exchange in client.exchanges:
        capabilities = client.capabilities.get(exchange.request.line)
        if capabilities is None:
            continue
        needed = {
            "tasks/list": ("tasks", "list"),
            "tasks/cancel": ("tasks", "cancel"),
            "tasks/get": ("tasks",),
            "tasks/result": ("tasks",),
        }.get(exchange.method)
        if exchange.method == "tools/call" and "task" in exchange.params:
            needed = ("tasks", "requests", "tools", "call")
        if needed is not None:
            if _has(capabilities, *needed):
                yield good(exchange)
            else:
                words = f"the client used {'.'.join(needed)!r}, which the server did not declare"
                yield bad(words, exchange)


def _tool_calls(client: History) -> Iterator[tuple[Exchange, Any]]:
    """Yield calls of tools with task support on the server, with the tool's `taskSupport` or None.

    Only calls after the response that listed the tool.
    """
    listed: dict[tuple[int, str], tuple[int, Any]] = {}
    for exchange in client.calls("tools/list"):
        tools = exchange.fields.get("tools")
        for tool in tools if isinstance(tools, list) and exchange.response is not None else ():
            execution = tool.get("execution") or {}
            assert exchange.response is not None
            key = exchange.request.line, tool["name"]
            listed.setdefault(key, (exchange.response.number, execution.get("taskSupport")))
    for exchange, capabilities in _calls_and_capabilities(client):
        known = listed.get((exchange.request.line, str(exchange.params.get("name"))))
        can = _has(capabilities, "tasks", "requests", "tools", "call")
        if can and known is not None and known[0] < exchange.request.number:
            yield exchange, known[1]


@client_check(
    "2025-11-25:forbidden-tool-not-called-as-task",
    "2025-11-25:task-support-default-forbidden",
    needs="a client that calls tools without task support",
)
def forbidden_not_as_task(history: History) -> Iterator[Observation]:
    """Check that a tool with forbidden or without task support is called without `task`."""
    for exchange, support in _tool_calls(as_client(history)):
        if support in (None, "forbidden"):
            if "task" in exchange.params:
                how = "has no 'taskSupport'" if support is None else "has 'taskSupport' 'forbidden'"
                yield bad(f"the client sent 'params.task' for a tool that {how}", exchange)
            else:
                yield good(exchange)


@client_check(
    "2025-11-25:required-tool-called-as-task",
    needs="a client that calls a tool whose 'taskSupport' is 'required'",
)
def required_as_task(history: History) -> Iterator[Observation]:
    """Check that a tool with required task support is called with `task`."""
    for exchange, support in _tool_calls(as_client(history)):
        if support == "required":
            if "task" in exchange.params:
                yield good(exchange)
            else:
                yield bad("the client called a 'required' tool without 'params.task'", exchange)


@client_check(
    "2025-11-25:optional-tool-either-way",
    needs="a client that calls a tool whose 'taskSupport' is 'optional'",
)
def optional_either_way(history: History) -> Iterator[Observation]:
    """Record calls of optional tools, with or without a task."""
    for exchange, support in _tool_calls(as_client(history)):
        if support == "optional":
            yield good(exchange)


def _augmented(history: History) -> Iterator[Exchange]:
    return (e for e in as_client(history).exchanges if "task" in e.params)


@client_check("2025-11-25:task-field-asks-for-task", needs="a client that creates a task")
def task_field(history: History) -> Iterator[Observation]:
    """Check that `task` is an object."""
    for exchange in _augmented(history):
        is_object = isinstance(exchange.params["task"], dict)
        yield good(exchange) if is_object else bad("'params.task' is not an object", exchange)


@client_check("2025-11-25:ttl-parameter-number", needs="a client that requests a ttl")
def ttl_number(history: History) -> Iterator[Observation]:
    """Check that `ttl` is a number or absent."""
    for exchange in _augmented(history):
        task = exchange.params["task"]
        if isinstance(task, dict) and "ttl" in task:
            ttl = task["ttl"]
            is_number = isinstance(ttl, int | float) and not isinstance(ttl, bool)
            if is_number:
                yield good(exchange)
            else:
                yield bad(f"'params.task.ttl' is {ttl!r:.40}, not a number", exchange)


@client_check("2025-11-25:request-ttl", needs="a client that creates a task")
def may_ask_for_ttl(history: History) -> Iterator[Observation]:
    """Record task calls; requesting a ttl is optional."""
    for exchange in _augmented(history):
        yield good(exchange)


# --- capabilities of the client -------------------------------------------------------------------


@client_check("2025-11-25:capability-shape", needs="a client that declares `tasks`")
def capability_shape(history: History) -> Iterator[Observation]:
    """Check that `tasks` contains only defined capabilities, which are objects."""
    for entry in history.heard:
        declared = entry.params.get("capabilities") if entry.method == "initialize" else None
        if not isinstance(declared, dict) or "tasks" not in declared:
            continue
        tasks = declared["tasks"]
        if not isinstance(tasks, dict):
            yield bad("the client's capability 'tasks' is not an object", entry)
        elif unknown := set(tasks) - {"list", "cancel", "requests"}:
            words = f"the client's capability 'tasks' has the unknown item {sorted(unknown)[0]!r}"
            yield bad(words, entry)
        elif not all(isinstance(value, dict) for value in tasks.values()):
            words = "the client's capability 'tasks' contains a value that is not an object"
            yield bad(words, entry)
        else:
            yield good(entry)


@client_check("2025-11-25:client-capability-keys", needs="a client that declares `tasks.requests`")
def capability_keys(history: History) -> Iterator[Observation]:
    """Check that a client declares tasks for sampling and elicitation only."""
    allowed = {("sampling", "createMessage"), ("elicitation", "create")}
    for line, declared in _client_capabilities(history).items():
        if not _has(declared, "tasks", "requests"):
            continue
        entry = next(e for e in history.heard if e.line == line and e.method == "initialize")
        requests = declared["tasks"]["requests"]
        found = {
            (category, method)
            for category, methods in requests.items()
            for method in (methods if isinstance(methods, dict) else {"?": {}})
        }
        if found <= allowed:
            yield good(entry)
        else:
            words = f"the client declares tasks for {'.'.join(sorted(found - allowed)[0])}"
            yield bad(words, entry)


@client_check("2025-11-25:capability-declared", needs="a client that accepts requests as tasks")
def capability_declared(history: History) -> Iterator[Observation]:
    """Check that a client that creates tasks declares `tasks`."""
    declared = _client_capabilities(history)
    for exchange in history.created.values():
        if _has(declared.get(exchange.request.line), "tasks"):
            yield good(exchange)
        else:
            yield bad("the client responded with a task without declaring 'tasks'", exchange)


# --- related-task metadata ------------------------------------------------------------------------


@client_check(
    "2025-11-25:no-related-task-on-task-requests",
    needs="a client that reads its tasks",
    methods=("tasks/get", "tasks/result", "tasks/cancel"),
)
@client_check(
    "2025-11-25:no-related-task-on-list-request",
    needs="a client that lists its tasks",
    methods=("tasks/list",),
)
def no_related_task(history: History, methods: tuple[str, ...]) -> Iterator[Observation]:
    """Check that task requests have no related-task metadata."""
    for exchange in as_client(history).calls(*methods):
        if RELATED in exchange.request.meta:
            yield bad(f"the client sent {exchange.method!r} with related-task metadata", exchange)
        else:
            yield good(exchange)


@client_check(
    "2025-11-25:related-task-on-answer",
    "2025-11-25:related-task-on-task-messages",
    needs="a client that responds to a request of a task",
)
def related_task_on_answer(history: History) -> Iterator[Observation]:
    """Check that the response names the task that the request named, unless it is an error."""
    for question, answer in as_client(history).questions:
        if answer is None or question.related_task is None or "result" not in answer.body:
            continue
        if answer.related_task == question.related_task:
            yield good(question, answer)
        elif answer.related_task is None:
            words = "the response to a task's request has no related-task metadata"
            yield bad(words, question, answer)
        else:
            words = "the related-task metadata of a response names another task"
            yield bad(words, question, answer)


@client_check(
    "2025-11-25:related-task-value-shape", needs="a client that sends related-task metadata"
)
def related_task_shape(history: History) -> Iterator[Observation]:
    """Check that the metadata is an object with a string `taskId`."""
    for entry in history.heard:
        if RELATED in entry.meta:
            value = entry.meta[RELATED]
            if isinstance(value, dict) and isinstance(value.get("taskId"), str):
                yield good(entry)
            else:
                words = f"the related-task metadata is {value!r:.60}, not an object with a 'taskId'"
                yield bad(words, entry)


# --- input_required -------------------------------------------------------------------------------


@client_check(
    "2025-11-25:result-called-on-input-required",
    needs="a client that responds to requests and polls a task that requests input",
)
def result_on_input_required(history: History) -> Iterator[Observation]:
    """Check that the client calls `tasks/result` after `input_required`, unless one is open."""
    client = as_client(history)
    for task_id in client.created:
        asked = requests_for(client, task_id)
        shown = next(
            (e for e in asked if e.method == "tasks/get" and e.fields.get("status") == _INPUT), None
        )
        if shown is None or shown.response is None:
            continue
        later = [e for e in asked if e.request.number > shown.response.number]
        waiting = [e for e in asked if e.method == "tasks/result" and e not in later]
        called = next((e for e in later if e.method == "tasks/result"), None)
        still = [
            e
            for e in later
            if e.fields.get("status") == _INPUT
            and (called is None or e.request.number < called.request.number)
        ]
        silence = active_until(history) - shown.response.at
        if len(still) >= 2 and not waiting:
            words = "the client read 'input_required', but did not call 'tasks/result'"
            yield bad(words, shown, *still[:2])
        elif called is not None or waiting:
            yield good(shown, *([] if called is None else [called]))
        elif not later and silence > (INACTIVE_MS if was_stopped(history) else _SOON_MS):
            words = "the client read 'input_required' and sent no more requests for the task"
            yield bad(words, shown)


_INPUT: Final = "input_required"
_SOON_MS: Final = 1_000.0


@client_check("2025-11-25:cancelled-not-relied-on", needs="a client that cancels a task")
def cancellation_is_answered(history: History) -> Iterator[Observation]:
    """Record cancellations that the server responded to."""
    client = as_client(history)
    for exchange in client.calls("tasks/cancel"):
        if exchange.is_answered:
            yield good(exchange)


@client_check(
    "2025-11-25:poll-when-not-waiting", needs="a client whose `tasks/result` is disconnected"
)
def polls_when_not_waiting(history: History) -> Iterator[Observation]:
    """Note clients that do not poll after a disconnected `tasks/result`."""
    client = as_client(history)
    for task_id, results in client.results.items():
        for broken in results:
            if broken.is_answered or broken.end is None:
                continue
            later = [
                e for e in requests_for(client, task_id) if e.request.number > broken.end.number
            ]
            if later:
                yield good(broken, later[0])
            else:
                words = "the client did not poll after its 'tasks/result' was disconnected"
                yield note(words, broken)


@client_check(
    "2025-11-25:get-stream-disconnect",
    needs="a client that disconnects the stream of 'tasks/get'",
    method="tasks/get",
)
@client_check(
    "2025-11-25:result-stream-disconnect",
    needs="a client that disconnects the stream of 'tasks/result'",
    method="tasks/result",
)
def streams_may_be_disconnected(history: History, method: str) -> Iterator[Observation]:
    """Record disconnected streams, which are allowed."""
    for exchange in as_client(history).calls(method):
        if exchange.end is not None and exchange.end.kind is Kind.LEFT:
            yield good(exchange.end)
