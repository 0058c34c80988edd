"""Every name that telemetry uses, in one place: docs/howto/watch.md lists the same.

What the OpenTelemetry semantic conventions for MCP and generative AI name is called so here.
They are in development, so their constants are not imported: an update must not rename a metric.
"""

from typing import Final

SCOPE: Final = "taskmachine"
"""The instrumentation scope."""

OTHER: Final = "_OTHER"
"""What stands for everything that callers could make up."""

# --- attributes of the conventions -------------------------------------------------------------

METHOD: Final = "mcp.method.name"
SESSION: Final = "mcp.session.id"
REVISION: Final = "mcp.protocol.version"
REQUEST_ID: Final = "jsonrpc.request.id"
STATUS_CODE: Final = "rpc.response.status_code"
ERROR_TYPE: Final = "error.type"
OPERATION: Final = "gen_ai.operation.name"
TOOL: Final = "gen_ai.tool.name"
TRANSPORT: Final = "network.transport"
PROTOCOL: Final = "network.protocol.name"
EXCEPTION: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_STACK: Final = "exception.stacktrace"

# --- attributes of our own ---------------------------------------------------------------------

TASK: Final = "taskmachine.task.id"
LEG: Final = "taskmachine.task.leg"
LEG_END: Final = "taskmachine.leg.end"
OUTCOME: Final = "taskmachine.task.outcome"
STORE: Final = "taskmachine.store"
EVENT: Final = "taskmachine.event"

# --- metrics -----------------------------------------------------------------------------------

REQUEST_DURATION: Final = "mcp.server.operation.duration"
CREATED: Final = "taskmachine.tasks.created"
SETTLED: Final = "taskmachine.tasks.settled"
DURATION: Final = "taskmachine.task.duration"
LIVE: Final = "taskmachine.tasks.live"
WAITING: Final = "taskmachine.tasks.waiting"
REMOVED: Final = "taskmachine.sweep.removed"
SWEEP_DURATION: Final = "taskmachine.sweep.duration"
DROPPED: Final = "taskmachine.notifications.dropped"
REFUSED: Final = "taskmachine.steps.refused"

# --- values ------------------------------------------------------------------------------------

EXECUTE_TOOL: Final = "execute_tool"
TOOL_ERROR: Final = "tool_error"
CANCELLED: Final = "cancelled"
