"""The requests of one conversation, from when each came to when it was answered (ERL-9)."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from taskmachine.adapters.observer import SILENT, Carrier, Observer, Served
from taskmachine.protocol.dialect import Dialect
from taskmachine.protocol.jsonrpc import ErrorResponse, Id, Message, Request, ResultResponse
from taskmachine.protocol.outputs import Send

__all__ = ["ServedRequests"]

_Answer = ResultResponse | ErrorResponse


class ServedRequests:
    """Tells the observer of each request once, whichever way it is answered."""

    def __init__(self, observer: Observer, dialect: Dialect, carrier: Carrier) -> None:
        self._observer = observer
        self._dialect = dialect
        self._carrier = carrier
        self._open: dict[Id, Served] = {}

    async def at_once(
        self, request: Request, answer: Callable[[Request], Awaitable[_Answer | None]]
    ) -> _Answer | None:
        """The answer; with None the request is yet to be served, and was not told of."""
        if self._observer is SILENT:  # nothing is to be told: 2 us less
            return await answer(request)
        served = self._requested(request)
        try:
            with served.current():
                given = await answer(request)
        except BaseException:
            served.abandoned()
            raise
        if given is not None:
            served.answered(given)
        return given

    def begin(self, message: Message, outputs: Sequence[object]) -> AbstractContextManager[object]:
        """What follows from a request is done for it; `answered` or `abandoned` will end it."""
        if not isinstance(message, Request):
            return nullcontext()
        served = self._requested(message)
        match outputs:
            case [Send(message=ResultResponse() | ErrorResponse() as answer)]:
                served.answered(answer)  # here, as its id may be that of another request
            case _:
                self._open[message.id] = served
        return served.current()

    def answered(self, answer: _Answer) -> None:
        """That is sent now."""
        if answer.id in self._open:
            self._open.pop(answer.id).answered(answer)

    def abandoned(self, id: Id) -> None:
        """Nobody waits for the answer any more."""
        if id in self._open:
            self._open.pop(id).abandoned()

    def close(self) -> None:
        """Nothing more will be answered."""
        for id in list(self._open):
            self.abandoned(id)

    def _requested(self, request: Request) -> Served:
        return self._observer.requested(
            request,
            revision=self._dialect.revision,
            is_known=request.method in self._dialect.methods,
            by=self._carrier,
        )
