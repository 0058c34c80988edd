"""Names that tools need less often: retries, steps, answers, results (docs/howto/tools.md)."""

from taskmachine.adapters.tools.content import ToolResult
from taskmachine.adapters.tools.questions import Accepted, Answer, NotAccepted
from taskmachine.adapters.tools.recorded import StepError
from taskmachine.adapters.tools.retries import Retry, exponential
from taskmachine.adapters.tools.sampling import SamplingResult, UnfitReply
from taskmachine.adapters.tools.steps import Step, retrying
from taskmachine.protocol.caller import Caller

__all__ = [
    "Accepted",
    "Answer",
    "Caller",
    "NotAccepted",
    "Retry",
    "SamplingResult",
    "Step",
    "StepError",
    "ToolResult",
    "UnfitReply",
    "exponential",
    "retrying",
]
