"""The protocol without I/O: bytes in, messages out; tasks in, bytes out.

`jsonrpc` encodes messages and `shapes` converts message classes.  `dialects` has a folder for each
dialect with the same three modules: `messages` defines the messages of its wire, `receiver` and
`requestor` define how each role uses them.  `Receiver` and `Requestor` implement the behaviour
that all dialects share.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Final

import attrs

from taskmachine.protocol.dialects.dialect import Dialect
from taskmachine.protocol.dialects.mcp_2025_11_25 import receiver as receiver_2025_11_25
from taskmachine.protocol.dialects.mcp_2026_07_28 import receiver as receiver_2026_07_28
from taskmachine.protocol.dialects.receiver import ReceiverDialect
from taskmachine.protocol.dialects.requestor import RequestorDialect
from taskmachine.statemachine import ConfigurationError

__all__ = ["DIALECTS", "MCP", "Dialect", "Entry", "dialect", "receivers"]


@attrs.frozen(eq=False)
class Entry:
    """A dialect: its messages, and how each role uses them."""

    messages: Dialect
    receiver: ReceiverDialect
    requestor: RequestorDialect

    @property
    def name(self) -> str:
        """The revision of the protocol, or the name of a private dialect."""
        return self.messages.revision


_FOLDERS: Final = {
    "2025-11-25": "mcp_2025_11_25",
    "2026-07-28": "mcp_2026_07_28",
    "erlmcp": "erlmcp",
}


@cache
def _entry(folder: str) -> Entry:
    package = f"{__name__}.dialects.{folder}"
    receiver = import_module(f"{package}.receiver").RECEIVER
    return Entry(receiver.messages, receiver, import_module(f"{package}.requestor").REQUESTOR)


class _Dialects(Mapping[str, Entry]):
    """Imports a dialect when it is used: no server needs all, and each delays its start."""

    def __getitem__(self, name: str) -> Entry:
        return _entry(_FOLDERS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_FOLDERS)

    def __len__(self) -> int:
        return len(_FOLDERS)


DIALECTS: Final[Mapping[str, Entry]] = _Dialects()
"""Every dialect by its name."""

MCP: Final[tuple[ReceiverDialect, ...]] = (
    receiver_2026_07_28.RECEIVER,
    receiver_2025_11_25.RECEIVER,
)
"""The dialects that one server supports together, in the order in which `choose` tries them."""


def receivers(name: str | None = None) -> tuple[ReceiverDialect, ...]:
    """Return the dialects that one server supports: the named one, or both revisions of MCP."""
    return MCP if name is None else (dialect(name).receiver,)


def dialect(name: str) -> Entry:
    """Return the dialect of that name; ConfigurationError lists the known ones."""
    try:
        return DIALECTS[name]
    except KeyError:
        known = ", ".join(DIALECTS)
        raise ConfigurationError(f"unknown dialect '{name}', known are: {known}") from None
