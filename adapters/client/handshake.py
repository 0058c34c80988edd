"""How a client finds out which generation a server speaks."""

from typing import Any, Final

from taskmachine.adapters.client.errors import BadAnswer, CallFailed, NoAnswer, Refused
from taskmachine.adapters.client.generations import Generation, Server
from taskmachine.adapters.client.line import Line
from taskmachine.protocol.dialects.mcp_2026_07_28.messages import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
)
from taskmachine.protocol.errors import UnsupportedVersion

__all__ = ["introduce", "probe"]

PROBE_S: Final = 10.0
"""How long a server may take to answer a probe; it may have to start first."""

MODERN_ERRORS: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
"""Only a server that knows requests without a handshake answers with these."""


async def introduce(line: Line, generation: Generation, *, timeout: float | None = None) -> Server:
    """Say hello in one generation; UnsupportedVersion or CallFailed if it is the wrong one."""
    hello = await line.ask(generation.dialect, generation.hello, timeout=timeout)
    server = generation.read_hello(hello)
    if generation.thanks is not None:
        await line.transport.begin(generation.thanks)
    return server


async def probe(line: Line, modern: Generation, legacy: Generation) -> Server | None:
    """Try the modern generation; None if the server wants the handshake of the legacy one.

    Whatever is no answer of a modern server counts as that (2026-07-28:stdio-fallback-any-error),
    except for what says that nobody is let in or nothing works.
    """
    try:
        return await introduce(line, modern, timeout=min(PROBE_S, line.timeout))
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
