"""Recorded steps: functions that a tool calls once, however often it runs."""

import asyncio
import hashlib
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Final, Generic, ParamSpec, TypeVar, get_type_hints

import attrs
from pydantic import ConfigDict, TypeAdapter

from taskmachine.adapters.tools.blame import blaming, home_of
from taskmachine.adapters.tools.recorded import Recorder, StepError
from taskmachine.adapters.tools.results import dumped, to_json
from taskmachine.adapters.tools.retries import Backoff, Failures, Retries, retries_of
from taskmachine.adapters.tools.type_adapters import adapter_of
from taskmachine.adapters.tools.work import Parked
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import ConfigurationError

__all__ = ["RunInThread", "Step", "block", "gathered", "retrying", "run", "step_key"]

log: Final = logging.getLogger("taskmachine")

_P = ParamSpec("_P")
_T = TypeVar("_T")

RunInThread = Callable[[Callable[[], Any], str], Awaitable[Any]]

step_key: Final[ContextVar[str | None]] = ContextVar("step_key", default=None)
"""The key of the step whose function runs."""


@attrs.frozen
class _Retrying(Generic[_P, _T]):
    """A function with its own retries and time-out, see `retrying`."""

    function: Callable[_P, _T]
    retries: Retries
    timeout: float | None

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self.function(*args, **kwargs)


def retrying(
    function: Callable[_P, _T],
    *,
    retries: int = 0,
    backoff: Backoff | None = None,
    retry_on: Failures | None = None,
    give_up_on: Failures | None = None,
    timeout: float | None = None,
) -> Callable[_P, _T]:
    """Give the function of a step its own retries and time-out, in seconds for each attempt.

        await ctx.step("fetch", retrying(fetch, retries=3, timeout=10), url)

    The tool waits between the attempts and keeps its place; `ConfigurationError` for values that
    cannot be.
    """
    given = {"backoff": backoff, "retry_on": retry_on, "give_up_on": give_up_on}
    with blaming("retrying"):
        policy = retries_of(
            {"retries": retries, **{name: value for name, value in given.items() if value}}
        )
        if timeout is not None and not timeout > 0:
            raise ConfigurationError(f"timeout must be above 0 s, got {timeout!r:.40}")
    return _Retrying(function, policy, timeout)


@attrs.define
class Step:
    """A step as a block: `async with ctx.step("fetch") as step`."""

    result: Any = None
    """The result, which must be JSON."""
    is_recorded: bool = False
    """True if an earlier run has recorded the result, so the block has nothing left to do."""


@asynccontextmanager
async def block(recorder: Recorder, key: str) -> AsyncIterator[Step]:
    """Record what the block leaves in `step.result`."""
    with recorder.using(key):
        found = await recorder.find("step", key, "")
        step = Step() if found is None else Step(found["result"], is_recorded=True)

        async def left() -> None:
            if found is None:
                data = _Results(lambda: None, key).write(step.result)
                await recorder.record("step", key, "", data)

        if recorder.work.observe_step is None:
            yield step
            await left()
        else:
            with recorder.work.observe_step(key, found is not None):
                yield step
                await left()


async def run(
    recorder: Recorder,
    run_in_thread: RunInThread,
    seed: str,
    key: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Return the recorded result of a step, or call its function and record the result."""
    policy = function if isinstance(function, _Retrying) else _Retrying(function, Retries(), None)
    results = _Results(policy.function, key)
    with recorder.using(key):
        request = _digest(key, args, kwargs)
        found = await recorder.find("step", key, request)

        async def result() -> Any:
            if found is not None:
                return results.read(found["result"])
            failures = 0
            while True:
                try:
                    returned = await _called(policy, run_in_thread, key, args, kwargs)
                    break
                except Exception as error:
                    failures += 1
                    pause_s = policy.retries.pause_s(error, failures, f"{seed} {key}")
                    if pause_s is None:
                        raise
                    log.warning("step '%s' failed; retrying in %.1f s: %r", key, pause_s, error)
                    await asyncio.sleep(pause_s)
            data = results.write(returned)
            await recorder.record("step", key, request, data)
            return results.read(data)

        if recorder.work.observe_step is None:
            return await result()
        with recorder.work.observe_step(key, found is not None):
            return await result()


async def gathered(steps: Sequence[Awaitable[Any]]) -> list[Any]:
    """Return the results in order.

    The first error stops the other steps.  If one parks, the others end first, as a step that is
    stopped would run again.
    """
    running = [asyncio.ensure_future(step) for step in steps]
    parked: list[Parked] = []
    try:
        pending = set(running)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
            for error in filter(None, (step.exception() for step in done)):
                if not isinstance(error, Parked):
                    raise error
                parked.append(error)
    finally:
        for step in running:
            step.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    if parked:
        times = [one.due_at for one in parked if one.due_at is not None]
        raise Parked(
            [question for one in parked for question in one.questions], min(times, default=None)
        )
    return [step.result() for step in running]


async def _called(
    policy: _Retrying[..., Any],
    run_in_thread: RunInThread,
    key: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    function = policy.function
    before = step_key.get()
    step_key.set(key)
    try:
        async with asyncio.timeout(policy.timeout):
            if any(map(inspect.iscoroutinefunction, (function, home_of(function)))):
                return await function(*args, **kwargs)
            returned = await run_in_thread(lambda: function(*args, **kwargs), f"step {key}")
            return await returned if inspect.isawaitable(returned) else returned
    except TimeoutError as error:
        if error.args:
            raise
        raise TimeoutError(f"step '{key}' took longer than {policy.timeout:g} s") from None
    finally:
        step_key.set(before)  # a token fails if the run was abandoned in another context


_BYTES: Final = TypeAdapter(
    bytes, config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


class _Results:
    """The results of a step's function as JSON, and back in the type that it declares."""

    def __init__(self, function: Callable[..., Any], key: str) -> None:
        self._key = key
        try:
            hint = get_type_hints(home_of(function), include_extras=True).get("return", Any)
        except (NameError, TypeError):  # not a function, or with names that only checkers see
            hint = Any
        self._adapter: TypeAdapter[Any] | None = None
        if hint is bytes:  # any bytes, not only UTF-8
            self._adapter = _BYTES
        elif hint is not Any:
            with blaming(f"step '{key}'"), blaming("the return type"):
                self._adapter = adapter_of(hint)

    def write(self, value: Any) -> Any:
        try:
            if self._adapter is None:
                return to_json(value)
            return dumped(self._adapter, value, "result")
        except ValueError as error:
            raise StepError(f"step '{self._key}' cannot be recorded: {error}") from None

    def read(self, data: Any) -> Any:
        if self._adapter is None:
            return data
        try:
            return self._adapter.validate_json(encode_json(data))
        except ValueError:
            raise StepError(
                f"the recorded result of step '{self._key}' does not fit its type any more"
            ) from None


def _digest(key: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return what tells two requests under one key apart: a digest of the arguments."""
    if not args and not kwargs:
        return ""
    try:
        data = encode_json([to_json([*args]), sorted(to_json({**kwargs}).items())])
    except ValueError as error:
        raise StepError(
            f"the arguments of step '{key}' cannot be JSON: {error}; bind others, such as clients,"
            " with functools.partial"
        ) from None
    return hashlib.sha256(data).hexdigest()[:32]
