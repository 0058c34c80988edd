"""The tools of a server, and the one path from a call to its outcome.

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

from taskmachine.adapters.tools.context import Context, Request, SyncContext, questions_of
from taskmachine.adapters.tools.errors import CannotAsk, Gone
from taskmachine.adapters.tools.plain_json import to_json
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
"""Among the tasks of one owner: nobody gets ahead of others by it."""

_F = TypeVar("_F", bound=Callable[..., Any])


class ToolError(Exception):
    """Raised by a tool: the result says `isError`, with this text for the model to read."""


class CallError(Exception):
    """Raised by a tool: the call is answered with this JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


@attrs.frozen
class ToolResult:
    """For a tool that wants to say exactly what its result is; other values are wrapped."""

    content: list[JSONObject] = attrs.field(factory=list)
    structured: JSONObject | None = None
    is_error: bool = False
    meta: JSONObject | None = None


@attrs.frozen
class Tool:
    """One tool: what it is called, what it takes, and on what terms it runs."""

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
        """Whether it runs on the event loop, and not in a thread."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def offered(self) -> OfferedTool:
        """As a list of tools shows it."""
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
        """The outcome of a call.  What the tool does wrong is an outcome, too, logged, and told.

        Raises only what is none: that the tool was cancelled, has parked, lost its task, or
        could not ask.
        """
        try:
            values = self.signature.read(decode_json(arguments))
        except ValueError as error:  # the model can correct itself; the tool is not touched
            return _error_result(f"Invalid arguments for tool '{self.name}': {error}")
        try:
            returned = await self._call(values, context, threads)
        except ToolError as error:
            return _error_result(str(error))
        except CallError as error:
            return self._error(error)
        except (CannotAsk, Gone):
            raise
        except TaskmachineError as error:  # of the context, in words that anybody may read
            log.warning("tool '%s' failed: %s", self.name, error)
            return Outcome.of_error(INTERNAL_ERROR, f"Tool '{self.name}' failed: {error}")
        except (Exception, SystemExit) as error:  # no tool takes the server down
            log.exception("tool '%s' raised", self.name)
            raised(error)
            return Outcome.of_error(INTERNAL_ERROR, f"Tool '{self.name}' failed")
        try:
            return self._result(returned)
        except ValueError as error:
            log.error("tool '%s' returned what is no result: %s", self.name, error)
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
            self.signature.write(returned.structured)  # it must be what the schema promises
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
            log.error("tool '%s' raised an error with data that is not JSON", self.name)
            data = None
        return Outcome.of_error(error.code, error.message, data)


class Tools(Mapping[str, Tool]):
    """The tools of a server, by name."""

    def __init__(self) -> None:
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
        """Offer a function as a tool.  `timeout` and `poll_interval` are seconds.

        `retry` says that the function may be run again when its worker was lost: true for what
        can be repeated without harm.  `immediate` is what the model is told while a task runs.
        `first` is asked before there is a task where the wire can do that; the function asks the
        same under the same keys and gets the answers that are there.  With `parks` the function
        is ended where it asks and run again with the answers, so that nobody waits for a person;
        else it stays.  `schema` is shown instead of the one that follows from the annotations; it
        is these that arguments are checked by.
        `ConfigurationError` for what cannot be offered.
        """

        def offer(function: _F) -> _F:
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

        return offer

    def add(self, tool: Tool) -> None:
        """Offer a tool that is no function of ours; ConfigurationError if its name is taken."""
        if tool.name in self._tools:
            raise ConfigurationError(f"there is a tool '{tool.name}' already")
        self._tools[tool.name] = tool

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


def outcome_of(result: JSONObject) -> Outcome:
    """That a call ended with this result; ValueError if it is no JSON, or too much of it."""
    encoded = encode_json(result)
    if len(encoded) > MAX_BYTES // 2:  # it has to fit into a message
        raise ValueError(f"a result of {len(encoded)} bytes is more than {MAX_BYTES // 2}")
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
    """Runs functions in daemon threads of their own, so many at a time.

    Unlike in a pool, one that never returns does not keep the process from leaving; but it counts.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.alive = 0

    async def run(self, function: Callable[[], Any], name: str) -> Any:
        """What the function returns or raises; `LimitExceeded` if too many are still running."""
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
            except StopIteration:  # which no future can carry
                outcome = done.set_exception, RuntimeError("the tool raised StopIteration")
            except BaseException as error:  # noqa: BLE001, it is raised where it is awaited
                outcome = done.set_exception, error
            with contextlib.suppress(RuntimeError):  # the loop may be closed: nobody waits
                loop.call_soon_threadsafe(ended, *outcome)

        self.alive += 1
        threading.Thread(target=work, name=f"tool {name}", daemon=True).start()
        return await done
