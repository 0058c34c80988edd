"""What every dialect is made of: a method table, a status projection and an error table.

A dialect module fills these in and adds the few functions in which it differs.  The same object
serves both roles: a receiver decodes requests and encodes results, a requestor the other way.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

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
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.protocol.shapes import Shapes
from taskmachine.statemachine import State, Task

__all__ = ["Dialect", "Method", "Side", "answerable_methods"]

Side = Literal["client", "server"]
"""Who sends a request.  In 2025-11-25 either side can own tasks."""


@attrs.frozen
class Method:
    """One row of a method table."""

    params: type
    result: Any
    """The class of its result, or a union of classes."""
    senders: tuple[Side, ...] = ("client",)


def _no_check(_: Request) -> None:
    """A dialect without rules that come before the method table."""


@attrs.frozen(eq=False)
class Dialect:
    """One way to speak of tasks."""

    revision: str
    methods: Mapping[str, Method]
    notifications: Mapping[str, type]
    statuses: Mapping[State, str]
    error_result_status: str
    """The status of a task whose tool returned a result with `isError: true`."""
    errors: Mapping[type[Exception], Callable[[Any], Error]]
    shapes: Shapes
    check_first: Callable[[Request], None] = _no_check
    """Raises for requests that are refused whatever their method and parameters are."""
    _method_of: Mapping[type, str] = attrs.field(init=False)

    @_method_of.default
    def _index(self) -> Mapping[type, str]:
        requests = {method.params: name for name, method in self.methods.items()}
        return requests | {params: name for name, params in self.notifications.items()}

    def status(self, task: Task) -> str:
        """What this wire calls the state of a task that exists."""
        if task.outcome is not None and task.outcome.is_error:
            return self.error_result_status
        return self.statuses[task.state]

    def decode_request(self, request: Request, *, sender: Side = "client") -> Any:
        """The parameters as an instance of the method's class."""
        self.check_first(request)
        method = self.methods.get(request.method)
        if method is None or sender not in method.senders:
            raise MethodNotFound(request.method)
        return self._decode_params(request.params, method.params)

    def decode_notification(self, notification: Notification) -> Any:
        """The parameters as an instance of the notification's class."""
        shape = self.notifications.get(notification.method)
        if shape is None:
            raise MethodNotFound(notification.method)
        return self._decode_params(notification.params, shape)

    def _decode_params(self, params: JSONObject, shape: type) -> Any:
        try:
            return self.shapes.decode(params, shape, "params")
        except ValueError as error:
            raise InvalidParams(str(error)) from None

    def decode_result(self, method: str, response: ResultResponse) -> Any:
        """The result of a call of `method`; `InvalidResult` if the peer sent something else."""
        try:
            return self.shapes.decode(response.result, self.methods[method].result, "result")
        except ValueError as error:
            raise InvalidResult(method, str(error)) from None

    def encode_request(self, id: Id, params: Any) -> Request:
        """The method follows from the class of the parameters."""
        return Request(id, self._method_of[type(params)], self.shapes.encode(params))

    def encode_notification(self, params: Any) -> Notification:
        """The method follows from the class of the parameters."""
        return Notification(self._method_of[type(params)], self.shapes.encode(params))

    def encode_result(self, id: Id, result: Any) -> ResultResponse:
        """The answer to the request of that id."""
        return ResultResponse(id, self.shapes.encode(result))

    def encode_error(self, id: Id | None, error: Exception) -> ErrorResponse:
        """The answer for an error; what is not in the table stays inside (ERL-10)."""
        for kind, words in self.errors.items():
            if isinstance(error, kind):
                return ErrorResponse(id, words(error))
        return ErrorResponse(id, Error(INTERNAL_ERROR, "Internal error"))


def answerable_methods(capabilities: JSONObject) -> frozenset[str]:
    """The questions that a client with these capabilities can be asked."""
    return frozenset(
        method
        for method, capability in _ANSWERED_BY.items()
        if isinstance(capabilities.get(capability), dict)
    )


_ANSWERED_BY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
