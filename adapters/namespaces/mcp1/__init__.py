"""Tasks for servers and clients of the first generation of the official SDK, `mcp` 1.26 to 1.30."""

from taskmachine.adapters.bridges.mcp1 import (
    BoundedQueue,
    Identify,
    TaskmachineStore,
    enable_tasks,
)
from taskmachine.adapters.bridges.mcp1.client import receive_tasks

__all__ = ["BoundedQueue", "Identify", "TaskmachineStore", "enable_tasks", "receive_tasks"]
