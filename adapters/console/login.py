"""How somebody gets into the console: by a token of the wire, or by a link that only they saw.

A browser sends no bearer header by itself, so what opens the door is shown once, and exchanged
for a cookie that does not contain it.
"""

import hmac
import secrets
from typing import Final, Protocol

from taskmachine.adapters.transports.auth.authentication import (
    Authenticator,
    Caller,
    Recognising,
    Unauthorized,
)
from taskmachine.statemachine import TaskmachineError

__all__ = ["Door", "LinkDoor", "Refused", "TokenDoor", "door_for"]

THIS_MACHINE: Final = "console"
"""The owner who came by the link.  No task is theirs: they see those of everybody."""


class Refused(TaskmachineError):
    """Whoever wanted in is told why not."""


class Door(Protocol):
    """Who may come in.  `asks_for` is what the page for it asks to be typed in."""

    asks_for: str
    hint: str

    async def admit(self, shown: str) -> Caller:
        """Whom this lets in; `Refused`, or `KeysUnavailable` if nobody can be verified."""


class TokenDoor:
    """For a server that knows its callers: the same token, verified in the same way."""

    asks_for = "Access token"
    hint = "The token that you use to call this server. It is not kept."

    def __init__(self, authenticator: Recognising) -> None:
        self._authenticator = authenticator

    async def admit(self, shown: str) -> Caller:
        try:
            return await self._authenticator.recognise(f"Bearer {shown.strip()}")
        except Unauthorized as error:
            raise Refused(error.description) from None


class LinkDoor:
    """For a server that knows nobody: whoever started it is its admin, and has the link."""

    asks_for = "Key"
    hint = "The server printed a link with the key when it started: open that."

    def __init__(self, key: str | None = None) -> None:
        self.key: Final = secrets.token_urlsafe(32) if key is None else key

    async def admit(self, shown: str) -> Caller:
        if not hmac.compare_digest(self.key.encode(), shown.strip().encode()):
            raise Refused("the key is not the one of this server; it has a new one at each start")
        return Caller(THIS_MACHINE, is_admin=True)


def door_for(authenticator: Authenticator | None, *, is_local: bool) -> Door | None:
    """How a server lets people in; None if it cannot know whom.

    What does not verify a token cannot verify one that somebody typed in; and a link is for whoever
    sits at this machine.
    """
    if isinstance(authenticator, Recognising):
        return TokenDoor(authenticator)
    return LinkDoor() if authenticator is None and is_local else None
