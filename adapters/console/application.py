"""The console as an ASGI application: `Mount("/console", Console(runtime, TokenLogin(...)))`.

Reading uses GET; every change is a form (POST) that answers with a redirect, so everything works
without JavaScript.
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

from taskmachine.adapters.console.access import TaskAccess
from taskmachine.adapters.console.browser_sessions import BrowserSessions
from taskmachine.adapters.console.listing import SIZES, STATES, Query, position_of, read_window
from taskmachine.adapters.console.live_list import LiveList, seen_of
from taskmachine.adapters.console.live_task import LiveTask
from taskmachine.adapters.console.login import Login, Refused
from taskmachine.adapters.console.pages import HEADERS, Pages
from taskmachine.adapters.console.questions import InvalidAnswer, question_view, read_answer
from taskmachine.adapters.console.streams import LiveResponse, Streams
from taskmachine.adapters.console.task_page import RejectedAnswer, TaskPage
from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.transports.auth.authentication import KeysUnavailable
from taskmachine.adapters.transports.connection.lookups import Lookups
from taskmachine.adapters.transports.http.asgi import Refusal, headers_of, read_body
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.sealing import BrowserSession
from taskmachine.statemachine import IllegalTransition, LimitExceeded, NotFound, TaskmachineError

__all__ = ["Console"]

BODY_BYTES: Final = 1024 * 1024
BODY_S: Final = 30.0
MOST_FIELDS: Final = 2_000

STREAMS: Final = 20
"""Maximum number of live pages of one owner: a browser opens at most six."""

_NEXT: Final = re.compile(r"tasks/[A-Za-z0-9._~%-]+|")
"""Allowed targets of the redirect after a login: pages of the console only."""

_Form = dict[str, list[str]]


class _ErrorPage(TaskmachineError):
    """Answered by an error page."""

    def __init__(self, status: int, title: str, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.title = title
        self.words = words


_NOT_FOUND: Final = _ErrorPage(
    404,
    "Not found",
    "This page does not exist, or you have no such task. Tasks are deleted after a time.",
)
_FORGED_FORM: Final = _ErrorPage(
    403,
    "Request refused",
    "The form did not come from a current page of the console. Go back, reload it and try again.",
)
_SIGNED_OUT: Final = _ErrorPage(401, "Not signed in", "Your session has ended. Sign in again.")


def _unbounded(owner: str) -> Lookups:
    return Lookups(lambda: None, lambda: None)


class Console:
    """Shows the tasks of a runtime to users whom `login` admits.

    `public_url` is the URL by which browsers reach the server through a proxy.  `lookups` returns
    the hooks around each task lookup of an owner.
    """

    def __init__(
        self,
        runtime: Runtime,
        login: Login,
        *,
        public_url: str | None = None,
        keep_alive_s: float = 15.0,
        lookups: Callable[[str], Lookups] = _unbounded,
    ) -> None:
        service = runtime.service
        self._runtime = runtime
        self._login = login
        self._lookups = lookups
        self._keep_alive_s = keep_alive_s
        self._pages = Pages(service.clock)
        self._browser_sessions = BrowserSessions(service.sealer, service.clock, public_url)
        self._streams = Streams(STREAMS)
        get, post = ["GET"], ["POST"]
        self._router = Router(
            [
                Route("/", self._signed_in(self._list), methods=get),
                Route("/events", self._signed_in(self._list_events), methods=get),
                Route("/tasks/{id}", self._signed_in(self._task), methods=get),
                Route("/tasks/{id}/events", self._signed_in(self._task_events), methods=get),
                Route("/tasks/{id}/answer", self._form_action(self._answer), methods=post),
                Route("/tasks/{id}/cancel", self._form_action(self._cancel), methods=post),
                Route("/tasks/{id}/rerun", self._form_action(self._rerun), methods=post),
                Route("/logout", self._form_action(self._log_out), methods=post),
                Route("/login", self._log_in, methods=["GET", "POST"]),
                Route("/static/{name}", self._file, methods=get),
            ],
            redirect_slashes=False,
            default=_no_such_page,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the console does not support the ASGI scope {scope['type']}")
        root: str = scope.get("root_path", "")
        send = _with_headers(send)
        try:
            await self._router(scope, receive, send)
        except (TaskmachineError, HTTPException) as error:
            page_error = _error_page(error)
            if page_error is None:
                raise
            page = self._pages.response(
                "error.html",
                page_error.status,
                base=root,
                error=page_error,
                session=None,
                form_token="",
            )
            await page(scope, receive, send)

    # --- login -------------------------------------------------------------------------------

    def _signed_in(
        self, answer: Callable[["_SignedIn"], Awaitable[ASGIApp]]
    ) -> Callable[[Request], Awaitable[ASGIApp]]:
        async def respond(request: Request) -> ASGIApp:
            session = self._browser_sessions.find(request)
            if session is not None:
                return await answer(self._request(request, session))
            if request.url.path.endswith("/events"):
                raise _SIGNED_OUT
            return self._to_login(request)

        return respond

    def _form_action(
        self, act: Callable[["_SignedIn", _Form], Awaitable[ASGIApp]]
    ) -> Callable[[Request], Awaitable[ASGIApp]]:
        async def respond(request: Request) -> ASGIApp:
            session = self._browser_sessions.find(request)
            if session is None:
                raise _SIGNED_OUT
            form = await _form(request)
            if not self._browser_sessions.is_valid_form(request, session, _one(form, "form_token")):
                raise _FORGED_FORM
            return await act(self._request(request, session), form)

        return respond

    def _request(self, request: Request, session: BrowserSession) -> "_SignedIn":
        access = TaskAccess(self._runtime.service, session, self._lookups(session.owner))
        base: str = request.scope.get("root_path", "")
        token = self._browser_sessions.form_token(session)
        page = TaskPage(self._pages, access, self._runtime.tools, base, token)
        return _SignedIn(request, session, access, base, token, page)

    def _to_login(self, request: Request) -> Response:
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
            if not self._browser_sessions.is_same_origin(request.headers):
                raise _FORGED_FORM
        where = where if _NEXT.fullmatch(where) else ""
        facts = {
            "base": base,
            "login": self._login,
            "next": where,
            "session": None,
            "form_token": "",
        }
        if shown is None:
            if self._browser_sessions.find(request) is not None:
                return RedirectResponse(f"{base}/{where}", 303)
            return self._pages.response("login.html", words="", **facts)
        try:
            caller = await self._login.admit(shown)
        except Refused as error:
            return self._pages.response("login.html", 403, words=str(error), **facts)
        response = RedirectResponse(f"{base}/{where}", 303)
        self._browser_sessions.remember(response, request, self._browser_sessions.begin(caller))
        return response

    async def _log_out(self, signed_in: "_SignedIn", _: _Form) -> ASGIApp:
        response = RedirectResponse(f"{signed_in.base}/login", 303)
        self._browser_sessions.forget(response, signed_in.request)
        return response

    # --- pages -------------------------------------------------------------------------------

    async def _list(self, signed_in: "_SignedIn") -> ASGIApp:
        query = Query.read(signed_in.request.query_params)
        window = await read_window(signed_in.access, query)
        return self._pages.response(
            "list.html",
            query=query,
            window=window,
            tasks=window.tasks,
            seen=seen_of(window.tasks),
            states=list(STATES),
            sizes=SIZES,
            **signed_in.facts,
        )

    async def _list_events(self, signed_in: "_SignedIn") -> ASGIApp:
        query = Query.read(signed_in.request.query_params)
        position_of(signed_in.access, query)  # raises before the stream begins
        self._streams.check(signed_in.session.owner)
        live = LiveList(self._pages, signed_in.access, query, signed_in.base, signed_in.seen)
        return self._live(live, signed_in)

    async def _task(self, signed_in: "_SignedIn") -> ASGIApp:
        return await self._task_page(signed_in)

    async def _task_page(
        self, signed_in: "_SignedIn", rejected: RejectedAnswer | None = None
    ) -> ASGIApp:
        task = await signed_in.access.find(signed_in.task_id)
        return self._pages.response(
            "task.html",
            200 if rejected is None else 422,
            task=task,
            pieces=await signed_in.page.pieces(task, rejected),
            **signed_in.facts,
        )

    async def _task_events(self, signed_in: "_SignedIn") -> ASGIApp:
        task = await signed_in.access.find(signed_in.task_id)
        self._streams.check(signed_in.session.owner)
        if task.is_terminal and signed_in.seen == str(task.version):
            return Response(status_code=204)  # so that the browser does not reconnect
        return self._live(LiveTask(signed_in.page, task, signed_in.seen), signed_in)

    def _live(self, live: LiveList | LiveTask, signed_in: "_SignedIn") -> ASGIApp:
        return LiveResponse(
            live, self._streams, self._browser_sessions, signed_in.session, self._keep_alive_s
        )

    async def _file(self, request: Request) -> ASGIApp:
        found = self._pages.file(request.path_params["name"])
        if found is None:
            raise _NOT_FOUND
        return found

    # --- actions -----------------------------------------------------------------------------

    async def _cancel(self, signed_in: "_SignedIn", _: _Form) -> ASGIApp:
        await signed_in.access.cancel(signed_in.task_id)
        return signed_in.back

    async def _rerun(self, signed_in: "_SignedIn", form: _Form) -> ASGIApp:
        try:
            task = await signed_in.access.rerun(
                signed_in.task_id, keep_steps=_one(form, "steps") == "keep"
            )
        except InvalidParams:
            return signed_in.back  # it has not ended
        return signed_in.to_task(task.id)

    async def _answer(self, signed_in: "_SignedIn", form: _Form) -> ASGIApp:
        task = await signed_in.access.find(signed_in.task_id)
        key = _one(form, "key")
        question = next((one for one in task.open_questions if one.key == key), None)
        if question is None:
            return signed_in.back  # answered meanwhile: the page shows the answer
        try:
            reply = read_answer(question_view(question), _one(form, "action"), form)
        except InvalidAnswer as invalid:
            return await self._task_page(signed_in, RejectedAnswer(key, form, invalid.words))
        try:
            await signed_in.access.answer(task.id, key, reply)
        except InvalidParams as error:
            return await self._task_page(signed_in, RejectedAnswer(key, form, {"": error.reason}))
        except IllegalTransition:
            pass  # the task has just ended
        return signed_in.back


@attrs.frozen
class _SignedIn:
    """A request of a signed-in user."""

    request: Request
    session: BrowserSession
    access: TaskAccess
    base: str
    form_token: str
    page: TaskPage

    @property
    def task_id(self) -> str:
        task_id: str = self.request.path_params["id"]
        return task_id

    @property
    def seen(self) -> str:
        """The version that the page has: the last event's id if the browser reconnects."""
        given = self.request.headers.get("last-event-id")
        return given or self.request.query_params.get("seen", "")

    @property
    def facts(self) -> dict[str, Any]:
        """Template variables for every page."""
        return {"base": self.base, "session": self.session, "form_token": self.form_token}

    @property
    def back(self) -> Response:
        return self.to_task(self.task_id)

    def to_task(self, task_id: str) -> Response:
        return RedirectResponse(f"{self.base}/tasks/{quote(task_id, safe='')}", 303)


def _error_page(error: Exception) -> _ErrorPage | None:
    """Return the error page for an error, or None for an internal error."""
    match error:
        case HTTPException():  # wrong method
            return _ErrorPage(
                error.status_code,
                "Not possible",
                "This page does not support this method.",
            )
        case _ErrorPage():
            return error
        case NotFound():
            return _NOT_FOUND
        case InvalidParams():
            return _ErrorPage(400, "Not possible", "The link to this page is not valid.")
        case LimitExceeded():
            words = f"Limit reached: {error.limit}. Wait a moment, and try again."
            return _ErrorPage(429, "Too many requests", words)
        case StoreError() | KeysUnavailable():
            words = "The task store or the authentication does not respond. Try again later."
            return _ErrorPage(503, "Unavailable", words)
        case Refusal():
            return _ErrorPage(error.status, "Not possible", "The form could not be read.")
    return None


async def _no_such_page(scope: Scope, receive: Receive, send: Send) -> None:
    raise _NOT_FOUND


async def _form(request: Request) -> _Form:
    """Return the fields of a form; `Refusal` if it is too large or too slow."""
    body = await read_body(request.receive, headers_of(request.scope), BODY_BYTES, BODY_S)
    try:
        fields = parse_qs(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise _ErrorPage(400, "Not possible", "The form has too many fields.") from None
    # Browsers submit line ends as CRLF.
    return {name: [text.replace("\r\n", "\n") for text in fields[name]] for name in fields}


def _one(form: _Form, name: str) -> str:
    return form.get(name, [""])[-1]


def _with_headers(send: Send) -> Send:
    """Add the security headers to every response."""

    async def protected(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return protected
