"""Recorded steps: functions that a tool calls once, however often it runs."""

import asyncio
import hashlib
import inspect
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from inspect import Parameter
from typing import Any, Final, Generic, ParamSpec, TypeVar, get_args, get_origin

import attrs
from pydantic import ConfigDict, TypeAdapter
from pydantic_core import to_jsonable_python

from taskmachine.adapters.tools.blame import blaming, home_of
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.functions import resolved
from taskmachine.adapters.tools.json_schemas import schema_of
from taskmachine.adapters.tools.recorded import Recorder, StepError
from taskmachine.adapters.tools.registry import DELIBERATE
from taskmachine.adapters.tools.results import dumped, to_json
from taskmachine.adapters.tools.retries import MOST_S, Backoff, Failures, Retries, retries_of
from taskmachine.adapters.tools.type_adapters import adapter_of, shown
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
            {"retries": retries} | {n: value for n, value in given.items() if value is not None}
        )
        if not callable(function) or isinstance(function, _Retrying):
            raise ConfigurationError(f"needs a function without retries, got {function!r:.80}")
        if timeout is not None:
            is_number = isinstance(timeout, float | int)
            if not is_number or not 0.001 <= timeout <= MOST_S:
                raise ConfigurationError(f"timeout must be 1 ms to 7 days, got {timeout!r:.40}")
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
        with recorder.observed(key, is_recorded=found is not None):
            with _named(key):
                yield step
            if found is None:
                step.result = _Results(lambda: None, key).write(step.result)
                await recorder.record("step", key, "", step.result)


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
    with recorder.using(key):
        policy = _policy_of(key, function)
        results = _Results(policy.function, key)
        request = _digest(key, args, kwargs)
        found = await recorder.find("step", key, request)
        with recorder.observed(key, is_recorded=found is not None):
            if found is not None:
                return results.read(found["result"])
            data = results.write(await _attempted(policy, run_in_thread, seed, key, args, kwargs))
            result = results.read(data)  # before it is recorded for good
            await recorder.record("step", key, request, data)
            return result


async def _attempted(
    policy: _Retrying[..., Any],
    run_in_thread: RunInThread,
    seed: str,
    key: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    failures = 0
    while True:
        try:
            return await _called(policy, run_in_thread, key, args, kwargs)
        except Exception as error:
            failures += 1
            pause_s = policy.retries.pause_s(
                error, failures, f"{seed} {key}", is_deliberate=isinstance(error, DELIBERATE)
            )
            if pause_s is None or isinstance(error, Gone):
                raise
            log.warning("step '%s' failed; retrying in %.1f s: %r", key, pause_s, error)
            await asyncio.sleep(pause_s)


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
    limit = asyncio.timeout(policy.timeout)
    try:
        async with limit:
            with _named(key):
                if any(map(inspect.iscoroutinefunction, (function, home_of(function)))):
                    return await function(*args, **kwargs)
                returned = await run_in_thread(lambda: function(*args, **kwargs), f"step {key}")
                return await returned if inspect.isawaitable(returned) else returned
    except TimeoutError:
        if not limit.expired():  # the function's own
            raise
        raise TimeoutError(f"step '{key}' took longer than {policy.timeout:g} s") from None


@contextmanager
def _named(key: str) -> Iterator[None]:
    before = step_key.get()
    step_key.set(key)
    try:
        yield
    finally:
        step_key.set(before)  # a token fails if the run was abandoned in another context


def _policy_of(key: str, function: Any) -> _Retrying[..., Any]:
    if not callable(function):
        if inspect.iscoroutine(function):
            function.close()
        raise StepError(
            f"step '{key}' needs a function and then its arguments, as in"
            f" ctx.step('{key}', fetch, url); got {type(function).__name__}"
        )
    if isinstance(function, _Retrying):
        return function
    if isinstance(function, partial) and isinstance(function.func, _Retrying):
        bound = partial(function.func.function, *function.args, **function.keywords)
        return attrs.evolve(function.func, function=bound)
    return _Retrying(function, Retries(), None)


# --- results ---------------------------------------------------------------------------------

_BYTES: Final = TypeAdapter(
    bytes, config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)


class _Results:
    """The results of a step's function as JSON, and back in the type that it declares."""

    def __init__(self, function: Callable[..., Any], key: str) -> None:
        self._key = key
        with blaming(f"step '{key}'"), blaming("the return type"):
            self._adapter = _adapter_of(_returned_by(function))

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
                f"the result of step '{self._key}' does not fit the return type when it is read"
            ) from None


def _returned_by(function: Callable[..., Any]) -> Any:
    home = home_of(function)
    if isinstance(home, type):
        return home
    annotation = getattr(home, "__annotations__", {}).get("return", Parameter.empty)
    hint = resolved(annotation, getattr(home, "__globals__", {}))
    origin = get_origin(hint)
    is_awaited = isinstance(origin, type) and issubclass(origin, Awaitable)
    return get_args(hint)[-1] if is_awaited else hint


def _adapter_of(hint: Any) -> TypeAdapter[Any] | None:
    if hint is Any:
        return None
    if hint is bytes:  # any bytes, not only UTF-8
        return _BYTES
    try:
        return _cached_adapter(hint, repr(hint))
    except TypeError:  # an annotation that cannot be hashed
        return _cached_adapter.__wrapped__(hint, "")


@lru_cache(maxsize=1024)
def _cached_adapter(hint: Any, _: str) -> TypeAdapter[Any]:
    """The text tells `int | str` from `str | int`, which are equal."""
    adapter = adapter_of(hint)
    schema_of(adapter, shown(hint), "serialization")  # refuses what has no JSON form
    return adapter


# --- requests --------------------------------------------------------------------------------


def _digest(key: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return what tells two requests under one key apart: a digest of the arguments."""
    if not args and not kwargs:
        return ""
    try:
        plain = _ANYTHING.dump_python([args, kwargs], fallback=_ordered)
        data = to_jsonable_python(_ordered(plain), bytes_mode="base64")
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:100]
        raise StepError(
            f"the arguments of step '{key}' cannot be JSON: {reason}; bind others, such as clients,"
            " with functools.partial"
        ) from None
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]


_ANYTHING: Final = TypeAdapter(object)


def _ordered(value: Any) -> Any:
    """Return plain data with lists for sets, whose order is another one in each process."""
    if isinstance(value, Set):
        return sorted(map(_ordered, value), key=lambda item: json.dumps(to_json(item)))
    if isinstance(value, Mapping):
        return {key: _ordered(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_ordered, value)]
    if attrs.has(type(value)):
        members = attrs.asdict(value, recurse=False)
        return _ordered(_ANYTHING.dump_python(members, fallback=_ordered))
    return value
