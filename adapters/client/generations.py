"""The messages of each protocol revision apart from calls and their tasks."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from taskmachine.protocol.dialects.dialect import Dialect, TaskSupport
from taskmachine.protocol.dialects.mcp_2025_11_25 import messages as mcp_2025_11_25
from taskmachine.protocol.dialects.mcp_2025_11_25.requestor import Requestor2025
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as mcp_2026_07_28
from taskmachine.protocol.dialects.mcp_2026_07_28.requestor import Requestor2026, request_meta
from taskmachine.protocol.dialects.requestor import RequestorDialect
from taskmachine.protocol.errors import UnsupportedVersion
from taskmachine.protocol.jsonrpc import Notification, Request
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["REVISIONS", "Generation", "Server", "legacy", "modern"]

REVISIONS: Final = (mcp_2026_07_28.REVISION, mcp_2025_11_25.REVISION)


@attrs.frozen
class Server:
    """The identity and capabilities of a server."""

    generation: str
    info: JSONObject
    capabilities: JSONObject
    instructions: str | None = None


@attrs.frozen(eq=False)
class Generation:
    """The handshake and discovery of one protocol revision."""

    dialect: Dialect
    hello: Any
    read_hello: Callable[[Any], Server]
    """Reads the first answer; raises UnsupportedVersion without a common version."""
    thanks: Notification | None
    """The notification that completes the handshake."""
    list_tools: Callable[[str | None], Any]
    watch: Callable[[str], Any] | None
    """Creates the request that subscribes to a task, where one is needed."""
    requestor: Callable[[Server, Mapping[str, TaskSupport | None]], RequestorDialect]
    is_outside_tasks: Callable[[Request], bool]
    """Whether a request of the server does not belong to a task."""
    is_about_stale_tools: Callable[[int | None], bool]
    """Whether an error code means that the cached list of tools is out of date."""


def legacy(capabilities: JSONObject, info: JSONObject) -> Generation:
    """Return the messages of 2025-11-25, which begins with a handshake."""
    dialect = mcp_2025_11_25.DIALECT

    def read_hello(result: mcp_2025_11_25.InitializeResult) -> Server:
        if result.protocolVersion != dialect.revision:  # 2025-11-25:client-disconnects-on-version
            raise UnsupportedVersion(dialect.revision, [result.protocolVersion])
        return Server(dialect.revision, result.serverInfo, result.capabilities, result.instructions)

    return Generation(
        dialect=dialect,
        hello=mcp_2025_11_25.Initialize(dialect.revision, capabilities, info),
        read_hello=read_hello,
        thanks=dialect.encode_notification(mcp_2025_11_25.Initialized()),
        list_tools=mcp_2025_11_25.ListTools,
        watch=None,
        requestor=lambda server, tools: Requestor2025(capabilities, server.capabilities, tools),
        is_outside_tasks=_has_no_related_task,
        is_about_stale_tools=lambda _: False,
    )


def _has_no_related_task(request: Request) -> bool:
    meta = request.params.get("_meta")
    return not isinstance(meta, dict) or mcp_2025_11_25.RELATED_TASK not in meta


def modern(capabilities: JSONObject, info: JSONObject) -> Generation:
    """Return the messages of 2026-07-28, where requests are stateless and discovery is optional."""
    dialect = mcp_2026_07_28.DIALECT
    meta = request_meta(capabilities, info)

    def read_hello(result: mcp_2026_07_28.DiscoverResult) -> Server:
        if dialect.revision not in result.supportedVersions:
            raise UnsupportedVersion(dialect.revision, result.supportedVersions)
        named = (result._meta or {}).get(mcp_2026_07_28.SERVER_INFO)
        shown = named if isinstance(named, dict) else {}
        return Server(dialect.revision, shown, result.capabilities, result.instructions)

    def watch(task_id: str) -> Any:
        return mcp_2026_07_28.Listen(mcp_2026_07_28.SubscriptionFilter(taskIds=[task_id]), meta)

    return Generation(
        dialect=dialect,
        hello=mcp_2026_07_28.Discover(meta),
        read_hello=read_hello,
        thanks=None,
        list_tools=lambda cursor: mcp_2026_07_28.ListTools(meta, cursor),
        watch=watch,
        requestor=lambda _, __: Requestor2026(capabilities, info),
        is_outside_tasks=lambda _: False,
        is_about_stale_tools=lambda code: code == mcp_2026_07_28.HEADER_MISMATCH,
    )
