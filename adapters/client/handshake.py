"""Detect the protocol revision of a server."""

from typing import Any, Final

from taskmachine.adapters.client.connection import Connection
from taskmachine.adapters.client.errors import BadAnswer, CallFailed, NoAnswer, Refused
from taskmachine.adapters.client.generations import Generation, Server
from taskmachine.protocol.dialects.mcp_2026_07_28.messages import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
)
from taskmachine.protocol.errors import UnsupportedVersion

__all__ = ["introduce", "probe"]

PROBE_S: Final = 10.0
"""Time limit for the answer to a probe, including the start of the server."""

MODERN_ERRORS: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
"""Errors that only servers without a handshake send."""


async def introduce(
    connection: Connection, generation: Generation, *, timeout: float | None = None
) -> Server:
    """Open in one revision; raise UnsupportedVersion or CallFailed if it does not fit."""
    hello = await connection.ask(generation.dialect, generation.hello, timeout=timeout)
    server = generation.read_hello(hello)
    if generation.thanks is not None:
        await connection.transport.begin(generation.thanks)
    return server


async def probe(connection: Connection, modern: Generation, legacy: Generation) -> Server | None:
    """Try the modern revision; return None if the server requires the legacy handshake.

    Any answer that a modern server would not send means legacy
    (2026-07-28:stdio-fallback-any-error), except for authentication and connection errors.
    """
    try:
        return await introduce(connection, modern, timeout=min(PROBE_S, connection.timeout))
    except UnsupportedVersion as error:
        supported: Any = error.supported
    except CallFailed as error:
        if error.code not in MODERN_ERRORS:
            return None
        supported = error.data.get("supported") if isinstance(error.data, dict) else None
        if not isinstance(supported, list):
            raise
    except Refused as error:
        if error.status in (401, 403) or error.status >= 500:
            raise
        return None
    except (BadAnswer, NoAnswer):
        return None
    if legacy.dialect.revision in supported:
        return None
    raise UnsupportedVersion(modern.dialect.revision, supported)
