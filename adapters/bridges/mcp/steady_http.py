"""HTTP for clients of the official SDK that survives a temporary loss of the server."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client

__all__ = ["UNREACHABLE", "steady_http"]

UNREACHABLE: Final = {"taskmachine": "unreachable"}
"""The data that marks an error as created by the client."""


@contextlib.asynccontextmanager
async def steady_http(
    url: str, *, headers: dict[str, str] | None = None, auth: httpx2.Auth | None = None
) -> AsyncIterator[Any]:
    """Open a transport for `Client(...)` that survives connection failures.

    The SDK's own transport ends the client and all its calls if a connection fails.
    """
    timeout = httpx2.Timeout(30.0, read=300.0)  # the defaults of the SDK
    http = httpx2.AsyncClient(transport=_Steady(), headers=headers, auth=auth, timeout=timeout)
    async with http, streamable_http_client(url, http_client=http) as streams:
        yield streams


class _Steady(httpx2.AsyncBaseTransport):
    """Turns connection failures into error responses, which the SDK delivers to the caller."""

    def __init__(self) -> None:
        self._http = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.headers.get("mcp-method", "server/discover") == "server/discover":
            return await self._http.handle_async_request(request)
        try:
            response = await self._http.handle_async_request(request)
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                await response.aread()
        except httpx2.TransportError as error:
            words = f"the server cannot be reached: {error}"
            shown = {"code": types.CONNECTION_CLOSED, "message": words, "data": UNREACHABLE}
            return httpx2.Response(503, json={"jsonrpc": "2.0", "id": None, "error": shown})
        return response

    async def aclose(self) -> None:
        await self._http.aclose()
