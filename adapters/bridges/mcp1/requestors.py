"""Identify the client of the current request in `mcp` 1.x.

The SDK does not pass it to a store, so it is taken from the context variables of the request.  A
tool that runs as a task inherits them, and so acts for the client that created the task.
"""

from collections.abc import Callable
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel.server import request_ctx
from mcp.shared.context import RequestContext
from starlette.requests import HTTPConnection

from taskmachine.adapters.transports.auth.owners import ANONYMOUS, STDIO, Owners, Principal

__all__ = ["Identify", "requestor"]

Identify = Callable[[RequestContext[Any, Any, Any]], str]
"""Identifies the sender of a request by a text that is unique to it."""


def requestor(owners: Owners, identify: Identify | None) -> str | None:
    """Return the owner for the current request; None outside of any request."""
    context = request_ctx.get(None)
    if context is None:
        return None
    if identify is not None:
        return owners.of_principal(Principal("identify", identify(context)))
    token = _access_token(context.request)
    if token is not None:
        return owners.of_principal(_principal(token))
    if not isinstance(context.request, HTTPConnection):
        return STDIO
    session_id = _session_id(context.request)
    return ANONYMOUS if session_id is None else owners.of_session(session_id)


def _access_token(request: object) -> AccessToken | None:
    # The SDK's context variable is that of the request which began the session, so it comes last.
    user = request.scope.get("user") if isinstance(request, HTTPConnection) else None
    return user.access_token if isinstance(user, AuthenticatedUser) else get_access_token()


def _principal(token: AccessToken) -> Principal:
    """Return the resource owner if the token verifier provides it, else the client (2025-11-25)."""
    issuer = str((getattr(token, "claims", None) or {}).get("iss", ""))  # since 1.27
    subject = getattr(token, "subject", None)
    if subject is None:
        return Principal(f"clients of {issuer}", token.client_id)
    return Principal(issuer, subject)


def _session_id(request: HTTPConnection) -> str | None:
    """Return the session id of Streamable HTTP or HTTP+SSE; None on a stateless server."""
    return request.headers.get("mcp-session-id") or request.query_params.get("session_id")
