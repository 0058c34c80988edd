"""The tools of a server, and the execution of calls.

    tools = Tools()

    @tools.task(support="optional", timeout=60)
    async def greet(name: str) -> str:
        \"\"\"Says hello.\"\"\"
        return f"Hello, {name}!"

A plain call and a task both go through `Tool.run`, so their outcomes cannot differ.
"""

import asyncio
import contextlib
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Literal, TypeVar, get_args

import attrs

from taskmachine.adapters.tools.context import Context, SyncContext
from taskmachine.adapters.tools.errors import CannotAsk, Gone
from taskmachine.adapters.tools.lifespan import LifespanFunction, check_lifespan
from taskmachine.adapters.tools.plain_json import to_json
from taskmachine.adapters.tools.questions import Request, questions_of
from taskmachine.adapters.tools.signatures import Signature, signature_of
from taskmachine.protocol.dialects.dialect import TaskSupport
from taskmachine.protocol.dialects.mcp_2026_07_28.headers import mirrored_parameters
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.protocol.jsonvalue import MAX_BYTES, JSONObject, decode_json, encode_json
from taskmachine.protocol.offer import Tool as OfferedTool
from taskmachine.statemachine import (
    ConfigurationError,
    LimitExceeded,
    Outcome,
    Question,
    TaskmachineError,
)

__all__ = [
    "CallError",
    "Priority",
    "Threads",
    "Tool",
    "ToolError",
    "ToolResult",
    "Tools",
    "outcome_of",
]

log: Final = logging.getLogger("taskmachine")

Priority = Literal["low", "normal", "high"]
"""Orders the tasks of one owner; it does not affect other owners."""

_F = TypeVar("_F", bound=Callable[..., Any])


class ToolError(Exception):
    """Raised by a tool to return a result with `isError` and this text for the model."""


class CallError(Exception):
    """Raised by a tool to answer the call with this JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


@attrs.frozen
class ToolResult:
    """A result that a tool specifies exactly; other return values are wrapped."""

    content: list[JSONObject] = attrs.field(factory=list)
    structured: JSONObject | None = None
    is_error: bool = False
    meta: JSONObject | None = None


@attrs.frozen
class Tool:
    """A tool: its name, its signature and its options."""

    name: str
    function: Callable[..., Any]
    signature: Signature
    description: str | None = None
    support: TaskSupport = "optional"
    timeout_ms: int = 300_000
    is_repeatable: bool = True
    poll_interval_ms: int | None = None
    immediate: str | None = None
    priority: Priority = "normal"
    first: tuple[Question, ...] = ()
    parks: bool = False

    @cached_property
    def is_coroutine(self) -> bool:
        """True if it runs on the event loop, False if in a thread."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def offered(self) -> OfferedTool:
        """The tool as `tools/list` shows it."""
        definition: JSONObject = {"name": self.name, "inputSchema": self.signature.input_schema}
        if self.description:
            definition["description"] = self.description
        if self.signature.output_schema is not None:
            definition["outputSchema"] = self.signature.output_schema
        return OfferedTool(definition, self.support, self.immediate, self.first)

    async def run(
        self,
        arguments: bytes,
        context: Context,
        threads: "Threads",
        raised: Callable[[BaseException], None],
    ) -> Outcome:
        """Run the tool and return its outcome, which may be an error.

        Unexpected exceptions are logged and passed to `raised`.  This raises only if the tool was
        cancelled, has parked, has lost its task (`Gone`), or could not ask (`CannotAsk`).
        """
        try:
            values = self.signature.read(decode_json(arguments))
        except ValueError as error:  # a result, so that the model can correct its arguments
            return _error_result(f"Invalid arguments for tool '{self.name}': {error}")
        try:
            returned = await self._call(values, context, threads)
        except ToolError as error:
            return _error_result(str(error))
        except CallError as error:
            return self._error(error)
        except (CannotAsk, Gone):
            raise
        except TaskmachineError as error:  # raised by the context; its message may be disclosed
            log.warning("tool '%s' failed: %s", self.name, error)
            return Outcome.of_error(INTERNAL_ERROR, f"Tool '{self.name}' failed: {error}")
        except (Exception, SystemExit) as error:  # no tool takes the server down
            log.exception("tool '%s' raised", self.name)
            raised(error)
            return Outcome.of_error(INTERNAL_ERROR, f"Tool '{self.name}' failed")
        try:
            return self._result(returned)
        except ValueError as error:
            log.error("tool '%s' returned an invalid result: %s", self.name, error)
            return Outcome.of_error(
                INTERNAL_ERROR, f"Tool '{self.name}' returned an invalid result: {error}"
            )

    async def _call(self, values: dict[str, Any], context: Context, threads: "Threads") -> Any:
        parameter = self.signature.context_parameter
        if self.is_coroutine:
            if parameter is not None:
                values[parameter] = context
            return await self.function(**values)
        if parameter is not None:
            values[parameter] = SyncContext(context, asyncio.get_running_loop())
        return await threads.run(lambda: self.function(**values), self.name)

    def _result(self, returned: Any) -> Outcome:
        if not isinstance(returned, ToolResult):
            return outcome_of(self._wrapped(returned))
        if returned.structured is not None and not returned.is_error:
            self.signature.write(returned.structured)  # raises if it violates the output schema
        result: JSONObject = {"content": returned.content}
        if returned.structured is not None:
            result["structuredContent"] = returned.structured
        if returned.is_error:
            result["isError"] = True
        if returned.meta is not None:
            result["_meta"] = returned.meta
        return outcome_of(to_json(result))

    def _wrapped(self, returned: Any) -> JSONObject:
        value = self.signature.write(returned)
        if value is None:
            return {"content": []}
        text = value if isinstance(value, str) else encode_json(value).decode()
        result: JSONObject = {"content": [{"type": "text", "text": text}]}
        if isinstance(value, dict):
            result["structuredContent"] = value
        return result

    def _error(self, error: CallError) -> Outcome:
        try:
            data = None if error.data is None else encode_json(to_json(error.data, "data"))
        except ValueError:
            log.error("tool '%s' raised a CallError whose data is not JSON", self.name)
            data = None
        return Outcome.of_error(error.code, error.message, data)


class Tools(Mapping[str, Tool]):
    """The tools of a server, by name.

    `lifespan` is a function like `@asynccontextmanager async def lifespan(tools): ...`: it is
    entered before the first tool runs, and `ctx.lifespan` is what it yields.
    """

    def __init__(self, *, lifespan: LifespanFunction | None = None) -> None:
        if lifespan is not None:
            check_lifespan(lifespan)
        self.lifespan = lifespan
        self._tools: dict[str, Tool] = {}

    def task(
        self,
        name: str | None = None,
        *,
        description: str | None = None,
        support: TaskSupport = "optional",
        timeout: float = 300,
        retry: bool = True,
        poll_interval: float | None = None,
        immediate: str | None = None,
        priority: Priority = "normal",
        first: Mapping[str, Request[Any]] | None = None,
        parks: bool = False,
        schema: JSONObject | None = None,
    ) -> Callable[[_F], _F]:
        """Register a function as a tool.  `timeout` and `poll_interval` are in seconds.

        `retry`: the function may run again if its worker is lost.  `immediate`: an immediate
        response for the model when a call becomes a task.  `first`: questions that are asked before
        the task exists, where the wire supports it; the function asks the same under the same keys
        and gets the stored answers.  `parks`: the function ends where it asks and runs again with
        the answers, instead of waiting.  `schema`: shown instead of the schema derived from the
        annotations, by which arguments are still checked.  `ConfigurationError` if the function
        cannot be a tool.
        """

        def register(function: _F) -> _F:
            signature = signature_of(function, (Context, SyncContext), (ToolResult,))
            if schema is not None:
                signature = attrs.evolve(signature, input_schema=_checked(schema))
            tool = Tool(
                name or function.__name__,
                function,
                signature,
                description or inspect.getdoc(function),
                _one_of("support", support, TaskSupport),
                _milliseconds("timeout", timeout),
                retry,
                None if poll_interval is None else _milliseconds("poll_interval", poll_interval),
                immediate,
                _one_of("priority", priority, Priority),
                questions_of(first or {}),
                parks,
            )
            self.add(tool)
            return function

        return register

    def add(self, tool: Tool) -> None:
        """Register a tool; ConfigurationError if its name is taken."""
        if tool.name in self._tools:
            raise ConfigurationError(f"a tool '{tool.name}' is already registered")
        self._tools[tool.name] = tool

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


def outcome_of(result: JSONObject) -> Outcome:
    """Return the outcome of a call with this result; ValueError if not JSON or too large."""
    encoded = encode_json(result)
    if len(encoded) > MAX_BYTES // 2:  # it must fit into a message
        raise ValueError(f"the result has {len(encoded)} bytes; the limit is {MAX_BYTES // 2}")
    return Outcome.of_result(encoded, is_error=bool(result.get("isError")))


def _checked(schema: JSONObject) -> JSONObject:
    if schema.get("type") != "object":
        raise ConfigurationError('schema must have the type "object"')
    try:
        mirrored_parameters(schema)
    except ValueError as error:
        raise ConfigurationError(f"schema: {error}") from None
    return schema


def _one_of(option: str, value: Any, choices: Any) -> Any:
    if value not in get_args(choices):
        raise ConfigurationError(f"{option} must be one of {', '.join(get_args(choices))}")
    return value


def _milliseconds(option: str, seconds: float) -> int:
    if not 0.001 <= seconds <= 7 * 24 * 3600:
        raise ConfigurationError(f"{option} must be from 1 ms to 7 days, got {seconds} s")
    return round(seconds * 1000)


def _error_result(text: str) -> Outcome:
    result = {"content": [{"type": "text", "text": text}], "isError": True}
    return Outcome.of_result(encode_json(result), is_error=True)


class Threads:
    """Runs functions in separate daemon threads, up to a number at a time.

    Unlike in a pool, a function that never returns does not prevent the process from exiting, but
    it counts towards the limit.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.alive = 0

    async def run(self, function: Callable[[], Any], name: str) -> Any:
        """Return or raise the function's result; `LimitExceeded` if too many functions run."""
        if self.alive >= self._limit:
            raise LimitExceeded(f"{self._limit} threads", 1_000)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def ended(act: Callable[[Any], None], value: Any) -> None:
            self.alive -= 1
            if done.done():
                log.warning("tool '%s' ended after it was abandoned", name)
            else:
                act(value)

        def work() -> None:
            try:
                outcome = done.set_result, context.run(function)
            except StopIteration:  # futures cannot carry it
                outcome = done.set_exception, RuntimeError("the tool raised StopIteration")
            except BaseException as error:  # noqa: BLE001  raised in the caller
                outcome = done.set_exception, error
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(ended, *outcome)

        self.alive += 1
        threading.Thread(target=work, name=f"tool {name}", daemon=True).start()
        return await done
