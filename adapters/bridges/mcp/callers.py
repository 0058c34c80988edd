"""Whose tasks a request is about: the same owners as those of our own server."""

from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components
from mcp.server.context import ServerRequestContext

from taskmachine.adapters.transports.auth.owners import ANONYMOUS, STDIO, Owners, Principal

__all__ = ["is_identified", "owner_of"]


def is_identified() -> bool:
    """Whether the SDK has authenticated whoever sent the request that is being served."""
    return get_access_token() is not None


def owner_of(context: ServerRequestContext[Any, Any], owners: Owners) -> str:
    """Who sent a request that needs no session.

    The authenticated user; else everybody over HTTP; else whoever holds the other end of the
    pipe, or of a connection in memory.
    """
    token = get_access_token()
    if token is not None:
        client, issuer, subject = principal_components(token)
        if subject is None:  # the client is all that the token says; no issuer is called so
            return owners.of_principal(Principal("client id", client))
        # Without an issuer only the client vouches for a subject: others may have the same one.
        voucher = f"client {client}" if issuer is None else issuer
        return owners.of_principal(Principal(voucher, subject))
    return STDIO if context.request is None else ANONYMOUS
