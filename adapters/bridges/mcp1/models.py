"""Convert between messages of the dialect and models of `mcp` 1.x."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mcp.shared.exceptions import McpError
from mcp.types import ErrorData, Result, Task
from pydantic import BaseModel

from taskmachine.protocol.dialects.mcp_2025_11_25.messages import DIALECT
from taskmachine.protocol.dialects.mcp_2025_11_25.receiver import RECEIVER
from taskmachine.protocol.jsonrpc import Error
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.protocol.operations import Collect, Get
from taskmachine.statemachine import Cause, Outcome, TaskmachineError
from taskmachine.statemachine import Task as Record

__all__ = ["answer_of", "dialect_errors", "encode_result", "result_of", "task_of"]

_M = TypeVar("_M", bound=BaseModel)


def task_of(record: Record, now: int) -> Task:
    """Return a task as a model of 2025-11-25."""
    return answer_of(Task, RECEIVER.reply(Get(record.id), record, (), now))


def result_of(record: Record, now: int) -> Result:
    """Return the answer to `tasks/result` for an ended task; raise `McpError` for an error."""
    return answer_of(Result, RECEIVER.reply(Collect(record.id), record, (), now))


def answer_of(model: type[_M], answer: Any) -> _M:
    """Convert an answer of the dialect to a model, or raise its error."""
    if isinstance(answer, Error):
        raise _error(answer)
    return model.model_validate(DIALECT.shapes.encode(answer))


@contextmanager
def dialect_errors() -> Iterator[None]:
    """Convert exceptions to the errors of the dialect."""
    try:
        yield
    except TaskmachineError as error:
        raise _error(DIALECT.encode_error(None, error).error) from None


def encode_result(result: Result) -> Outcome:
    """Return the outcome of a tool with this result; raise ValueError if it is not JSON."""
    body = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return Outcome(Cause.RESULT, encode_json(body), is_error=body.get("isError") is True)


def _error(said: Error) -> McpError:
    return McpError(ErrorData(code=said.code, message=said.message, data=said.data))
