"""The server under test and how to reach it."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal, Self

import attrs

from taskmachine.adapters.conformance.errors import CannotCheck

__all__ = ["Revision", "Target", "split_command"]

Revision = Literal["2025-11-25", "2026-07-28"]


@attrs.frozen
class Target:
    """A server: its URL, or the command that starts it."""

    url: str | None = None
    command: Sequence[str] = ()
    headers: Mapping[str, str] = attrs.field(factory=dict)
    tokens: Sequence[str] = ()
    """Bearer tokens of callers A and B."""

    @classmethod
    def at(cls, address: str) -> Self:
        """Parse a URL, or a command as a shell would. Raise CannotCheck if it is neither."""
        is_url = re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", address)
        return cls(address) if is_url else cls(command=split_command(address))

    @property
    def address(self) -> str:
        """The URL, or the command as it is typed into a shell."""
        return shlex.join(self.command) if self.url is None else self.url

    @property
    def transport(self) -> Literal["stdio", "http"]:
        """The transport that the target uses."""
        return "stdio" if self.url is None else "http"

    def headers_of(self, caller: str) -> dict[str, str]:
        """Return the HTTP headers of each request by that caller."""
        token = dict(zip("AB", self.tokens, strict=False)).get(caller)
        own = {} if token is None else {"authorization": f"Bearer {token}"}
        return {name.lower(): value for name, value in self.headers.items()} | own

    def principal(self, caller: str) -> str | None:
        """Return the credentials of a caller, or None without any."""
        return self.headers_of(caller).get("authorization")


def split_command(command: str) -> list[str]:
    """Split a command as a shell does. Raise CannotCheck if no word remains."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CannotCheck(f"cannot read the command {command!r}: {error}") from None
    if not words:
        raise CannotCheck("the command is empty")
    return words
