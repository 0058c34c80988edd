"""Who asks: what `mcp` 1.x lets a store know of the request that it works for.

Nobody hands it to a store, so it is taken from the context variables of the request.  A tool that
runs as a task inherits them: what it does is done in the name of whoever created the task.
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
"""Names whoever sent a request: the same text for the same caller, and for nobody else."""


def requestor(owners: Owners, identify: Identify | None) -> str | None:
    """The owner of what the current request creates and may see; None outside of any request."""
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
    # The context variable is that of the request which began the session, so ask this one first.
    user = request.scope.get("user") if isinstance(request, HTTPConnection) else None
    return user.access_token if isinstance(user, AuthenticatedUser) else get_access_token()


def _principal(token: AccessToken) -> Principal:
    """The resource owner if the token verifier says who it is, else the client (2025-11-25)."""
    issuer = str((getattr(token, "claims", None) or {}).get("iss", ""))  # since 1.27
    subject = getattr(token, "subject", None)
    if subject is None:
        return Principal(f"clients of {issuer}", token.client_id)
    return Principal(issuer, subject)


def _session_id(request: HTTPConnection) -> str | None:
    """Of Streamable HTTP, or of the older HTTP with SSE; none of a stateless server."""
    return request.headers.get("mcp-session-id") or request.query_params.get("session_id")
