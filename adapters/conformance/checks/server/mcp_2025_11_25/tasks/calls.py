"""Checks of task capabilities and of calls that request a task (2025-11-25)."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.arguments import is_valid
from taskmachine.adapters.conformance.checks.reading.task_rules import task_record
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    declares,
    has_access,
    has_valid_arguments,
    is_overdue,
    is_overloaded,
    is_task_call,
    task_support,
)
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note, warning

__all__: list[str] = []

IMMEDIATE: Final = "io.modelcontextprotocol/model-immediate-response"
A_TASK: Final = "a tool that can be called as a task"
OWN_RESULT: Final = ("content", "structuredContent", "isError")


# --- capabilities ---------------------------------------------------------------------------------


@check("2025-11-25:capability-declared", needs=A_TASK)
def tasks_are_declared(history: History) -> Iterator[Observation]:
    """Check that a target that creates tasks declares `tasks`."""
    for exchange in _creations(history):
        declared = history.capabilities.get(exchange.request.line)
        if declared is None:
            continue
        if declared.get("tasks") is None:
            yield bad("the target created a task without declaring 'tasks'", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:capability-shape", needs="a target that declares the 'tasks' capability")
def capability_has_its_shape(history: History) -> Iterator[Observation]:
    """Check that each declared item is an object."""
    for exchange, tasks in _declared(history):
        wrong = [path for path, value in _items(tasks) if not isinstance(value, dict)]
        unknown = sorted(set(tasks if isinstance(tasks, dict) else ()) - _ITEMS)
        if wrong:
            yield bad(f"the capability '{wrong[0]}' is declared, but is not an object", exchange)
        elif unknown:
            words = f"'tasks' contains {unknown[0]!r}, which the specification does not define"
            yield note(words, exchange)
        else:
            yield good(exchange)


@check("2025-11-25:server-capability-keys", needs="a target that declares the 'tasks' capability")
def servers_offer_tools_only(history: History) -> Iterator[Observation]:
    """Check that a server declares tasks for `tools/call` only."""
    for exchange, tasks in _declared(history):
        requests = tasks.get("requests") if isinstance(tasks, dict) else None
        if not isinstance(requests, dict):
            continue
        tools = requests.get("tools")
        others = {*requests} - {"tools"} | (
            {*tools} - {"call"} if isinstance(tools, dict) else set()
        )
        if others:
            words = f"a server can declare tasks for 'tools/call' only, not {sorted(others)[0]!r}"
            yield bad(words, exchange)
        else:
            yield good(exchange)


@check(
    "2025-11-25:capability-requests-exhaustive",
    needs="a request with 'task' of a type without declared task support",
)
def only_declared_types_make_tasks(history: History) -> Iterator[Observation]:
    """Check that request types without declared task support create no tasks."""
    for exchange in _undeclared(history):
        if isinstance(exchange.fields.get("task"), dict):
            yield bad(f"the target created an undeclared task for {exchange.method!r}", exchange)
        elif exchange.fields or exchange.result == {}:
            yield good(exchange)


@check(
    "2025-11-25:undeclared-type-processed-normally",
    needs="a request with 'task' of a type without declared task support",
)
def undeclared_types_ignore_task(history: History) -> Iterator[Observation]:
    """Check that `task` is ignored for request types without declared task support."""
    for exchange in _undeclared(history):
        served = _same_without_task(history, exchange)
        if isinstance(exchange.fields.get("task"), dict):
            words = f"the target must ignore 'task' of {exchange.method!r}, but created a task"
            yield bad(words, exchange)
        elif exchange.error is not None and served is not None and not is_overloaded(exchange):
            words = f"{exchange.method!r} with 'task' got error {exchange.code}, not a plain result"
            yield bad(words, served, exchange)
        elif exchange.fields or exchange.result == {}:
            yield good(exchange)


@check("2025-11-25:get-and-result-always-served", needs=A_TASK)
def get_and_result_are_implemented(history: History) -> Iterator[Observation]:
    """Check that a target that creates tasks serves `tasks/get` and `tasks/result`."""
    for exchange in history.calls("tasks/get", "tasks/result"):
        record = task_record(history, exchange.task_id, exchange.request)
        if record is None or not exchange.is_answered or not has_access(history, record, exchange):
            continue
        ended_so = exchange.method == "tasks/result" and any(
            s.status in ("failed", "cancelled") for s in record.sightings
        )
        if exchange.code == METHOD_NOT_FOUND and not ended_so:
            words = f"the target creates tasks, but does not implement {exchange.method!r}"
            yield bad(words, exchange)
        else:
            yield good(exchange)


# --- tool support ---------------------------------------------------------------------------------


@check("2025-11-25:task-support-values", needs="a tool that has 'execution.taskSupport'")
def support_has_three_values(history: History) -> Iterator[Observation]:
    """Check that `taskSupport` is `required`, `optional` or `forbidden`."""
    for exchange in history.calls("tools/list"):
        tools = exchange.fields.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            execution = tool.get("execution") if isinstance(tool, dict) else None
            if not isinstance(execution, dict) or "taskSupport" not in execution:
                continue
            if execution["taskSupport"] in ("required", "optional", "forbidden"):
                yield good(exchange)
            else:
                words = (
                    f"'taskSupport' of {tool.get('name')!r} is {execution['taskSupport']!r}, "
                    "not 'required', 'optional' or 'forbidden'"
                )
                yield bad(words, exchange)


@check(
    "2025-11-25:forbidden-tool-task-refused-32601",
    needs="a tool whose 'taskSupport' is 'forbidden'",
)
def forbidden_tools_refuse_tasks(history: History) -> Iterator[Observation]:
    """Check that a task call of a tool with forbidden task support is rejected with -32601."""
    for exchange in _task_calls(history):
        if task_support(history, exchange) != "forbidden":
            continue
        if exchange.code == METHOD_NOT_FOUND:
            yield good(exchange)
        elif exchange.error is None:
            yield bad("the target accepted a call of a 'forbidden' tool with 'task'", exchange)
        elif has_valid_arguments(history, exchange):
            words = f"a call of a 'forbidden' tool with 'task' got {exchange.code}, not -32601"
            yield bad(words, exchange)


@check("2025-11-25:task-support-default-forbidden", needs="a tool without 'taskSupport'")
def unmarked_tools_are_forbidden(history: History) -> Iterator[Observation]:
    """Check that a tool without `taskSupport` creates no task."""
    for exchange in _task_calls(history):
        if task_support(history, exchange) != "forbidden" or _is_marked(history, exchange):
            continue
        if isinstance(exchange.fields.get("task"), dict):
            words = "a tool without 'taskSupport' created a task; the default is 'forbidden'"
            yield bad(words, exchange)
        else:
            yield good(exchange)


@check(
    "2025-11-25:optional-tool-served-both-ways", needs="a tool whose 'taskSupport' is 'optional'"
)
def optional_tools_work_both_ways(history: History) -> Iterator[Observation]:
    """Check that an optional tool can be called with and without a task."""
    for exchange in history.calls("tools/call"):
        if task_support(history, exchange) != "optional" or not _is_offered(history, exchange):
            continue
        wants_task = "task" in exchange.params
        gets_task = isinstance(exchange.fields.get("task"), dict)
        way = "with 'task'" if wants_task else "without 'task'"
        if exchange.code == METHOD_NOT_FOUND:
            yield bad(f"an 'optional' tool cannot be called {way} (error -32601)", exchange)
        elif gets_task and not wants_task:
            yield bad("a call of an 'optional' tool without 'task' created a task", exchange)
        elif exchange.code == INVALID_REQUEST and not wants_task:
            yield note("a call of an 'optional' tool without 'task' got error -32600", exchange)
        elif exchange.fields and gets_task == wants_task:
            yield good(exchange)


@check(
    "2025-11-25:required-tool-plain-refused-32601", needs="a tool whose 'taskSupport' is 'required'"
)
def required_tools_refuse_plain_calls(history: History) -> Iterator[Observation]:
    """Check that a plain call of a tool with required task support is rejected with -32601."""
    for exchange in history.calls("tools/call"):
        if "task" in exchange.params or task_support(history, exchange) != "required":
            continue
        if not _is_offered(history, exchange) or is_overloaded(exchange):
            continue
        if exchange.code == METHOD_NOT_FOUND:
            yield good(exchange)
        elif exchange.code == INVALID_REQUEST:
            words = "a call of a 'required' tool without 'task' got -32600, not -32601"
            yield note(words, exchange)
        elif exchange.error is None and exchange.is_answered:
            how = (
                "returned a result with 'isError'"
                if exchange.fields.get("isError")
                else "was accepted"
            )
            words = f"a call of a 'required' tool without 'task' {how}; expected error -32601"
            yield bad(words, exchange)
        elif exchange.is_answered and has_valid_arguments(history, exchange):
            words = f"a call of a 'required' tool without 'task' got {exchange.code}, not -32601"
            yield bad(words, exchange)


@check("2025-11-25:may-require-augmentation", needs="a call of a tool without 'task'")
def plain_calls_may_be_refused(history: History) -> Iterator[Observation]:
    """Check that a plain call returns a result or an error."""
    for exchange in history.calls("tools/call"):
        is_plain = "task" not in exchange.params and _is_offered(history, exchange)
        if is_plain and (exchange.error is not None or "content" in exchange.fields):
            yield good(exchange)


@check("2025-11-25:plain-call-refused-32600", needs="a target that rejects calls without 'task'")
def plain_calls_may_be_invalid_requests(history: History) -> Iterator[Observation]:
    """Check whether the target rejects plain calls with -32600."""
    for exchange in history.calls("tools/call"):
        is_plain = "task" not in exchange.params and _is_offered(history, exchange)
        if is_plain and exchange.code == INVALID_REQUEST:
            yield good(exchange)


# --- the creating response ------------------------------------------------------------------------


@check("2025-11-25:create-result-returned", needs=A_TASK)
def task_calls_give_tasks(history: History) -> Iterator[Observation]:
    """Check that a successful call that requests a task creates one."""
    for exchange in _served_task_calls(history):
        if "task" in exchange.fields or "taskId" in exchange.fields:
            yield good(exchange)
        elif exchange.fields.get("isError") is True and not _has_right_arguments(history, exchange):
            words = "a call with invalid arguments returned a result with 'isError' and no task"
            yield note(words, exchange)
        else:
            words = "the target accepted a call that requests a task, but the result has no task"
            yield bad(words, exchange)


@check("2025-11-25:create-result-shape", needs=A_TASK)
def create_result_has_its_shape(history: History) -> Iterator[Observation]:
    """Check that the task is the member `task` of the result."""
    for exchange in _served_task_calls(history):
        task = exchange.fields.get("task")
        if isinstance(task, dict) and "taskId" in task:
            yield good(exchange)
        elif "task" in exchange.fields or "taskId" in exchange.fields:
            words = "the result of a task call has no task object with a 'taskId' under 'task'"
            yield bad(words, exchange)


@check("2025-11-25:create-result-without-operation-result", needs=A_TASK)
def create_result_is_nothing_else(history: History) -> Iterator[Observation]:
    """Check that the creating response contains no tool result."""
    for exchange in _creations(history):
        found = [name for name in OWN_RESULT if name in exchange.fields]
        if found:
            yield bad(f"the result that creates a task also contains {found[0]!r}", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:create-answer-prompt", needs=A_TASK)
def create_answer_is_prompt(history: History) -> Iterator[Observation]:
    """Check that the creating response does not wait for the tool to finish."""
    for exchange in _creations(history):
        if is_overdue(history, exchange):
            words = f"the response with the task took {(exchange.waited_ms or 0) / 1000:.1f} s"
            yield bad(words, exchange)
        else:
            yield good(exchange)


@check(
    "2025-11-25:model-immediate-response", needs="a target that sends a model-immediate-response"
)
def immediate_response_is_text(history: History) -> Iterator[Observation]:
    """Check that the model-immediate-response is a string."""
    for exchange in _creations(history):
        meta = exchange.fields.get("_meta")
        if not isinstance(meta, dict) or IMMEDIATE not in meta:
            continue
        if isinstance(meta[IMMEDIATE], str):
            yield good(exchange)
        else:
            words = f"the model-immediate-response is {meta[IMMEDIATE]!r}, not a string"
            yield warning(words, exchange)


# --- selections -----------------------------------------------------------------------------------

_ITEMS: Final = {"list", "cancel", "requests"}


def _declared(history: History) -> Iterator[tuple[Exchange, Any]]:
    for exchange in history.calls("initialize"):
        capabilities = exchange.fields.get("capabilities")
        if isinstance(capabilities, dict) and "tasks" in capabilities:
            yield exchange, capabilities["tasks"]


def _items(tasks: Any) -> Iterator[tuple[str, Any]]:
    """Yield each declared item with its path."""
    yield "tasks", tasks
    for name, value in tasks.items() if isinstance(tasks, dict) else ():
        if name not in _ITEMS:
            continue
        yield f"tasks.{name}", value
        for category, methods in (
            value.items() if name == "requests" and isinstance(value, dict) else ()
        ):
            yield f"tasks.requests.{category}", methods
            for method, item in methods.items() if isinstance(methods, dict) else ():
                yield f"tasks.requests.{category}.{method}", item


def _is_offered(history: History, exchange: Exchange) -> bool:
    """Return whether the target declared tasks for `tools/call`."""
    return declares(history, exchange, "requests", "tools", "call")


def _creations(history: History) -> Iterator[Exchange]:
    for sighting in history.sightings:
        if sighting.where == "create" and sighting.exchange is not None:
            yield sighting.exchange


def _task_calls(history: History) -> Iterator[Exchange]:
    """Yield answered calls that request a task, where the target declares tasks."""
    for exchange in history.calls("tools/call"):
        is_said = exchange.is_answered and not is_overloaded(exchange)
        if is_said and is_task_call(exchange) and _is_offered(history, exchange):
            yield exchange


def _has_right_arguments(history: History, exchange: Exchange) -> bool:
    tool = history.tools.get(str(exchange.params.get("name")), {})
    schema = tool.get("inputSchema")
    return isinstance(schema, dict) and is_valid(schema, exchange.params.get("arguments", {}))


def _served_task_calls(history: History) -> Iterator[Exchange]:
    """Yield the successful task calls of tools that support tasks."""
    for exchange in _task_calls(history):
        if task_support(history, exchange) in ("optional", "required") and exchange.error is None:
            yield exchange


def _undeclared(history: History) -> Iterator[Exchange]:
    """Yield answered requests with `task`, of types without declared task support."""
    for exchange in history.exchanges:
        known = exchange.request.line in history.capabilities
        has_task = isinstance(exchange.params.get("task"), dict)
        category, _, method = exchange.method.partition("/")
        is_known = category in ("tasks", "initialize") or declares(
            history, exchange, "requests", category, method
        )
        if known and has_task and not is_known and exchange.is_answered:
            yield exchange


def _same_without_task(history: History, exchange: Exchange) -> Exchange | None:
    """Return the same request without `task`, if it succeeded."""
    plain = {k: v for k, v in exchange.params.items() if k not in ("task", "_meta")}
    for other in history.calls(exchange.method):
        rest = {k: v for k, v in other.params.items() if k != "_meta"}
        if rest == plain and other.error is None and other.is_answered:
            return other
    return None


def _is_marked(history: History, exchange: Exchange) -> bool:
    tool = history.tools.get(exchange.params["name"], {})
    execution = tool.get("execution")
    return isinstance(execution, dict) and "taskSupport" in execution
