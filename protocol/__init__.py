"""The protocol without I/O: bytes in, messages out; tasks in, bytes out.

`jsonrpc` encodes messages and `shapes` converts message classes.  `dialects` has a folder for each
dialect with the same three modules: `messages` defines the messages of its wire, `receiver` and
`requestor` define how each role uses them.  `Receiver` and `Requestor` implement the behaviour
that all dialects share.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from taskmachine.protocol.dialects.dialect import Dialect
from taskmachine.protocol.dialects.erlmcp import receiver as receiver_erlmcp
from taskmachine.protocol.dialects.erlmcp import requestor as requestor_erlmcp
from taskmachine.protocol.dialects.mcp_2025_11_25 import receiver as receiver_2025_11_25
from taskmachine.protocol.dialects.mcp_2025_11_25 import requestor as requestor_2025_11_25
from taskmachine.protocol.dialects.mcp_2026_07_28 import receiver as receiver_2026_07_28
from taskmachine.protocol.dialects.mcp_2026_07_28 import requestor as requestor_2026_07_28
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


_ENTRIES: Final = tuple(
    Entry(receiver.messages, receiver, requestor)
    for receiver, requestor in (
        (receiver_2025_11_25.RECEIVER, requestor_2025_11_25.REQUESTOR),
        (receiver_2026_07_28.RECEIVER, requestor_2026_07_28.REQUESTOR),
        (receiver_erlmcp.RECEIVER, requestor_erlmcp.REQUESTOR),
    )
)

DIALECTS: Final[Mapping[str, Entry]] = {entry.name: entry for entry in _ENTRIES}
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
