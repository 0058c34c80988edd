"""The server info and tools that a server presents to clients."""

from importlib.metadata import version

from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.offer import Offer

__all__ = ["describe_server"]


def describe_server(tools: Tools, *, listing: bool) -> Offer:
    """Return the offer of these tools; `listing` if the server can distinguish callers."""
    info = {"name": "taskmachine", "version": version("taskmachine")}
    return Offer(info, {name: tool.offered for name, tool in tools.items()}, listing=listing)
