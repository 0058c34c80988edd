"""How a bug is planted: between a correct server and whoever talks to it.

See one found with `python -m tests.conformance --bug NAME`.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final

import attrs

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Surroundings

__all__ = [
    "BUGS",
    "HANG_UP",
    "REVISIONS",
    "STAY",
    "Bug",
    "Ending",
    "Head",
    "Instead",
    "Later",
    "Message",
    "Planted",
    "plant",
]

Message = dict[str, Any]


class Ending(Enum):
    """How an answer ends, if not as the correct server ends it."""

    HANG_UP = "hang up"
    STAY = "stay"


HANG_UP: Final = Ending.HANG_UP
"""Among what is said: the HTTP answer ends here; over pipes the process does."""

STAY: Final = Ending.STAY
"""Among what is said: the HTTP answer is never ended; over pipes it means nothing."""


@attrs.frozen
class Later:
    """Among what is said: a message that comes so much later.  Over pipes others overtake it."""

    seconds: float
    message: Any


@attrs.define
class Head:
    """Of an HTTP request or answer; over pipes there is an empty one.  Change it as you like.

    Names of headers are in lower case.  `method` is that of HTTP.  Of 2026-07-28, headers that
    mirror a message follow when the message is changed, unless they are changed as well.
    """

    method: str = ""
    status: int = 0
    headers: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Instead:
    """Answer a request with these messages; the correct server does not see it."""

    messages: tuple[Any, ...] = ()
    status: int = 200
    headers: dict[str, str] = attrs.field(factory=dict)
    raw: bytes | None = None
    """Bytes instead of messages: garbage, wrong encodings."""
    exits: bool = False
    """The process ends (over HTTP: every connection is dropped from now on)."""


class Bug:
    """One fault.  Each run has a new one, so it can keep what it saw.

    It does nothing by itself: override what is wrong.  Over pipes every process has its own.
    """

    is_open: ClassVar[bool] = False
    """Whether an HTTP server serves everybody; else two callers, A and B, by their tokens."""

    waits_for_json: ClassVar[bool] = False
    """Whether an HTTP answer becomes a stream only when it has to: when there is a question."""

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        """A message of the tester: pass it on, changed or not; answer it; or swallow it (None).

        A body that is no JSON object does not come here.  A request that is swallowed is never
        answered; over HTTP anything else is accepted with 202 then.
        """
        return message

    def came(self, body: bytes, head: Head) -> bytes | Instead | None:
        """Anything else that the tester sends: GET, DELETE, bodies and lines that are no object."""
        return body

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        """A message of the server, with the request that it answers (None if it answers none).

        What is returned is sent instead: one, none or several.  `request` is as the tester sent
        it; None also if it has no method, no id, or parameters that are no object.  `bytes` are
        sent as they are if they end with a newline; else they are put where a message would be:
        on a line, in an event, in a body.  If nothing is returned, nothing comes: an HTTP answer
        stays open.  Several messages make an HTTP answer a stream.
        `head` is that of the HTTP answer; changes count for JSON, on a stream it is gone already.
        """
        return [message]

    def answered(self, request: Message | None, head: Head) -> None:
        """The head of an HTTP answer, before anything of the body; change it in place.

        `request` is None for GET, DELETE and bodies that are no object.
        """

    def filled(self, block: bytes, head: Head) -> bytes:
        """What else is on a stream, each with its empty line: comments, events without message."""
        return block

    def limits(self) -> Limits:
        """Of the server behind it: page sizes and the like."""
        return Limits()

    def world(self) -> Surroundings:
        """Of the server behind it: its clock, and how ids are made."""
        return Surroundings()


@attrs.frozen
class Planted:
    """A bug and what it breaks."""

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

BUGS: Final[dict[str, Planted]] = {}


def plant(
    *breaks: str,
    also: tuple[str, ...] = (),
    transports: tuple[str, ...] = ("stdio", "http"),
) -> Callable[[type[Bug]], type[Bug]]:
    """Register a bug under the name of its class; the revisions follow from the ids.

    Ids that are of no revision, as `alive`, are of each.
    """

    def register(made: type[Bug]) -> type[Bug]:
        named = {id.partition(":")[0] for id in breaks if ":" in id}
        revisions = tuple(r for r in REVISIONS if not named or r in named)
        assert made.__name__ not in BUGS, f"two bugs have the name {made.__name__}"
        BUGS[made.__name__] = Planted(
            made.__name__, made, frozenset(breaks), frozenset(also), revisions, transports
        )
        return made

    return register
