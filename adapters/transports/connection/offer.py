"""What a server says of itself."""

from importlib.metadata import version

from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.offer import Offer

__all__ = ["offer_of"]


def offer_of(tools: Tools, *, listing: bool) -> Offer:
    """The offer of these tools; `listing` if callers can be told apart."""
    info = {"name": "taskmachine", "version": version("taskmachine")}
    return Offer(info, {name: tool.offered for name, tool in tools.items()}, listing=listing)
