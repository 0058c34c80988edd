"""MCP Tasks as one explicit state machine.

Pure: no JSON, no clock, no ids, no I/O, no protocol revision.  Start reading in `table`.
"""

from taskmachine.statemachine.errors import (
    ConfigurationError,
    IllegalTransition,
    KeyReused,
    LimitExceeded,
    NotDue,
    NotFound,
    StaleFence,
    TaskmachineError,
)
from taskmachine.statemachine.machine import fire
from taskmachine.statemachine.table import DUTIES, TABLE, TERMINAL, Duties, Event, Row, State
from taskmachine.statemachine.task import (
    Call,
    Cause,
    Entry,
    Outcome,
    Progress,
    Question,
    Reply,
    Task,
    Trace,
)
from taskmachine.statemachine.times import Times

__all__ = [
    "DUTIES",
    "TABLE",
    "TERMINAL",
    "Call",
    "Cause",
    "ConfigurationError",
    "Duties",
    "Entry",
    "Event",
    "IllegalTransition",
    "KeyReused",
    "LimitExceeded",
    "NotDue",
    "NotFound",
    "Outcome",
    "Progress",
    "Question",
    "Reply",
    "Row",
    "StaleFence",
    "State",
    "Task",
    "TaskmachineError",
    "Times",
    "Trace",
    "fire",
]
