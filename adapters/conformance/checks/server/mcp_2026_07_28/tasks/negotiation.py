"""Checks of extension negotiation and of remains of 2025-11-25 (tasks extension, SEP-2663)."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import (
    TASKS,
    VERSION,
    capabilities,
    meta,
)
from taskmachine.adapters.conformance.checks.reading.tasks_2026_07_28 import (
    answered,
    call_key,
    declared_extensions,
    is_acknowledged,
    legacy_lines,
    modern,
    supports_tasks,
    was_mentioned,
)
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

_A_TASK: Final = "a tool whose call creates a task"
_BOTH: Final = "a target that also serves 2025-11-25"
_REFUSALS: Final = (-32600, -32601, -32602)


def _is_task(exchange: Exchange) -> bool:
    """Return whether the result contains a task, in any form."""
    nested = exchange.fields.get("task")
    is_nested = isinstance(nested, dict) and "taskId" in nested
    is_flat = "taskId" in exchange.fields and "status" in exchange.fields
    return exchange.fields.get("resultType") == "task" or is_flat or is_nested


def _tasks(history: History) -> Iterator[Exchange]:
    """Yield calls with the declared extension that created tasks."""
    for call in answered(history, "tools/call", declared=True):
        if _is_task(call):
            yield call


# --- declaration by the target --------------------------------------------------------------------


@check("2026-07-28:server-declares-in-discover", "2026-07-28:legacy-servers-migrate", needs=_A_TASK)
def task_creators_declare_extension(history: History) -> Iterator[Observation]:
    """Check that a target that creates tasks declares the extension in `server/discover`."""
    made = next(_tasks(history), None)
    if made is None:
        return
    for declared, discover in declared_extensions(history):
        extensions = declared.get("extensions")
        if isinstance(extensions, dict) and TASKS in extensions:
            yield good(discover)
        else:
            words = "the target creates tasks without declaring the extension in 'server/discover'"
            yield bad(words, discover, made)


@check("2026-07-28:extension-identifier", needs="the tasks extension")
def extension_has_exact_identifier(history: History) -> Iterator[Observation]:
    """Check that the extension is declared under its exact identifier."""
    for declared, discover in declared_extensions(history):
        extensions = declared.get("extensions")
        names = list(extensions) if isinstance(extensions, dict) else []
        similar = [n for n in names if n != TASKS and _is_similar(n)]
        if TASKS in names:
            yield good(discover)
        elif similar:
            words = f"the tasks extension is declared as {similar[0]!r} instead of {TASKS!r}"
            yield bad(words, discover)


def _is_similar(name: str) -> bool:
    prefix, _, last = name.lower().rpartition("/")
    return last in ("task", "tasks") and (not prefix or "modelcontextprotocol" in prefix)


@check("2026-07-28:capability-empty-object", needs="the tasks extension")
def empty_object_is_enough(history: History) -> Iterator[Observation]:
    """Check that the declaration is an object, and that an empty one suffices for clients."""
    for declared, discover in declared_extensions(history):
        extensions = declared.get("extensions")
        if not isinstance(extensions, dict) or TASKS not in extensions:
            continue
        if isinstance(extensions[TASKS], dict):
            yield good(discover)
        else:
            words = f"the tasks extension is declared as {extensions[TASKS]!r}, not as an object"
            yield bad(words, discover)
    for exchange in answered(history, "tools/call", "tasks/get", declared=True):
        if exchange.code == -32021 and _is_named_missing(exchange):
            words = "the target does not accept {} as declaration of the tasks extension"
            yield bad(words, exchange)


def _is_named_missing(exchange: Exchange) -> bool:
    data = (exchange.error or {}).get("data")
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    extensions = required.get("extensions") if isinstance(required, dict) else None
    return isinstance(extensions, dict) and TASKS in extensions


@check("2026-07-28:legacy-capabilities-not-advertised", needs="`server/discover`")
def legacy_capabilities_not_advertised(history: History) -> Iterator[Observation]:
    """Check that the `tasks` capability of 2025-11-25 is not advertised."""
    for declared, discover in declared_extensions(history):
        if "tasks" in declared:
            yield bad("'server/discover' advertises the 'tasks' capability of 2025-11-25", discover)
        else:
            yield good(discover)


@check("2026-07-28:extension-label-reserved", needs="the tasks extension")
def label_is_an_extension_only(history: History) -> Iterator[Observation]:
    """Check that the identifier occurs only under `extensions`, in metadata and capabilities."""
    for entry in modern(history).heard:
        if TASKS in entry.meta:
            yield bad(f"the extension identifier {TASKS!r} is used as a key of '_meta'", entry)
    for declared, discover in declared_extensions(history):
        experimental = declared.get("experimental")
        if TASKS in declared or (isinstance(experimental, dict) and TASKS in experimental):
            words = f"the extension identifier {TASKS!r} is declared outside of 'extensions'"
            yield bad(words, discover)
        elif isinstance(declared.get("extensions"), dict) and TASKS in declared["extensions"]:
            yield good(discover)


@check("2026-07-28:method-prefix-reserved", needs="task notifications")
def prefixes_are_reserved(history: History) -> Iterator[Observation]:
    """Check that the target uses no undefined methods under the extension's prefixes."""
    for entry in modern(history).heard:
        method = entry.method or ""
        if method.startswith(("notifications/tasks/", "tasks/")):
            words = f"the target sent {method!r}, a method that the tasks extension does not define"
            yield bad(words, entry)
        elif method == "notifications/tasks":
            yield good(entry)


# --- calls that create tasks ----------------------------------------------------------------------


@check("2026-07-28:server-may-create-task", needs=_A_TASK)
def declaring_callers_may_get_tasks(history: History) -> Iterator[Observation]:
    """Record calls with the declared extension that created a task, which is allowed."""
    yield from (good(call) for call in _tasks(history))


@check(
    "2026-07-28:never-creating-is-fine",
    needs="a target with the tasks extension that creates no tasks",
)
def no_tasks_at_all(history: History) -> Iterator[Observation]:
    """Record a target that declares the extension but creates no tasks, which is allowed."""
    calls = list(answered(history, "tools/call", declared=True))
    if supports_tasks(history) and not any(_is_task(call) for call in calls):
        yield from (good(call) for call in calls[:1])


@check("2026-07-28:server-decides-alone", needs=_A_TASK)
def no_field_is_needed(history: History) -> Iterator[Observation]:
    """Check that a task does not require a parameter of the request."""
    for asking, others in _by_task_parameter(history).values():
        if any(_is_task(call) for call in others):
            yield good(*others[:1])
        elif len(asking) > 1 and len(others) > 1 and all(_is_task(call) for call in asking):
            words = "the target creates tasks only for calls with 'params.task'"
            yield bad(words, others[0], asking[0])


def _by_task_parameter(history: History) -> dict[str, tuple[list[Exchange], list[Exchange]]]:
    """Return declaring calls with equal arguments, with and without `params.task`."""
    found: dict[str, tuple[list[Exchange], list[Exchange]]] = {}
    for call in answered(history, "tools/call", declared=True):
        found.setdefault(call_key(call), ([], []))["task" not in call.params].append(call)
    return found


@check("2026-07-28:no-task-for-undeclared", needs=_A_TASK)
def undeclared_calls_get_no_task(history: History) -> Iterator[Observation]:
    """Check that a call without the declared extension creates no task."""
    task_calls = {call_key(call) for call in _tasks(history)}
    for call in answered(history, "tools/call", declared=False):
        if _is_task(call):
            yield bad("a call that did not declare the tasks extension created a task", call)
        elif call_key(call) in task_calls:
            yield good(call)


@check("2026-07-28:missing-capability-32021", needs="a tool that requires a task")
def task_only_tools_say_so(history: History) -> Iterator[Observation]:
    """Check that a call that requires a task is rejected with -32021 without the extension."""
    task_calls = {call_key(call): call for call in _tasks(history)}
    for call in answered(history, "tools/call", declared=False):
        if call.code == -32021 and _is_named_missing(call):
            yield good(call)
        elif call.error is not None and _is_named_missing(call):
            yield bad(f"a call without the required extension got {call.code!r}, not -32021", call)
        elif call.code in _REFUSALS and call_key(call) in task_calls and "task" not in call.params:
            words = f"a call that requires a task got error {call.code}, not -32021"
            yield bad(words, task_calls[call_key(call)], call)


@check("2026-07-28:mrtr-before-create", needs="a tool that requests input before it creates a task")
def input_requested_before_task(history: History) -> Iterator[Observation]:
    """Check that a result that creates a task does not request a retry."""
    for call in _tasks(history):
        if "requestState" in call.fields:
            yield bad("the result that creates a task has a 'requestState'", call)
        elif "requestState" in call.params or "inputResponses" in call.params:
            yield good(call)


# --- remains of 2025-11-25 ------------------------------------------------------------------------


@check("2026-07-28:task-parameter-ignored", needs="a tool")
def task_parameter_is_ignored(history: History) -> Iterator[Observation]:
    """Check that `params.task` neither creates a task nor causes an error."""
    for declared in (False, True):
        calls = list(answered(history, "tools/call", declared=declared))
        served = {call_key(c): c for c in calls if "task" not in c.params and is_acknowledged(c)}
        for call in calls:
            plain = served.get(call_key(call))
            if "task" not in call.params or plain is None:
                continue
            if not declared and _is_task(call):
                yield bad("'params.task' created a task without the tasks extension", call)
            elif call.error is not None:
                words = f"'params.task' caused error {call.code!r}; the target must ignore it"
                yield bad(words, plain, call)
            else:
                yield good(plain, call)


@check("2026-07-28:legacy-capability-is-undeclared", needs=_A_TASK)
def legacy_capability_has_no_effect(history: History) -> Iterator[Observation]:
    """Check that the `tasks` capability of 2025-11-25 does not count as the extension."""
    if not supports_tasks(history):
        return
    made = modern(history).created
    for exchange in answered(history, "tools/call", "tasks/get", declared=False):
        is_old_task = was_mentioned(history, exchange.task_id) and exchange.task_id not in made
        if "tasks" not in capabilities(exchange) or is_old_task:
            continue
        if exchange.method == "tools/call":
            words = "a call that declared only the 'tasks' capability of 2025-11-25 created a task"
            yield bad(words, exchange) if _is_task(exchange) else good(exchange)
        elif exchange.code == -32021:
            yield good(exchange)
        else:
            got = "a result" if exchange.error is None else repr(exchange.code)
            words = f"'tasks/get' with the 2025-11-25 capability got {got}, not error -32021"
            yield bad(words, exchange)


def _old_requests(history: History, *methods: str) -> Iterator[Exchange]:
    """Yield answered requests on initialized connections, without metadata of this revision."""
    lines = legacy_lines(history)
    for exchange in history.calls(*methods):
        is_old = exchange.request.line in lines and VERSION not in meta(exchange)
        if is_old and exchange.is_answered:
            yield exchange


@check("2026-07-28:extension-not-under-2025-11-25", needs=_BOTH)
def extension_has_no_effect_in_legacy_sessions(history: History) -> Iterator[Observation]:
    """Check that the extension has no effect in a session of 2025-11-25."""
    declaring = {
        exchange.request.line
        for exchange in history.calls("initialize")
        if _has_extension(exchange.params.get("capabilities"))
    }
    for call in _old_requests(history, "tools/call"):
        if call.request.line not in declaring or "task" in call.params:
            continue
        if _is_task(call):
            words = "the declared tasks extension created a task in a session of 2025-11-25"
            yield bad(words, call)
        else:
            yield good(call)


def _has_extension(declared: Any) -> bool:
    extensions = declared.get("extensions") if isinstance(declared, dict) else None
    return isinstance(extensions, dict) and TASKS in extensions


@check("2026-07-28:legacy-tasks-still-served", needs=_BOTH)
def legacy_tasks_are_served(history: History) -> Iterator[Observation]:
    """Check that tasks of 2025-11-25 can be read and cancelled in their session."""
    made: dict[tuple[int, Any], Exchange] = {}
    for call in _old_requests(history, "tools/call"):
        task = call.fields.get("task")
        if isinstance(task, dict):
            made[call.request.line, repr(task.get("taskId"))] = call
    for exchange in _old_requests(history, "tasks/get", "tasks/cancel"):
        created = made.get((exchange.request.line, repr(exchange.task_id)))
        if created is None or not _may_be_asked(history, exchange):
            continue
        if exchange.code in (-32601, -32021):
            words = f"{exchange.method!r} in a 2025-11-25 session got error {exchange.code}"
            yield bad(words, created, exchange)
        elif is_acknowledged(exchange):
            yield good(created, exchange)


def _may_be_asked(history: History, exchange: Exchange) -> bool:
    """Return whether the session supports the method: cancelling is optional."""
    declared = history.capabilities.get(exchange.request.line, {}).get("tasks")
    return exchange.method == "tasks/get" or (isinstance(declared, dict) and "cancel" in declared)
