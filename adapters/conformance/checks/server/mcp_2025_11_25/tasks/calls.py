"""What 2025-11-25 says about the offer of tasks, and about calls that ask for one."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.arguments import is_valid
from taskmachine.adapters.conformance.checks.reading.sightings import life_of
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    declares,
    is_overloaded,
    is_sound,
    is_task_call,
    may_ask,
    support,
    waited_in_vain,
)
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note, warning

__all__: list[str] = []

IMMEDIATE: Final = "io.modelcontextprotocol/model-immediate-response"
A_TASK: Final = "a tool that can be called as a task"
OWN_RESULT: Final = ("content", "structuredContent", "isError")


# --- what is declared ----------------------------------------------------------------------------


@check("2025-11-25:capability-declared", needs=A_TASK)
def tasks_are_declared(history: History) -> Iterator[Observation]:
    """Whoever answers with a task has declared `tasks`."""
    for exchange in _creations(history):
        declared = history.capabilities.get(exchange.request.line)
        if declared is None:
            continue
        if declared.get("tasks") is None:
            yield bad("a call was answered with a task, but 'tasks' was not declared", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:capability-shape", needs="a target that declares tasks")
def capability_has_its_shape(history: History) -> Iterator[Observation]:
    """Each supported item is an object."""
    for exchange, tasks in _declared(history):
        wrong = [path for path, value in _items(tasks) if not isinstance(value, dict)]
        unknown = sorted(set(tasks if isinstance(tasks, dict) else ()) - _ITEMS)
        if wrong:
            yield bad(f"'{wrong[0]}' is declared, but not as an object", exchange)
        elif unknown:
            yield note(f"'tasks' has an item {unknown[0]!r}, which nobody knows", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:server-capability-keys", needs="a target that declares tasks")
def servers_offer_tools_only(history: History) -> Iterator[Observation]:
    """A server has tasks for `tools/call` and nothing else."""
    for exchange, tasks in _declared(history):
        requests = tasks.get("requests") if isinstance(tasks, dict) else None
        if not isinstance(requests, dict):
            continue
        tools = requests.get("tools")
        others = {*requests} - {"tools"} | (
            {*tools} - {"call"} if isinstance(tools, dict) else set()
        )
        if others:
            yield bad(f"a server declares tasks for {sorted(others)[0]!r}", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:capability-requests-exhaustive", needs="any request of another type")
def only_declared_types_make_tasks(history: History) -> Iterator[Observation]:
    """A type that is not declared has no tasks."""
    for exchange in _undeclared(history):
        if isinstance(exchange.fields.get("task"), dict):
            words = f"{exchange.method!r} was answered with a task, which is not declared"
            yield bad(words, exchange)
        elif exchange.fields or exchange.result == {}:
            yield good(exchange)


@check("2025-11-25:undeclared-type-processed-normally", needs="any request of another type")
def undeclared_types_ignore_the_wish(history: History) -> Iterator[Observation]:
    """A wish for a task is ignored where none are declared."""
    for exchange in _undeclared(history):
        served = _same_without_task(history, exchange)
        if isinstance(exchange.fields.get("task"), dict):
            yield bad(f"{exchange.method!r} was answered with a task", exchange)
        elif exchange.error is not None and served is not None and not is_overloaded(exchange):
            words = f"{exchange.method!r} is refused with {exchange.code} if 'task' is there"
            yield bad(words, served, exchange)
        elif exchange.fields or exchange.result == {}:
            yield good(exchange)


@check("2025-11-25:get-and-result-always-served", needs=A_TASK)
def get_and_result_are_served(history: History) -> Iterator[Observation]:
    """Whoever makes tasks serves `tasks/get` and `tasks/result`."""
    for exchange in history.calls("tasks/get", "tasks/result"):
        life = life_of(history, exchange.task_id, exchange.request)
        if life is None or not exchange.is_answered or not may_ask(history, life, exchange):
            continue
        ended_so = exchange.method == "tasks/result" and any(
            s.status in ("failed", "cancelled") for s in life.sightings
        )
        if exchange.code == METHOD_NOT_FOUND and not ended_so:
            yield bad(f"there are tasks, but {exchange.method!r} is not there", exchange)
        else:
            yield good(exchange)


# --- which tools ---------------------------------------------------------------------------------


@check("2025-11-25:task-support-values", needs="a tool that says whether it can be a task")
def support_has_three_values(history: History) -> Iterator[Observation]:
    """`taskSupport` is one of three words."""
    for exchange in history.calls("tools/list"):
        tools = exchange.fields.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            execution = tool.get("execution") if isinstance(tool, dict) else None
            if not isinstance(execution, dict) or "taskSupport" not in execution:
                continue
            if execution["taskSupport"] in ("required", "optional", "forbidden"):
                yield good(exchange)
            else:
                words = f"'taskSupport' of {tool.get('name')!r} is {execution['taskSupport']!r}"
                yield bad(words, exchange)


@check("2025-11-25:forbidden-tool-task-refused-32601", needs="a tool that cannot be a task")
def forbidden_tools_refuse_tasks(history: History) -> Iterator[Observation]:
    """A tool that is no task is not called as one."""
    for exchange in _task_calls(history):
        if support(history, exchange) != "forbidden":
            continue
        if exchange.code == METHOD_NOT_FOUND:
            yield good(exchange)
        elif exchange.error is None:
            yield bad("a tool that cannot be a task was called as one, and answered", exchange)
        elif is_sound(history, exchange):
            words = f"a tool that cannot be a task was refused with {exchange.code}, not -32601"
            yield bad(words, exchange)


@check("2025-11-25:task-support-default-forbidden", needs="a tool that is not marked")
def unmarked_tools_are_forbidden(history: History) -> Iterator[Observation]:
    """A tool that says nothing of tasks makes none."""
    for exchange in _task_calls(history):
        if support(history, exchange) != "forbidden" or _is_marked(history, exchange):
            continue
        if isinstance(exchange.fields.get("task"), dict):
            yield bad("a tool without 'taskSupport' became a task", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:optional-tool-served-both-ways", needs="a tool with optional tasks")
def optional_tools_work_both_ways(history: History) -> Iterator[Observation]:
    """An optional tool can be called plainly and as a task."""
    for exchange in history.calls("tools/call"):
        if support(history, exchange) != "optional" or not _is_offered(history, exchange):
            continue
        wants_task = "task" in exchange.params
        gets_task = isinstance(exchange.fields.get("task"), dict)
        way = "as a task" if wants_task else "plainly"
        if exchange.code == METHOD_NOT_FOUND:
            yield bad(f"an optional tool cannot be called {way}", exchange)
        elif gets_task and not wants_task:
            yield bad("a plain call of an optional tool became a task", exchange)
        elif exchange.code == INVALID_REQUEST and not wants_task:
            yield note("a plain call of an optional tool is refused with -32600", exchange)
        elif exchange.fields and gets_task == wants_task:
            yield good(exchange)


@check("2025-11-25:required-tool-plain-refused-32601", needs="a tool that must be a task")
def required_tools_refuse_plain_calls(history: History) -> Iterator[Observation]:
    """A tool that must be a task is not called plainly."""
    for exchange in history.calls("tools/call"):
        if "task" in exchange.params or support(history, exchange) != "required":
            continue
        if not _is_offered(history, exchange) or is_overloaded(exchange):
            continue
        if exchange.code == METHOD_NOT_FOUND:
            yield good(exchange)
        elif exchange.code == INVALID_REQUEST:
            yield note("a plain call is refused with -32600, not -32601", exchange)
        elif exchange.error is None and exchange.is_answered:
            how = "gave a result with 'isError'" if exchange.fields.get("isError") else "was served"
            yield bad(f"a plain call of a tool that must be a task {how}", exchange)
        elif exchange.is_answered and is_sound(history, exchange):
            yield bad(f"a plain call is refused with {exchange.code}, not -32601", exchange)


@check("2025-11-25:may-require-augmentation", needs="a plain call of a tool")
def plain_calls_may_be_refused(history: History) -> Iterator[Observation]:
    """A plain call gives a result or an error."""
    for exchange in history.calls("tools/call"):
        is_plain = "task" not in exchange.params and _is_offered(history, exchange)
        if is_plain and (exchange.error is not None or "content" in exchange.fields):
            yield good(exchange)


@check("2025-11-25:plain-call-refused-32600", needs="a target that refuses plain calls so")
def plain_calls_may_be_invalid_requests(history: History) -> Iterator[Observation]:
    """A plain call may be refused with -32600."""
    for exchange in history.calls("tools/call"):
        is_plain = "task" not in exchange.params and _is_offered(history, exchange)
        if is_plain and exchange.code == INVALID_REQUEST:
            yield good(exchange)


# --- the creating answer -------------------------------------------------------------------------


@check("2025-11-25:create-result-returned", needs=A_TASK)
def task_calls_give_tasks(history: History) -> Iterator[Observation]:
    """A call that asks for a task and is served becomes one."""
    for exchange in _served_task_calls(history):
        if "task" in exchange.fields or "taskId" in exchange.fields:
            yield good(exchange)
        elif exchange.fields.get("isError") is True and not _has_right_arguments(history, exchange):
            yield note("a call with wrong arguments is no task, but a result", exchange)
        else:
            yield bad("a call that asks for a task was answered without one", exchange)


@check("2025-11-25:create-result-shape", needs=A_TASK)
def create_result_has_its_shape(history: History) -> Iterator[Observation]:
    """The task stands under `task`."""
    for exchange in _served_task_calls(history):
        task = exchange.fields.get("task")
        if isinstance(task, dict) and "taskId" in task:
            yield good(exchange)
        elif "task" in exchange.fields or "taskId" in exchange.fields:
            yield bad("a creating answer without a task under 'task'", exchange)


@check("2025-11-25:create-result-without-operation-result", needs=A_TASK)
def create_result_is_nothing_else(history: History) -> Iterator[Observation]:
    """A creating answer holds no result of the tool."""
    for exchange in _creations(history):
        found = [name for name in OWN_RESULT if name in exchange.fields]
        if found:
            yield bad(f"a creating answer has {found[0]!r}", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:create-answer-prompt", needs=A_TASK)
def create_answer_is_prompt(history: History) -> Iterator[Observation]:
    """The creating answer does not wait for the work."""
    for exchange in _creations(history):
        if waited_in_vain(history, exchange):
            yield bad(
                f"the creating answer took {(exchange.waited_ms or 0) / 1000:.1f} s", exchange
            )
        else:
            yield good(exchange)


@check("2025-11-25:model-immediate-response", needs="a target that tells the model something")
def immediate_response_is_text(history: History) -> Iterator[Observation]:
    """What the model is told at once is a text."""
    for exchange in _creations(history):
        meta = exchange.fields.get("_meta")
        if not isinstance(meta, dict) or IMMEDIATE not in meta:
            continue
        if isinstance(meta[IMMEDIATE], str):
            yield good(exchange)
        else:
            yield warning(f"the immediate response is {meta[IMMEDIATE]!r}, not a text", exchange)


# --- what stands behind them ---------------------------------------------------------------------

_ITEMS: Final = {"list", "cancel", "requests"}


def _declared(history: History) -> Iterator[tuple[Exchange, Any]]:
    for exchange in history.calls("initialize"):
        capabilities = exchange.fields.get("capabilities")
        if isinstance(capabilities, dict) and "tasks" in capabilities:
            yield exchange, capabilities["tasks"]


def _items(tasks: Any) -> Iterator[tuple[str, Any]]:
    """Each declared item with its name."""
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
    """Whether the target said that calls of tools can be tasks."""
    return declares(history, exchange, "requests", "tools", "call")


def _creations(history: History) -> Iterator[Exchange]:
    for sighting in history.sightings:
        if sighting.where == "create" and sighting.exchange is not None:
            yield sighting.exchange


def _task_calls(history: History) -> Iterator[Exchange]:
    """Answered calls that ask for a task where tasks are offered."""
    for exchange in history.calls("tools/call"):
        is_said = exchange.is_answered and not is_overloaded(exchange)
        if is_said and is_task_call(exchange) and _is_offered(history, exchange):
            yield exchange


def _has_right_arguments(history: History, exchange: Exchange) -> bool:
    tool = history.tools.get(str(exchange.params.get("name")), {})
    schema = tool.get("inputSchema")
    return isinstance(schema, dict) and is_valid(schema, exchange.params.get("arguments", {}))


def _served_task_calls(history: History) -> Iterator[Exchange]:
    """Those that were answered with a result, of tools that can be tasks."""
    for exchange in _task_calls(history):
        if support(history, exchange) in ("optional", "required") and exchange.error is None:
            yield exchange


def _undeclared(history: History) -> Iterator[Exchange]:
    """Answered requests with a wish for a task, of types without tasks."""
    for exchange in history.exchanges:
        known = exchange.request.line in history.capabilities
        wishes = isinstance(exchange.params.get("task"), dict)
        category, _, method = exchange.method.partition("/")
        is_known = category in ("tasks", "initialize") or declares(
            history, exchange, "requests", category, method
        )
        if known and wishes and not is_known and exchange.is_answered:
            yield exchange


def _same_without_task(history: History, exchange: Exchange) -> Exchange | None:
    """The same request without the wish, if it was served."""
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
