"""Tasks for servers and clients of the official SDK, `mcp` 2.3 and later."""

from taskmachine.adapters.bridges.mcp import Tasks, elicitation
from taskmachine.adapters.bridges.mcp.client import (
    Cancelled,
    ConnectionLost,
    CreatedTask,
    Task,
    TaskGone,
    Update,
    steady_http,
)
from taskmachine.adapters.bridges.mcp.client import Tasks as ClientTasks

__all__ = [
    "Cancelled",
    "ClientTasks",
    "ConnectionLost",
    "CreatedTask",
    "Task",
    "TaskGone",
    "Tasks",
    "Update",
    "elicitation",
    "steady_http",
]
