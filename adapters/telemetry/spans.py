"""Spans: one for each request, run of a tool, step that it records, and task as a whole.

They contain no data of callers or tools but the keys of steps: no arguments, results or messages,
not even those of exceptions.
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.util.types import AttributeValue

from taskmachine.adapters.runtime.observer import Carrier, RunEnd
from taskmachine.adapters.telemetry import names
from taskmachine.adapters.telemetry.propagation import context_of_request, context_of_task
from taskmachine.protocol.jsonrpc import ErrorResponse, Request, ResultResponse
from taskmachine.statemachine import Cause, Outcome, Task
from taskmachine.statemachine.lifecycle import Step

__all__ = [
    "RequestSpan",
    "begin_request",
    "emit_task",
    "outcome_name",
    "record_exception",
    "step_span",
    "tool_run_span",
]

MAX_TEXT = 256
"""Maximum length of an id that a caller chose."""

Attributes = dict[str, AttributeValue]


def outcome_name(outcome: Outcome) -> str:
    """Return the label of an outcome."""
    return names.TOOL_ERROR if outcome.is_error else outcome.cause.value


class RequestSpan:
    """The span of a pending request; `on_end` gets the error, if any, and the duration."""

    def __init__(self, span: Span, on_end: Callable[[str | None, float], None]) -> None:
        self._span = span
        self._on_end = on_end
        self._began = perf_counter()

    def current(self) -> AbstractContextManager[object]:
        return trace.use_span(self._span, record_exception=False, set_status_on_exception=False)

    def answered(self, answer: ResultResponse | ErrorResponse) -> None:
        if isinstance(answer, ErrorResponse):
            code = str(answer.error.code)
            self._span.set_attribute(names.STATUS_CODE, code)
            self._end(code)
        else:
            task_id = _created(answer)
            if task_id is not None:
                self._span.set_attribute(names.TASK, task_id)
            self._end(names.TOOL_ERROR if answer.result.get("isError") is True else None)

    def abandoned(self) -> None:
        self._end(names.CANCELLED)

    def _end(self, error: str | None) -> None:
        if error is not None:
            _fail(self._span, error)
        self._span.end()
        self._on_end(error, perf_counter() - self._began)


def begin_request(
    tracer: Tracer,
    request: Request,
    *,
    method: str,
    tool: str | None,
    revision: str,
    by: Carrier,
    on_end: Callable[[str | None, float], None],
) -> RequestSpan:
    """Begin a span whose parent is the context in `_meta`, or else the current one."""
    attributes: Attributes = {
        names.METHOD: method,
        names.REVISION: revision,
        names.REQUEST_ID: str(request.id)[:MAX_TEXT],
    }
    if by.transport is not None:
        attributes[names.TRANSPORT] = by.transport
    if by.transport == "tcp":
        attributes[names.PROTOCOL] = "http"
    if by.session is not None:
        attributes[names.SESSION] = by.session
    if tool is not None:
        attributes[names.OPERATION] = names.EXECUTE_TOOL
        attributes[names.TOOL] = tool
    task_id = request.params.get("taskId")
    if isinstance(task_id, str):
        attributes[names.TASK] = task_id[:MAX_TEXT]
    parent = context_of_request(request)
    around = trace.get_current_span().get_span_context()
    span = tracer.start_span(
        method if tool is None else f"{method} {tool}",
        context=parent,
        kind=SpanKind.SERVER,
        attributes=attributes,
        links=[Link(around)] if parent is not None and around.is_valid else [],
    )
    return RequestSpan(span, on_end)


@contextmanager
def tool_run_span(
    tracer: Tracer, task: Task, tool: str, on_retry: Callable[[], None]
) -> Iterator[Callable[[RunEnd], None]]:
    """Open the span of one tool run, as current span for everything that the tool starts.

    A run that will be retried is an error: its attempt has failed.
    """
    span = tracer.start_span(
        f"{names.EXECUTE_TOOL} {tool}",
        context=context_of_task(task.call.trace),
        attributes={
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL: tool,
            names.TASK: task.id,
            names.RUN: task.fence,
        },
    )
    end = "stopped"

    def ended(how: RunEnd) -> None:
        nonlocal end
        if isinstance(how, Outcome):
            end = outcome_name(how)
            if how.is_error or how.cause is not Cause.RESULT:
                _fail(span, end)
        else:
            end = how
        if how == names.RETRIED:
            _fail(span, end)
            on_retry()

    token = contexts.attach(trace.set_span_in_context(span))
    try:
        yield ended
    finally:
        contexts.detach(token)
        span.set_attribute(names.RUN_END, end)
        span.end()


@contextmanager
def step_span(tracer: Tracer, task: Task, tool: str, key: str) -> Iterator[None]:
    """Open the span of a step, as current span for everything that its function starts.

    Its name has no key, as a tool may have a thousand of them.
    """
    attributes = {names.TOOL: tool, names.TASK: task.id, names.STEP: key}
    span = tracer.start_span(f"step {tool}", attributes=attributes)
    token = contexts.attach(trace.set_span_in_context(span))
    is_recorded = False
    try:
        yield
        is_recorded = True
    except Exception as error:
        _fail(span, _type_name(error))
        raise
    finally:
        contexts.detach(token)
        span.set_attribute(names.IS_RECORDED, is_recorded)
        span.end()


def emit_task(tracer: Tracer, step: Step, tool: str) -> None:
    """Record the span of a task that has ended, from its creation to now."""
    task, outcome = step.task, step.task.outcome
    assert outcome is not None, "an ended task has an outcome"
    end = outcome_name(outcome)
    span = tracer.start_span(
        f"task {tool}",
        context=context_of_task(task.call.trace),
        start_time=task.created_at * 1_000_000,
        attributes={
            names.TASK: task.id,
            names.TOOL: tool,
            names.RUN: task.fence,
            names.OUTCOME: end,
        },
    )
    if outcome.cause is not Cause.CANCELLED and (outcome.is_error or outcome.result is None):
        _fail(span, end)
    span.end(max(step.entry.at, task.created_at) * 1_000_000)


def record_exception(error: BaseException) -> None:
    """Record type and place of an exception on the current span, but not its message."""
    trace.get_current_span().add_event(
        names.EXCEPTION,
        {
            names.EXCEPTION_TYPE: _type_name(error),
            names.EXCEPTION_STACK: "".join(traceback.format_tb(error.__traceback__)),
        },
    )


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"


def _fail(span: Span, error: str) -> None:
    span.set_attribute(names.ERROR_TYPE, error)
    span.set_status(Status(StatusCode.ERROR))


def _created(answer: ResultResponse) -> str | None:
    """Return the id of the task that a call created: flat, or below `task`."""
    shown = answer.result.get("task", answer.result)
    task_id = shown.get("taskId") if isinstance(shown, dict) else None
    return task_id if isinstance(task_id, str) else None
