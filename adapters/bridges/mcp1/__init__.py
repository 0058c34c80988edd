"""Tasks for servers and clients of the first generation of the official SDK, `mcp` 1.26 to 1.30."""

from taskmachine.adapters.bridges.required import require

require("mcp", "mcp1", "1.26", below="2.0")

from taskmachine.adapters.bridges.mcp1.message_queue import BoundedQueue  # noqa: E402
from taskmachine.adapters.bridges.mcp1.requestors import Identify  # noqa: E402
from taskmachine.adapters.bridges.mcp1.serving import enable_tasks  # noqa: E402
from taskmachine.adapters.bridges.mcp1.store import TaskmachineStore  # noqa: E402

__all__ = ["BoundedQueue", "Identify", "TaskmachineStore", "enable_tasks"]
