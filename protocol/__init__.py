"""The protocol without I/O: bytes in, messages out; tasks in, bytes out.

`jsonrpc` knows messages and `shapes` knows classes.  Each dialect is three modules, named by its
revision, with the same parts in the same order: `mcp_2025_11_25` is what goes over the wire,
`receiver_2025_11_25` how a receiver uses it, `requestor_2025_11_25` how a requestor does.
`receiver`, `requestor` and `speech` are what all dialects share.
"""

from collections.abc import Mapping
from typing import Final

from taskmachine.protocol import erlmcp, mcp_2025_11_25, mcp_2026_07_28
from taskmachine.protocol.dialect import Dialect
from taskmachine.statemachine import ConfigurationError

__all__ = ["DIALECTS", "Dialect", "dialect"]

DIALECTS: Final[Mapping[str, Dialect]] = {
    module.REVISION: module.DIALECT for module in (mcp_2025_11_25, mcp_2026_07_28, erlmcp)
}
"""Every dialect by its revision, or its name."""


def dialect(name: str) -> Dialect:
    """The dialect of that name; ConfigurationError lists the known ones."""
    try:
        return DIALECTS[name]
    except KeyError:
        known = ", ".join(DIALECTS)
        raise ConfigurationError(f"unknown dialect '{name}', known are: {known}") from None
