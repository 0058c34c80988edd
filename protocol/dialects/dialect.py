"""The message layer of a dialect: a method table, a status projection and an error table.

Each dialect module fills these in and adds the few functions in which it differs.  The same object
serves both roles: a receiver decodes requests and encodes results, a requestor the reverse.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import attrs

from taskmachine.protocol.errors import InvalidParams, InvalidResult, MethodNotFound
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    Error,
    ErrorResponse,
    Id,
    Notification,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import JSONObject, decode_json
from taskmachine.protocol.shapes import Shapes
from taskmachine.protocol.timestamps import decode_timestamp, encode_timestamp
from taskmachine.statemachine import Call, Question, State, Task

__all__ = [
    "Dialect",
    "Method",
    "Side",
    "TaskSupport",
    "answerable_kinds",
    "capabilities_for",
    "kind_of",
    "read_wishes",
    "wishes_of",
]

TaskSupport = Literal["required", "optional", "forbidden"]
"""Whether a tool runs as a task."""

Side = Literal["client", "server"]
"""The sender of a request.  In 2025-11-25 either side can own tasks."""

IDEMPOTENCY_KEY: Final = "taskmachine/idempotency-key"
NOT_BEFORE: Final = "taskmachine/not-before"
"""Member of a request's `_meta`: a request repeated under the same key makes no second task."""


@attrs.frozen
class Method:
    """One row of a method table."""

    params: type
    result: Any
    """The class of its result, or a union of classes."""
    senders: tuple[Side, ...] = ("client",)


@attrs.frozen(eq=False)
class Dialect:
    """The messages of one protocol revision, or of a private dialect."""

    revision: str
    methods: Mapping[str, Method]
    notifications: Mapping[str, type]
    statuses: Mapping[State, str]
    error_result_status: str
    """The status of a task whose tool returned a result with `isError: true`."""
    errors: Mapping[type[Exception], Callable[[Any], Error]]
    """The first matching row applies; an exception without a row is an internal error."""
    shapes: Shapes
    requeued_status: str | None = None
    """The status of a `submitted` task that a worker has held before, if that differs."""
    _method_of: Mapping[type, str] = attrs.field(init=False)

    @_method_of.default
    def _index(self) -> Mapping[type, str]:
        requests = {method.params: name for name, method in self.methods.items()}
        return requests | {params: name for name, params in self.notifications.items()}

    def status(self, task: Task) -> str:
        """Return the status of a stored task on this wire."""
        if task.outcome is not None and task.outcome.is_error:
            return self.error_result_status
        if self.requeued_status is not None and task.is_queued and task.fence:
            return self.requeued_status
        return self.statuses[task.state]

    def decode_request(self, request: Request, *, sender: Side = "client") -> Any:
        """Return the parameters as an instance of the method's class."""
        method = self.methods.get(request.method)
        if method is None or sender not in method.senders:
            raise MethodNotFound(request.method)
        try:
            return self.shapes.decode(request.params, method.params, "params")
        except ValueError as error:
            raise InvalidParams(str(error)) from None

    def decode_notification(self, notification: Notification) -> Any:
        """Return the parameters as an instance of the notification's class."""
        shape = self.notifications.get(notification.method)
        if shape is None:
            raise MethodNotFound(notification.method)
        try:
            return self.shapes.decode(notification.params, shape, "params")
        except ValueError as error:
            raise InvalidParams(str(error)) from None

    def decode_result(self, method: str, response: ResultResponse) -> Any:
        """Return the result of a call of `method`, or raise `InvalidResult`."""
        try:
            return self.shapes.decode(response.result, self.methods[method].result, "result")
        except ValueError as error:
            raise InvalidResult(method, str(error)) from None

    def encode_request(self, id: Id, params: Any) -> Request:
        """Return a request; the class of `params` determines the method."""
        return Request(id, self._method_of[type(params)], self.shapes.encode(params))

    def encode_notification(self, params: Any) -> Notification:
        """Return a notification; the class of `params` determines the method."""
        return Notification(self._method_of[type(params)], self.shapes.encode(params))

    def encode_response(
        self, id: Id, answer: Any, signature: JSONObject | None = None
    ) -> ResultResponse | ErrorResponse:
        """Return the response with this result message, or with this `Error`.

        `signature` goes into the `_meta` of a result.
        """
        if isinstance(answer, Error):
            return ErrorResponse(id, answer)
        result = self.shapes.encode(answer)
        if signature:
            result["_meta"] = {**signature, **result.get("_meta", {})}
        return ResultResponse(id, result)

    def encode_error(self, id: Id | None, error: Exception) -> ErrorResponse:
        """Return the response for an exception; details of unexpected ones are not disclosed."""
        for kind, words in self.errors.items():
            if isinstance(error, kind):
                return ErrorResponse(id, words(error))
        return ErrorResponse(id, Error(INTERNAL_ERROR, "Internal error"))


def read_wishes(request: Request) -> tuple[str | None, int | None]:
    """Return the idempotency key of a call, and the time before which it should not start."""
    meta = request.params.get("_meta") or {}
    key, time = meta.get(IDEMPOTENCY_KEY), meta.get(NOT_BEFORE)
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= 256):
        raise InvalidParams(f"params._meta['{IDEMPOTENCY_KEY}'] must be 1 to 256 characters")
    try:
        return key, None if time is None else decode_timestamp(time)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParams(
            f"params._meta['{NOT_BEFORE}'] must be a time such as 2026-07-28T12:00:00Z"
        ) from None


def wishes_of(call: Call) -> JSONObject:
    """Return the members of `_meta` that `read_wishes` reads."""
    wishes: JSONObject = {} if call.key is None else {IDEMPOTENCY_KEY: call.key}
    if call.not_before is not None:
        wishes[NOT_BEFORE] = encode_timestamp(call.not_before)
    return wishes


def answerable_kinds(capabilities: JSONObject) -> frozenset[str]:
    """Return the kinds of questions that a client with these capabilities can be asked.

    A kind is a method, followed by a mode or `tools` if they must be declared.
    """
    kinds = set()
    if isinstance(capabilities.get("roots"), dict):
        kinds.add("roots/list")
    sampling, elicitation = capabilities.get("sampling"), capabilities.get("elicitation")
    if isinstance(sampling, dict):
        kinds.add("sampling/createMessage")
        if "tools" in sampling:
            kinds.add("sampling/createMessage tools")
    if isinstance(elicitation, dict):
        modes = elicitation.keys() & {"form", "url"} or {"form"}  # empty means forms
        kinds |= {f"elicitation/create {mode}".removesuffix(" form") for mode in modes}
    return frozenset(kinds)


def kind_of(question: Question) -> str:
    """Return the kind that a client must declare to be asked this question."""
    params = decode_json(question.params)
    if question.method == "elicitation/create":
        mode = params.get("mode") or "form"
        return question.method if mode == "form" else f"{question.method} {mode}"
    if not params.keys().isdisjoint({"tools", "toolChoice"}):
        return f"{question.method} tools"
    return question.method


def capabilities_for(kinds: Iterable[str]) -> JSONObject:
    """Return the capabilities that a client must declare to be asked these kinds of questions."""
    required: JSONObject = {}
    wanted = frozenset(kinds)
    for kind in wanted:
        method, _, more = kind.partition(" ")
        required.setdefault(_CAPABILITIES[method], {}).update({more: {}} if more else {})
    if wanted >= {"elicitation/create", "elicitation/create url"}:
        required["elicitation"]["form"] = {}  # implied only if no other mode is declared
    return required


_CAPABILITIES: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
