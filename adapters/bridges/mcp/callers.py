"""The caller of a request: the same owners as on the taskmachine server."""

from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from taskmachine.adapters.transports.auth.owners import ANONYMOUS, STDIO, Owners, Principal
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.jsonrpc import INVALID_REQUEST

__all__ = ["caller_of", "is_identified", "owner_of"]


def is_identified() -> bool:
    """Return whether the SDK has authenticated the sender of the current request."""
    return get_access_token() is not None


def owner_of(context: ServerRequestContext[Any, Any], owners: Owners) -> str:
    """Return the owner of a request without a session.

    This is the authenticated user; otherwise one shared owner over HTTP, or the peer of the pipe or
    in-memory connection.
    """
    token = get_access_token()
    if token is not None:
        client, issuer, subject = principal_components(token)
        if subject is None:  # the token names only the client; no issuer has this name
            return owners.of_principal(Principal("client id", client))
        # Without an issuer, subjects are only unique per client.
        voucher = f"client {client}" if issuer is None else issuer
        return owners.of_principal(Principal(voucher, subject))
    return STDIO if context.request is None else ANONYMOUS


def caller_of(owner: str) -> Caller:
    """Return the owner of the current request with the verified claims of its token."""
    token = get_access_token()
    if token is None:
        return Caller(owner)
    try:
        scopes = frozenset(token.scopes)
        return Caller(owner, token.subject, token.claims or {}, scopes).checked()
    except ValueError as error:
        raise MCPError(INVALID_REQUEST, f"Invalid request: {error}") from None
