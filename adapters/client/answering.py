"""Answers to the requests of a server for user input."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from taskmachine.adapters.client.errors import Declined
from taskmachine.adapters.client.remote_task import Question
from taskmachine.adapters.tools.registry import CallError
from taskmachine.protocol.dialects.dialect import Dialect, answerable_kinds, kind_of
from taskmachine.protocol.errors import InvalidParams, MethodNotFound
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    Error,
    ErrorResponse,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.statemachine import Question as Recorded
from taskmachine.statemachine import Reply, TaskmachineError

__all__ = ["USER_DECLINED", "Answer", "Answering", "declared"]

log: Final = logging.getLogger("taskmachine")

Answer = Callable[[Question], Awaitable[JSONObject]]
"""Answers a question with an ElicitResult or a CreateMessageResult, depending on its method.

Raises `Declined` if the user declines, or `CallError` to answer with another error.
"""

USER_DECLINED: Final = -1
"""The error code of 2025-11-25 for sampling that the user rejected."""


def declared(answer: Answer | None, *, sampling: bool = False) -> JSONObject:
    """Return the client capabilities for an `answer` function, which may also serve sampling."""
    if answer is None:
        return {}
    return {"elicitation": {"form": {}}} | ({"sampling": {}} if sampling else {})


class Answering:
    """The declared capabilities and the function that serves them."""

    def __init__(self, answer: Answer | None, capabilities: JSONObject) -> None:
        self._answer = answer
        self.capabilities = capabilities
        self._kinds = answerable_kinds(capabilities)

    @property
    def methods(self) -> frozenset[str]:
        """The request methods that are answered."""
        return frozenset(kind.partition(" ")[0] for kind in self._kinds)

    async def reply(self, question: Question) -> Reply:
        """Return the answer to a question, or an error if there is none."""
        try:
            self.check(question)
        except TaskmachineError as error:
            return _no(str(error))
        assert self._answer is not None, "without it nothing is declared"
        try:
            return Reply(encode_json(dict(await self._answer(question))))
        except Declined:
            what = question.method.partition("/")[0]
            return _no(f"User declined {what} request", USER_DECLINED)
        except CallError as error:
            return _no(error.message, error.code)
        except Exception:  # an exception in user code must not leave the server waiting
            log.exception("a question could not be answered")
            return _no("The question could not be answered.")

    async def serve(self, request: Request, dialect: Dialect) -> ResultResponse | ErrorResponse:
        """Answer a request of the server that does not belong to a task."""
        if request.method == "ping":
            return ResultResponse(request.id, {})
        question = Question(request.method, request.params, str(request.id))
        try:
            self.check(question)
        except TaskmachineError as error:
            return dialect.encode_error(request.id, error)
        reply = await self.reply(question)
        body = decode_json(reply.body)
        if reply.is_error:
            return ErrorResponse(request.id, Error(body["code"], body["message"]))
        return ResultResponse(request.id, body)

    def check(self, question: Question) -> None:
        """Raise `MethodNotFound` or `InvalidParams` for an undeclared kind of question."""
        if question.method not in self.methods:
            raise MethodNotFound(question.method)
        kind = kind_of(Recorded("", question.method, encode_json(question.params)))
        if kind not in self._kinds:  # 2025-11-25:elicitation-undeclared-mode-32602
            raise InvalidParams(f"params do not match the declared capabilities: {kind}")


def _no(words: str, code: int = INTERNAL_ERROR) -> Reply:
    return Reply(encode_json({"code": code, "message": words}), is_error=True)
