"""All names of spans, attributes and metrics, as listed in docs/howto/watch.md.

They follow the OpenTelemetry semantic conventions for MCP and generative AI.  These are in
development, so their constants are not imported: an update must not rename a metric.
"""

from typing import Final

SCOPE: Final = "taskmachine"
"""The instrumentation scope."""

OTHER: Final = "_OTHER"
"""Replaces every value that a caller could choose freely."""

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

# --- attributes of taskmachine -----------------------------------------------------------------

TASK: Final = "taskmachine.task.id"
RUN: Final = "taskmachine.task.run"
RUN_END: Final = "taskmachine.run.end"
OUTCOME: Final = "taskmachine.task.outcome"
STORE: Final = "taskmachine.store"
EVENT: Final = "taskmachine.event"
STEP: Final = "taskmachine.step.key"
IS_RECORDED: Final = "taskmachine.step.is_recorded"

# --- metrics -----------------------------------------------------------------------------------

REQUEST_DURATION: Final = "mcp.server.operation.duration"
CREATED: Final = "taskmachine.tasks.created"
SETTLED: Final = "taskmachine.tasks.settled"
DURATION: Final = "taskmachine.task.duration"
RETRIES: Final = "taskmachine.task.retries"
REPLAYED: Final = "taskmachine.task.steps.replayed"
LIVE: Final = "taskmachine.tasks.live"
WAITING: Final = "taskmachine.tasks.waiting"
REMOVED: Final = "taskmachine.sweep.removed"
SWEEP_DURATION: Final = "taskmachine.sweep.duration"
DROPPED: Final = "taskmachine.notifications.dropped"
LOST: Final = "taskmachine.notifications.lost"
REFUSED: Final = "taskmachine.steps.refused"

# --- values ------------------------------------------------------------------------------------

EXECUTE_TOOL: Final = "execute_tool"
TOOL_ERROR: Final = "tool_error"
RETRIED: Final = "retried"
CANCELLED: Final = "cancelled"
