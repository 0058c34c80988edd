"""The console as an ASGI application: `Mount("/console", Console(runtime, TokenDoor(...)))`.

Reading is GET; whatever changes something is a form of ours (POST), and answers by a redirect, so
all of it works without JavaScript, too.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qs, quote

import attrs
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskmachine.adapters.console.access import Sight
from taskmachine.adapters.console.browser_sessions import Visits
from taskmachine.adapters.console.listing import SIZES, STATES, Query, position_of, read_window
from taskmachine.adapters.console.live_list import LiveList, seen_of
from taskmachine.adapters.console.live_task import LiveTask
from taskmachine.adapters.console.login import Door, Refused
from taskmachine.adapters.console.pages import HEADERS, Pages
from taskmachine.adapters.console.questions import Mistakes, asked, read_answer
from taskmachine.adapters.console.streams import LiveResponse, Streams
from taskmachine.adapters.console.task_page import TaskPage, Tried
from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.transports.auth.authentication import KeysUnavailable
from taskmachine.adapters.transports.connection.lookups import Lookups
from taskmachine.adapters.transports.http.asgi import Refusal, headers_of, read_body
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.sealing import Login
from taskmachine.statemachine import IllegalTransition, LimitExceeded, NotFound, TaskmachineError

__all__ = ["Console"]

BODY_BYTES: Final = 1024 * 1024
BODY_S: Final = 30.0
MOST_FIELDS: Final = 2_000

STREAMS: Final = 20
"""Live pages of one owner: a browser opens six at most, and somebody may have three."""

_NEXT: Final = re.compile(r"tasks/[A-Za-z0-9._~%-]+|")
"""Where somebody may want to go once they are in: into the console, and nowhere else."""

_Form = dict[str, list[str]]


class _Stop(TaskmachineError):
    """Answered by a page that says why not."""

    def __init__(self, status: int, title: str, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.title = title
        self.words = words


_NOT_FOUND: Final = _Stop(
    404,
    "Not found",
    "There is no such page, or no such task of yours. Tasks are forgotten in time.",
)
_NOT_OURS: Final = _Stop(
    403,
    "Not done",
    "This did not come from a page of the console as it is now. Go back, reload, and try again.",
)
_NOT_IN: Final = _Stop(401, "Not signed in", "Your visit is over. Sign in again.")


def _unbounded(owner: str) -> Lookups:
    return Lookups(lambda: None, lambda: None)


class Console:
    """Shows the tasks of a runtime to those whom the door lets in.

    `public_url` is where browsers find the server, if a proxy stands before it.  `lookups` are told
    of each look at a task, by owner.
    """

    def __init__(
        self,
        runtime: Runtime,
        door: Door,
        *,
        public_url: str | None = None,
        keep_alive_s: float = 15.0,
        lookups: Callable[[str], Lookups] = _unbounded,
    ) -> None:
        service = runtime.service
        self._runtime = runtime
        self._door = door
        self._lookups = lookups
        self._keep_alive_s = keep_alive_s
        self._pages = Pages(service.clock)
        self._visits = Visits(service.sealer, service.clock, public_url)
        self._streams = Streams(STREAMS)
        get, post = ["GET"], ["POST"]
        self._router = Router(
            [
                Route("/", self._of_visitor(self._list), methods=get),
                Route("/events", self._of_visitor(self._list_events), methods=get),
                Route("/tasks/{id}", self._of_visitor(self._task), methods=get),
                Route("/tasks/{id}/events", self._of_visitor(self._task_events), methods=get),
                Route("/tasks/{id}/answer", self._of_form(self._answer), methods=post),
                Route("/tasks/{id}/cancel", self._of_form(self._cancel), methods=post),
                Route("/logout", self._of_form(self._log_out), methods=post),
                Route("/login", self._log_in, methods=["GET", "POST"]),
                Route("/static/{name}", self._file, methods=get),
            ],
            redirect_slashes=False,
            default=_no_such_page,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the console knows no {scope['type']}")
        root: str = scope.get("root_path", "")
        send = _with_headers(send)
        try:
            await self._router(scope, receive, send)
        except (TaskmachineError, HTTPException) as error:
            stop = _reason(error)
            if stop is None:
                raise
            page = self._pages.response(
                "stop.html", stop.status, base=root, stop=stop, visit=None, form_token=""
            )
            await page(scope, receive, send)

    # --- who is there ------------------------------------------------------------------------

    def _of_visitor(
        self, answer: Callable[["_Visitor"], Awaitable[ASGIApp]]
    ) -> Callable[[Request], Awaitable[ASGIApp]]:
        async def respond(request: Request) -> ASGIApp:
            visit = self._visits.find(request)
            if visit is not None:
                return await answer(self._visitor(request, visit))
            if request.url.path.endswith("/events"):
                raise _NOT_IN
            return self._to_door(request)

        return respond

    def _of_form(
        self, act: Callable[["_Visitor", _Form], Awaitable[ASGIApp]]
    ) -> Callable[[Request], Awaitable[ASGIApp]]:
        async def respond(request: Request) -> ASGIApp:
            visit = self._visits.find(request)
            if visit is None:
                raise _NOT_IN
            form = await _form(request)
            if not self._visits.is_ours(request, visit, _one(form, "form_token")):
                raise _NOT_OURS
            return await act(self._visitor(request, visit), form)

        return respond

    def _visitor(self, request: Request, visit: Login) -> "_Visitor":
        sight = Sight(self._runtime.service, visit, self._lookups(visit.owner))
        base: str = request.scope.get("root_path", "")
        token = self._visits.form_token(visit)
        page = TaskPage(self._pages, sight, self._runtime.tools, base, token)
        return _Visitor(request, visit, sight, base, token, page)

    def _to_door(self, request: Request) -> Response:
        base = request.scope.get("root_path", "")
        wanted = request.url.path.removeprefix(f"{base}/")
        where = f"?next={quote(wanted, safe='')}" if wanted and _NEXT.fullmatch(wanted) else ""
        return RedirectResponse(f"{base}/login{where}", 303)

    async def _log_in(self, request: Request) -> ASGIApp:
        base = request.scope.get("root_path", "")
        shown = request.query_params.get("key")
        where = request.query_params.get("next", "")
        if request.method == "POST":
            form = await _form(request)
            shown, where = _one(form, "shown"), _one(form, "next")
            if not self._visits.is_from_here(request.headers):
                raise _NOT_OURS
        where = where if _NEXT.fullmatch(where) else ""
        facts = {"base": base, "door": self._door, "next": where, "visit": None, "form_token": ""}
        if shown is None:
            if self._visits.find(request) is not None:
                return RedirectResponse(f"{base}/{where}", 303)
            return self._pages.response("login.html", words="", **facts)
        try:
            caller = await self._door.admit(shown)
        except Refused as error:
            return self._pages.response("login.html", 403, words=str(error), **facts)
        response = RedirectResponse(f"{base}/{where}", 303)
        self._visits.remember(response, request, self._visits.begin(caller))
        return response

    async def _log_out(self, visitor: "_Visitor", _: _Form) -> ASGIApp:
        response = RedirectResponse(f"{visitor.base}/login", 303)
        self._visits.forget(response, visitor.request)
        return response

    # --- what they see -----------------------------------------------------------------------

    async def _list(self, visitor: "_Visitor") -> ASGIApp:
        query = Query.read(visitor.request.query_params)
        window = await read_window(visitor.sight, query)
        return self._pages.response(
            "list.html",
            query=query,
            window=window,
            tasks=window.tasks,
            seen=seen_of(window.tasks),
            states=list(STATES),
            sizes=SIZES,
            **visitor.facts,
        )

    async def _list_events(self, visitor: "_Visitor") -> ASGIApp:
        query = Query.read(visitor.request.query_params)
        position_of(visitor.sight, query)  # a stream that has begun could not be refused
        self._streams.check(visitor.visit.owner)
        live = LiveList(self._pages, visitor.sight, query, visitor.base, visitor.seen)
        return self._live(live, visitor)

    async def _task(self, visitor: "_Visitor") -> ASGIApp:
        return await self._task_page(visitor)

    async def _task_page(self, visitor: "_Visitor", tried: Tried | None = None) -> ASGIApp:
        task = await visitor.sight.find(visitor.task_id)
        return self._pages.response(
            "task.html",
            200 if tried is None else 422,
            task=task,
            pieces=await visitor.page.pieces(task, tried),
            **visitor.facts,
        )

    async def _task_events(self, visitor: "_Visitor") -> ASGIApp:
        task = await visitor.sight.find(visitor.task_id)
        self._streams.check(visitor.visit.owner)
        if task.is_terminal and visitor.seen == str(task.version):
            return Response(status_code=204)  # a browser does not come back then
        return self._live(LiveTask(visitor.page, task, visitor.seen), visitor)

    def _live(self, live: LiveList | LiveTask, visitor: "_Visitor") -> ASGIApp:
        return LiveResponse(live, self._streams, self._visits, visitor.visit, self._keep_alive_s)

    async def _file(self, request: Request) -> ASGIApp:
        found = self._pages.file(request.path_params["name"])
        if found is None:
            raise _NOT_FOUND
        return found

    # --- what they do ------------------------------------------------------------------------

    async def _cancel(self, visitor: "_Visitor", _: _Form) -> ASGIApp:
        await visitor.sight.cancel(visitor.task_id)
        return visitor.back

    async def _answer(self, visitor: "_Visitor", form: _Form) -> ASGIApp:
        task = await visitor.sight.find(visitor.task_id)
        key = _one(form, "key")
        question = next((one for one in task.open_questions if one.key == key), None)
        if question is None:
            return visitor.back  # somebody was faster: the page shows what they said
        try:
            reply = read_answer(asked(question), _one(form, "action"), form)
        except Mistakes as mistakes:
            return await self._task_page(visitor, Tried(key, form, mistakes.words))
        try:
            await visitor.sight.answer(task.id, key, reply)
        except InvalidParams as error:
            return await self._task_page(visitor, Tried(key, form, {"": error.reason}))
        except IllegalTransition:
            pass  # it has just ended
        return visitor.back


@attrs.frozen
class _Visitor:
    """A request of somebody who is in."""

    request: Request
    visit: Login
    sight: Sight
    base: str
    form_token: str
    page: TaskPage

    @property
    def task_id(self) -> str:
        task_id: str = self.request.path_params["id"]
        return task_id

    @property
    def seen(self) -> str:
        """What the page knows: a browser that connects again says the last id that it got."""
        given = self.request.headers.get("last-event-id")
        return given or self.request.query_params.get("seen", "")

    @property
    def facts(self) -> dict[str, Any]:
        """What every page needs."""
        return {"base": self.base, "visit": self.visit, "form_token": self.form_token}

    @property
    def back(self) -> Response:
        return RedirectResponse(f"{self.base}/tasks/{quote(self.task_id, safe='')}", 303)


def _reason(error: Exception) -> _Stop | None:
    """How a visitor is told; None for what they should never see."""
    match error:
        case HTTPException():  # the router knows the path, and not the method
            return _Stop(error.status_code, "Not possible", "This page cannot be used in this way.")
        case _Stop():
            return error
        case NotFound():
            return _NOT_FOUND
        case InvalidParams():
            return _Stop(400, "Not possible", "This page of the list is not there any more.")
        case LimitExceeded():
            words = f"There is a limit: {error.limit}. Wait a moment, and try again."
            return _Stop(429, "Too much at once", words)
        case StoreError() | KeysUnavailable():
            return _Stop(503, "Not now", "Something that is needed does not answer. Try again.")
        case Refusal():
            return _Stop(error.status, "Not possible", "The form could not be read.")
    return None


async def _no_such_page(scope: Scope, receive: Receive, send: Send) -> None:
    raise _NOT_FOUND


async def _form(request: Request) -> _Form:
    """What a form says; `Refusal` if it is too large or too slow."""
    body = await read_body(request.receive, headers_of(request.scope), BODY_BYTES, BODY_S)
    try:
        fields = parse_qs(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise _Stop(400, "Not possible", "The form has too many fields.") from None
    # Browsers end lines as mail does, whatever was typed.
    return {name: [text.replace("\r\n", "\n") for text in fields[name]] for name in fields}


def _one(form: _Form, name: str) -> str:
    return form.get(name, [""])[-1]


def _with_headers(send: Send) -> Send:
    """Every answer carries what keeps a page from running or loading anything of others."""

    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return protected
