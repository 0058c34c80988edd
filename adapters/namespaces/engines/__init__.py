"""Engines, which run the tools of tasks: how to choose or write one (docs/howto/adapters.md)."""

from taskmachine.adapters.engines.local import LocalEngine
from taskmachine.adapters.engines.procrastinate.opening import for_replicas, for_workers
from taskmachine.adapters.runtime.claims import Claim, claim, give_back
from taskmachine.adapters.runtime.engine import Engine, MakeEngine, PeriodicJob, find_engine
from taskmachine.adapters.runtime.runtime import Surroundings
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.tool_runs import ToolRunner
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.registry import Tool

__all__ = [
    "Claim",
    "Engine",
    "Gone",
    "LocalEngine",
    "MakeEngine",
    "PeriodicJob",
    "Surroundings",
    "TaskService",
    "Tool",
    "ToolRunner",
    "claim",
    "find_engine",
    "for_replicas",
    "for_workers",
    "give_back",
]
