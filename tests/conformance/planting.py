"""Plant a bug in the connection between a correct server and a client.

See one found with `python -m tests.conformance --bug NAME`.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final, TypeVar

import attrs

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Surroundings

__all__ = [
    "BUGS", "HANG_UP", "HTTP", "REVISIONS", "STAY", "STDIO",
    "Bug", "ClientChange", "ClientMessage", "Ending", "Head", "Instead", "Later", "Message",
    "Planted", "ResponseHead", "ServerChange", "ServerMessage",
    "as_bug", "error", "meta_of", "method_of", "new", "old", "params_of", "plant", "task_id_of",
    "variant",
]  # fmt: skip

Message = dict[str, Any]


class Ending(Enum):
    """How a response ends, if not as the correct server ends it."""

    HANG_UP = "hang up"
    STAY = "stay"


HANG_UP: Final = Ending.HANG_UP
"""Among the messages sent: the HTTP response ends here; on stdio the process exits."""

STAY: Final = Ending.STAY
"""Among the messages sent: the HTTP response never ends; no effect on stdio."""


@attrs.frozen
class Later:
    """Among the messages sent: a delayed message.  On stdio, other messages overtake it."""

    seconds: float
    message: Any


@attrs.define
class Head:
    """The head of an HTTP request or response, empty on stdio; bugs may change it.

    Header names are in lower case.  `method` is that of HTTP.  In 2026-07-28, headers that mirror
    a changed message follow the change, unless they are changed as well.
    """

    method: str = ""
    status: int = 0
    headers: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Instead:
    """Answer a request with these messages; the correct server does not receive it."""

    messages: tuple[Any, ...] = ()
    status: int = 200
    headers: dict[str, str] = attrs.field(factory=dict)
    raw: bytes | None = None
    """Bytes instead of messages: garbage, wrong encodings."""
    exits: bool = False
    """The process exits (over HTTP: every connection is dropped from now on)."""


class Bug:
    """A fault of a server, which overrides some of these hooks; each run has a new instance.

    On stdio every process has its own instance.
    """

    hook: ClassVar[str] = "change"
    """The method that a planted function becomes."""

    is_open: ClassVar[bool] = False
    """Whether an HTTP server requires no token; else it knows two callers, A and B."""

    waits_for_json: ClassVar[bool] = False
    """Whether an HTTP response becomes a stream only when it must: for a request of the server."""

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        """Handle a message of the client: return it, changed or not; answer it; or drop it (None).

        Bodies that are not a JSON object do not come here.  A dropped request is never answered;
        over HTTP any other dropped message is accepted with 202.
        """
        return message

    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead | None:
        """Handle anything else of the client: GET, DELETE, bodies and lines without an object."""
        return body

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        """Return what is sent instead of a message of the server: any number of messages.

        `request` is the request that it answers, as the client sent it; None if it answers none,
        or a request without method, id, or object as parameters.  `bytes` that end with a newline
        are sent as they are; other bytes take the place of a message on a line, in an event or in
        a body.  Without messages, an HTTP response stays open.  Several messages make an HTTP
        response a stream.  Changes of `head`, that of the HTTP response, have an effect for JSON;
        on a stream it is already sent.
        """
        return [message]

    def response_head(self, request: Message | None, head: Head) -> None:
        """Change the head of an HTTP response in place.

        `request` is None for GET, DELETE and bodies that are not an object.
        """

    def stream_block(self, block: bytes, head: Head) -> bytes:
        """Change other blocks of a stream: comments, events without message."""
        return block

    def limits(self) -> Limits:
        """Return the limits of the correct server: page sizes and the like."""
        return Limits()

    def surroundings(self) -> Surroundings:
        """Return the clock of the correct server, and how it makes ids."""
        return Surroundings()


# --- bugs that are one function --------------------------------------------------------------


class ServerMessage(Bug):
    """Return what is sent instead of a message of the server."""

    change: Callable[[Message, Message | None], list[Any]]

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        return self.change(message, request)


class ServerChange(Bug):
    """Change each message of the server in place."""

    change: Callable[[Message, Message | None], None]

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        self.change(message, request)
        return [message]


class ClientMessage(Bug):
    """Handle each message of the client."""

    hook = "client_message"


class ClientChange(Bug):
    """Change each message of the client in place."""

    change: Callable[[Message, Head], None]

    def client_message(self, message: Message, head: Head) -> Message:
        self.change(message, head)
        return message


class ResponseHead(Bug):
    """Change the head of each HTTP response in place."""

    hook = "response_head"


@attrs.frozen
class Planted:
    """A bug and the requirements that it breaks."""

    name: str
    make: Callable[[], Bug]
    breaks: frozenset[str]
    """The ids that must be found: fail or warning, by their level."""
    also: frozenset[str]
    """Ids that may be found as well, because they say nearly the same."""
    revisions: tuple[str, ...]
    transports: tuple[str, ...]

    @property
    def theme(self) -> str:
        """The place of its module below `bugs`: probes of the same theme have it below `probes`."""
        return self.make.__module__.partition(".bugs.")[2]


REVISIONS: Final = ("2025-11-25", "2026-07-28")

HTTP: Final = ("http",)
STDIO: Final = ("stdio",)

BUGS: Final[dict[str, Planted]] = {}


def old(*names: str) -> tuple[str, ...]:
    """Return the ids of requirements of 2025-11-25."""
    return tuple(f"2025-11-25:{name}" for name in names)


def new(*names: str) -> tuple[str, ...]:
    """Return the ids of requirements of 2026-07-28."""
    return tuple(f"2026-07-28:{name}" for name in names)


_Made = TypeVar("_Made", bound=Callable[..., Any])


def plant(
    *breaks: str,
    also: tuple[str, ...] = (),
    transports: tuple[str, ...] = ("stdio", "http"),
    base: type[Bug] = Bug,
    **attributes: Any,
) -> Callable[[_Made], _Made]:
    """Register a bug under the name of its class or function; its ids determine the revisions.

    Ids without a revision, as `alive`, belong to each.  A function becomes the hook of a subclass
    of `base` with these attributes.
    """

    def register(made: _Made) -> _Made:
        name = made.__name__
        named = {id.partition(":")[0] for id in breaks if ":" in id}
        revisions = tuple(r for r in REVISIONS if not named or r in named)
        assert name not in BUGS, f"two bugs have the name {name}"
        bug = as_bug(made, base, attributes)
        BUGS[name] = Planted(name, bug, frozenset(breaks), frozenset(also), revisions, transports)
        return made

    return register


def as_bug(made: Callable[..., Any], base: type[Bug], attributes: dict[str, Any]) -> type[Bug]:
    """Return a class as it is, and a function as the hook of a subclass of `base`."""
    if isinstance(made, type):
        return made
    names = {base.hook: staticmethod(made), "__module__": made.__module__, **attributes}
    return type(made.__name__, (base,), names)


def variant(base: type[Bug], name: str, *breaks: str, **options: Any) -> None:
    """Register a bug that only differs from `base` by its attributes."""
    names = ("also", "transports")
    attributes = {key: value for key, value in options.items() if key not in names}
    made = type(name, (base,), {"__module__": base.__module__, **attributes})
    plant(*breaks, **{key: options[key] for key in names if key in options})(made)


# --- parts of messages -----------------------------------------------------------------------


def method_of(message: Message | None) -> str:
    """Return the method, or "" without a message."""
    return str((message or {}).get("method", ""))


def params_of(message: Message | None) -> Message:
    """Return the parameters, or an empty object."""
    params = (message or {}).get("params")
    return params if isinstance(params, dict) else {}


def meta_of(message: Message | None) -> Message:
    """Return the `_meta` of a request, or an empty object."""
    meta = params_of(message).get("_meta")
    return meta if isinstance(meta, dict) else {}


def task_id_of(message: Message | None) -> str | None:
    """Return the task id that a request names, or None."""
    id = params_of(message).get("taskId")
    return id if isinstance(id, str) else None


def error(request: Message, code: int, words: str, **data: Any) -> Message:
    """Return an error response."""
    body: Message = {"code": code, "message": words} | ({"data": data} if data else {})
    return {"jsonrpc": "2.0", "id": request.get("id"), "error": body}
