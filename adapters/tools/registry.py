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
from typing import Any, Final, TypeVar, Unpack, get_args, overload

import attrs

from taskmachine.adapters.tools.blame import blaming, home_of, line_of, name_of
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.definitions import (
    Options,
    Priority,
    check_name,
    check_options,
    details_of,
)
from taskmachine.adapters.tools.docstrings import descriptions_of
from taskmachine.adapters.tools.errors import CallError, CannotAsk, Gone, ToolError
from taskmachine.adapters.tools.lifespan import LifespanFunction, check_lifespan
from taskmachine.adapters.tools.questions import questions_of
from taskmachine.adapters.tools.retries import Again, Retries, Retry, retries_of
from taskmachine.adapters.tools.signatures import Signature
from taskmachine.adapters.tools.sync_context import SyncContext
from taskmachine.protocol.dialects.dialect import TaskSupport
from taskmachine.protocol.dialects.mcp_2026_07_28.headers import mirrored_parameters
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.protocol.jsonvalue import (
    MAX_BYTES,
    MAX_DEPTH,
    JSONObject,
    decode_json,
    encode_json,
)
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
    "Tools",
    "outcome_of",
]

log: Final = logging.getLogger("taskmachine")

MAX_RESULT: Final = MAX_BYTES * 3 // 4
"""Size limit of a result, which must fit into a message; most hold their data twice."""

MAX_VERSION: Final = 64
"""Maximum length of a tool's version, in characters."""

_F = TypeVar("_F", bound=Callable[..., Any])


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
    retries: Retries = attrs.field(factory=Retries)
    version: str = "1"
    accepts: frozenset[str] = frozenset()
    """Other versions whose tasks this version can continue."""
    details: Mapping[str, Any] = attrs.field(factory=dict)
    """Further members of its definition, such as its title and annotations."""

    @cached_property
    def is_coroutine(self) -> bool:
        """True if it runs on the event loop, False if in a thread."""
        function = home_of(self.function)
        return any(map(inspect.iscoroutinefunction, (self.function, function)))

    @property
    def offered(self) -> OfferedTool:
        """The tool as `tools/list` shows it."""
        definition: JSONObject = {"name": self.name, "inputSchema": self.signature.input_schema}
        if self.description:
            definition["description"] = self.description
        if self.signature.output_schema is not None:
            definition["outputSchema"] = self.signature.output_schema
        definition.update(self.details)
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
        cancelled, has parked or is tried `Again`, has lost its task (`Gone`), or could not ask
        (`CannotAsk`).
        """
        try:
            return await self._run(arguments, context, threads)
        except (CannotAsk, Gone):
            raise
        except (Exception, SystemExit) as error:  # no tool takes the server down
            pause_s = self._pause_s(error, context)
            if pause_s is not None:
                log.warning("tool '%s' is tried again in %.1f s: %r", self.name, pause_s, error)
                shown = error.reason if isinstance(error, Retry) else ""
                raise Again(pause_s, repr(error), shown) from None
            if isinstance(error, TaskmachineError):  # raised by the context; may be disclosed
                log.warning("tool '%s' failed: %s", self.name, error)
                return Outcome.of_error(INTERNAL_ERROR, f"Tool '{self.name}' failed: {error}")
            log.exception("tool '%s' raised", self.name)
            raised(error)
            reason = f": {error}" if isinstance(error, Retry) and error.reason else ""
            return Outcome.of_error(INTERNAL_ERROR, f"Tool '{self.name}' failed{reason}")

    def _pause_s(self, error: BaseException, context: Context) -> float | None:
        if context.task_id is None:
            return None  # the caller of a plain call waits, and can repeat it
        return self.retries.pause_s(error, context.attempt, context.task_id)

    async def _run(self, arguments: bytes, context: Context, threads: "Threads") -> Outcome:
        try:
            values = self.signature.read(decode_json(arguments))
        except ValueError as error:  # a result, so that the model can correct its arguments
            return _error_result(f"Invalid arguments for tool '{self.name}': {error}")
        try:
            returned = await self._call(values, context, threads)
        except (ToolError, CallError) as error:
            if self._pause_s(error, context) is not None:
                raise
            return _error_result(str(error)) if isinstance(error, ToolError) else self._error(error)
        try:
            return outcome_of(self.signature.write(returned))
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

    def _error(self, error: CallError) -> Outcome:
        try:
            data = None if error.data is None else encode_json(error.data)
        except (TypeError, ValueError):
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
        self._versions: dict[tuple[str, str], Tool] = {}

    @overload
    def task(self, name: _F, /) -> _F: ...

    @overload
    def task(self, name: str | None = None, **options: Unpack[Options]) -> Callable[[_F], _F]: ...

    def task(self, name: Any = None, **options: Any) -> Any:
        """Register a function as a tool: `@tools.task`, or with options `@tools.task(...)`.

        `name` and `description` are by default those of the function.  `title`, `annotations` (such
        as `{"readOnlyHint": True}`), `icons`, `meta` and `tags` are shown to clients.  `support`
        says whether a call may, must or must not be a task.  `timeout` and `poll_interval` are in
        seconds.  `repeatable`: the function may run again if its worker is lost.  `retries`: how
        often a task is tried again after an exception of `retry_on` that is not one of
        `give_up_on`, after the pause of `backoff`.  `version`: of several versions, the one
        registered last gets new calls; a task continues with the version under which it began, or
        with one that `accepts` it.  `immediate`: an immediate response for the model when a call
        becomes a task.  `first`: questions that are asked before the task exists, where the wire
        supports it; the function asks the same under the same keys and gets the stored answers.
        `parks`: the function ends where it asks and runs again with the answers, instead of
        waiting.  `schema`: shown instead of the schema derived from the annotations, by which
        arguments are still checked.  `ConfigurationError` if the function cannot be a tool.
        """
        if callable(name):
            self.add(name, **options)
            return name

        def register(function: _F) -> _F:
            self.add(function, name, **options)
            return function

        return register

    def add(
        self,
        tool: Tool | Callable[..., Any],
        name: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Register a function as `task` does, or a tool that exists already."""
        if not isinstance(tool, Tool):
            tool = _tool_of(tool, name, options)
        if (tool.name, tool.version) in self._versions:
            of = "" if tool.version == "1" else f" in version '{tool.version}'"
            raise ConfigurationError(f"a tool '{tool.name}' is already registered{of}")
        self._tools[tool.name] = self._versions[tool.name, tool.version] = tool

    def of_version(self, name: str, version: str | None) -> Tool:
        """Return the tool that continues tasks of this version; None stands for any version.

        `ConfigurationError` if there is none.
        """
        tool = self._versions.get((name, version or "")) or self[name]
        if version in (None, tool.version) or version in tool.accepts:
            return tool
        raise ConfigurationError(
            f"the task began under version '{version}' of the tool, and the worker has version"
            f" '{tool.version}'"
        )

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


def outcome_of(result: JSONObject) -> Outcome:
    """Return the outcome of a call with this result; ValueError if not JSON or too large."""
    encoded = encode_json(result)
    if len(encoded) > MAX_RESULT:
        raise ValueError(f"the result has {len(encoded)} bytes; the limit is {MAX_RESULT}")
    if encoded.count(b"[") + encoded.count(b"{") > MAX_DEPTH:
        decode_json(encoded)  # raises if it is nested too deeply
    return Outcome.of_result(encoded, is_error=bool(result.get("isError")))


def _tool_of(function: Any, name: str | None, options: Options) -> Tool:
    # Here, as pydantic takes a fifth of the time to start, and clients have no tools.
    from taskmachine.adapters.tools.functions import signature_of

    if not callable(function):
        raise ConfigurationError(f"a tool must be a function, got {function!r:.80}")
    with blaming(line_of(function)):
        name = check_name(name_of(function) if name is None else name)
        with blaming(f"tool '{name}'"):
            check_options(options)
            description, parameters = descriptions_of(function)
            signature = signature_of(function, (Context, SyncContext), parameters)
            schema = options.get("schema")
            if schema is not None:
                signature = attrs.evolve(signature, input_schema=schema)
            _check_schema(signature.input_schema)
            poll_interval = options.get("poll_interval")
            return Tool(
                name,
                function,
                signature,
                options.get("description") or description,
                _one_of("support", options.get("support", "optional"), TaskSupport),
                _milliseconds("timeout", options.get("timeout", 300)),
                options.get("repeatable", True),
                None if poll_interval is None else _milliseconds("poll_interval", poll_interval),
                options.get("immediate"),
                _one_of("priority", options.get("priority", "normal"), Priority),
                questions_of(options.get("first") or {}),
                options.get("parks", False),
                retries_of(options),
                _version(options.get("version", "1")),
                frozenset(map(_version, options.get("accepts", ()))),
                details_of(
                    options.get("title"),
                    options.get("annotations"),
                    options.get("icons"),
                    options.get("meta"),
                    options.get("tags"),
                ),
            )


def _check_schema(schema: JSONObject) -> None:
    if schema.get("type") != "object":
        raise ConfigurationError('schema must have the type "object"')
    try:
        mirrored_parameters(schema)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def _one_of(option: str, value: Any, choices: Any) -> Any:
    if value not in get_args(choices):
        raise ConfigurationError(f"{option} must be one of {', '.join(get_args(choices))}")
    return value


def _version(version: Any) -> str:
    if not isinstance(version, str) or not 0 < len(version) <= MAX_VERSION:
        raise ConfigurationError(
            f"a version must be a text of 1 to {MAX_VERSION} characters, got {version!r:.80}"
        )
    return version


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
