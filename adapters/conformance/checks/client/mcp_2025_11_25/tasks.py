"""When and how clients of 2025-11-25 make tasks, and what they say about them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.checks.client.polling import (
    PATIENCE_MS,
    has_hung,
    lived_until,
    requests_for,
)
from taskmachine.adapters.conformance.clients.view import as_client
from taskmachine.adapters.conformance.history import RELATED, Entry, Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good, note

__all__: list[str] = []

_CALLS: Final = "a client that calls tools"


def _has(capabilities: Any, *path: str) -> bool:
    found = capabilities
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return isinstance(found, Mapping)


def _client_capabilities(history: History) -> dict[int, Mapping[str, Any]]:
    """What the client declared, for each line."""
    return {
        entry.line: entry.params["capabilities"]
        for entry in history.heard
        if entry.method == "initialize" and isinstance(entry.params.get("capabilities"), dict)
    }


def _calls_and_capabilities(client: History) -> Iterator[tuple[Exchange, Mapping[str, Any]]]:
    """Tool calls of the client, with what we had declared."""
    for exchange in client.calls("tools/call"):
        capabilities = client.capabilities.get(exchange.request.line)
        if capabilities is not None:
            yield exchange, capabilities


# --- what may be a task --------------------------------------------------------------------------


@client_check(
    "2025-11-25:no-tasks-without-capability", needs="a client that calls tools without tasks"
)
def no_tasks_without_capability(history: History) -> Iterator[Observation]:
    """A server without `tasks` gets no `params.task`."""
    for exchange, capabilities in _calls_and_capabilities(as_client(history)):
        if not _has(capabilities, "tasks"):
            if "task" in exchange.params:
                yield bad("sent `params.task` to a server without `tasks`", exchange)
            else:
                yield good(exchange)


@client_check(
    "2025-11-25:no-tool-task-without-capability",
    "2025-11-25:augment-only-if-declared",
    needs="a client that calls tools which cannot be tasks",
)
def no_tool_tasks_without_capability(history: History) -> Iterator[Observation]:
    """Without `tasks.requests.tools.call` there is no `params.task`, whatever the tools say."""
    for exchange, capabilities in _calls_and_capabilities(as_client(history)):
        if not _has(capabilities, "tasks", "requests", "tools", "call"):
            if "task" in exchange.params:
                yield bad("sent `params.task`, but tool calls cannot be tasks here", exchange)
            else:
                yield good(exchange)


@client_check("2025-11-25:only-negotiated-capabilities", needs=_CALLS)
def only_negotiated(history: History) -> Iterator[Observation]:
    """Neither `params.task` nor task methods without the capability for them."""
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
                yield bad(f"used what was not declared: {'.'.join(needed)}", exchange)


def _tool_calls(client: History) -> Iterator[tuple[Exchange, Any]]:
    """Calls of tools that can be tasks here, with what the tool says of that; None if nothing.

    Only if the list with the tool had been heard.
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
    needs="a client that calls tools which are no tasks",
)
def forbidden_not_as_task(history: History) -> Iterator[Observation]:
    """A tool that is marked forbidden, or not marked, is called plainly."""
    for exchange, support in _tool_calls(as_client(history)):
        if support in (None, "forbidden"):
            if "task" in exchange.params:
                how = "not marked" if support is None else "marked forbidden"
                yield bad(f"called a tool as a task that is {how}", exchange)
            else:
                yield good(exchange)


@client_check("2025-11-25:required-tool-called-as-task", needs="a client that calls such a tool")
def required_as_task(history: History) -> Iterator[Observation]:
    """A tool that is marked required is called as a task."""
    for exchange, support in _tool_calls(as_client(history)):
        if support == "required":
            if "task" in exchange.params:
                yield good(exchange)
            else:
                yield bad("called a tool plainly that must be called as a task", exchange)


@client_check("2025-11-25:optional-tool-either-way", needs="a client that calls such a tool")
def optional_either_way(history: History) -> Iterator[Observation]:
    """Both are fine."""
    for exchange, support in _tool_calls(as_client(history)):
        if support == "optional":
            yield good(exchange)


def _augmented(history: History) -> Iterator[Exchange]:
    return (e for e in as_client(history).exchanges if "task" in e.params)


@client_check("2025-11-25:task-field-asks-for-task", needs="a client that makes a task")
def task_field(history: History) -> Iterator[Observation]:
    """`task` is an object."""
    for exchange in _augmented(history):
        is_object = isinstance(exchange.params["task"], dict)
        yield good(exchange) if is_object else bad("`params.task` is no object", exchange)


@client_check("2025-11-25:ttl-parameter-number", needs="a client that asks for a ttl")
def ttl_number(history: History) -> Iterator[Observation]:
    """`ttl` is a number, if it is there."""
    for exchange in _augmented(history):
        task = exchange.params["task"]
        if isinstance(task, dict) and "ttl" in task:
            ttl = task["ttl"]
            is_number = isinstance(ttl, int | float) and not isinstance(ttl, bool)
            yield good(exchange) if is_number else bad(f"`task.ttl` is {ttl!r:.40}", exchange)


@client_check("2025-11-25:request-ttl", needs="a client that makes a task")
def may_ask_for_ttl(history: History) -> Iterator[Observation]:
    """With or without, both are fine."""
    for exchange in _augmented(history):
        yield good(exchange)


# --- capabilities of the client ------------------------------------------------------------------


@client_check("2025-11-25:capability-shape", needs="a client that declares `tasks`")
def capability_shape(history: History) -> Iterator[Observation]:
    """`tasks` holds objects under the known names."""
    for entry in history.heard:
        declared = entry.params.get("capabilities") if entry.method == "initialize" else None
        if not isinstance(declared, dict) or "tasks" not in declared:
            continue
        tasks = declared["tasks"]
        if not isinstance(tasks, dict):
            yield bad("`capabilities.tasks` is no object", entry)
        elif unknown := set(tasks) - {"list", "cancel", "requests"}:
            yield bad(f"`capabilities.tasks` has {sorted(unknown)[0]!r}", entry)
        elif not all(isinstance(value, dict) for value in tasks.values()):
            yield bad("`capabilities.tasks` holds something else than objects", entry)
        else:
            yield good(entry)


@client_check("2025-11-25:client-capability-keys", needs="a client that declares `tasks.requests`")
def capability_keys(history: History) -> Iterator[Observation]:
    """Only sampling and elicitation can be tasks of a client."""
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
            yield bad(f"declared {'.'.join(sorted(found - allowed)[0])} for tasks", entry)


@client_check("2025-11-25:capability-declared", needs="a client that makes tasks of our requests")
def capability_declared(history: History) -> Iterator[Observation]:
    """Whoever answers with a task has declared that."""
    declared = _client_capabilities(history)
    for exchange in history.created.values():
        if _has(declared.get(exchange.request.line), "tasks"):
            yield good(exchange)
        else:
            yield bad("answered with a task, but declared no `tasks`", exchange)


# --- related-task metadata -----------------------------------------------------------------------


@client_check(
    "2025-11-25:no-related-task-on-task-requests", needs="a client that asks for its tasks"
)
def no_related_task_on_requests(history: History) -> Iterator[Observation]:
    """The parameter names the task already."""
    for exchange in as_client(history).calls("tasks/get", "tasks/result", "tasks/cancel"):
        if RELATED in exchange.request.meta:
            yield bad(f"`{exchange.method}` has related-task metadata", exchange)
        else:
            yield good(exchange)


@client_check("2025-11-25:no-related-task-on-list-request", needs="a client that lists its tasks")
def no_related_task_on_list(history: History) -> Iterator[Observation]:
    """A list is about no task."""
    for exchange in as_client(history).calls("tasks/list"):
        if RELATED in exchange.request.meta:
            yield bad("`tasks/list` has related-task metadata", exchange)
        else:
            yield good(exchange)


@client_check(
    "2025-11-25:related-task-on-answer",
    "2025-11-25:related-task-on-task-messages",
    needs="a client that answers the question of a task",
)
def related_task_on_answer(history: History) -> Iterator[Observation]:
    """The answer names the task that the question named; an error has no place for that."""
    for question, answer in as_client(history).questions:
        if answer is None or question.related_task is None or "result" not in answer.body:
            continue
        if answer.related_task == question.related_task:
            yield good(question, answer)
        elif answer.related_task is None:
            yield bad("an answer to a task's question has no related-task", question, answer)
        else:
            yield bad("an answer names another task than its question", question, answer)


@client_check("2025-11-25:related-task-value-shape", needs="a client that names a task")
def related_task_shape(history: History) -> Iterator[Observation]:
    """An object with a `taskId` that is a string."""
    for entry in history.heard:
        if RELATED in entry.meta:
            value = entry.meta[RELATED]
            if isinstance(value, dict) and isinstance(value.get("taskId"), str):
                yield good(entry)
            else:
                yield bad(f"related-task is {value!r:.60}", entry)


# --- input_required ------------------------------------------------------------------------------


@client_check(
    "2025-11-25:result-called-on-input-required",
    needs="a client that answers questions, and polls a task that asks",
)
def result_on_input_required(history: History) -> Iterator[Observation]:
    """Having seen `input_required` the client calls `tasks/result`, if it does not wait there."""
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
        silence = lived_until(history) - shown.response.at
        if len(still) >= 2 and not waiting:
            yield bad("saw 'input_required' and did not call `tasks/result`", shown, *still[:2])
        elif called is not None or waiting:
            yield good(shown, *([] if called is None else [called]))
        elif not later and silence > (PATIENCE_MS if has_hung(history) else _SOON_MS):
            yield bad("saw 'input_required' and turned away", shown)


_INPUT: Final = "input_required"
_SOON_MS: Final = 1_000.0


@client_check("2025-11-25:cancelled-not-relied-on", needs="a client that cancels a task")
def copes_with_cancelled(history: History) -> Iterator[Observation]:
    """After a cancel the client asks no more, or copes with what it hears."""
    client = as_client(history)
    for exchange in client.calls("tasks/cancel"):
        if exchange.is_answered:
            yield good(exchange)


@client_check(
    "2025-11-25:poll-when-not-waiting", needs="a client whose `tasks/result` is broken off"
)
def polls_when_not_waiting(history: History) -> Iterator[Observation]:
    """After a `tasks/result` that was broken off the client asks again."""
    client = as_client(history)
    for task_id, results in client.results.items():
        for broken in results:
            if broken.is_answered or broken.end is None:
                continue
            later = [
                e for e in requests_for(client, task_id) if e.request.number > broken.end.number
            ]
            yield good(broken, later[0]) if later else note("did not ask again", broken)


def _streams_left(client: History, method: str) -> Iterator[Entry]:
    for exchange in client.calls(method):
        if exchange.end is not None and exchange.end.kind.name == "LEFT":
            yield exchange.end


@client_check("2025-11-25:get-stream-disconnect", needs="a client that leaves such a stream")
def may_leave_get(history: History) -> Iterator[Observation]:
    """No harm."""
    for end in _streams_left(as_client(history), "tasks/get"):
        yield good(end)


@client_check("2025-11-25:result-stream-disconnect", needs="a client that leaves such a stream")
def may_leave_result(history: History) -> Iterator[Observation]:
    """No harm."""
    for end in _streams_left(as_client(history), "tasks/result"):
        yield good(end)
