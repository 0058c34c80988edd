"""Names that tools need less often: answers, results and callers (docs/howto/tools.md)."""

from taskmachine.adapters.tools.content import ToolResult
from taskmachine.adapters.tools.questions import Accepted, Answer, NotAccepted
from taskmachine.adapters.tools.sampling import SamplingResult, UnfitReply
from taskmachine.protocol.caller import Caller

__all__ = [
    "Accepted",
    "Answer",
    "Caller",
    "NotAccepted",
    "SamplingResult",
    "ToolResult",
    "UnfitReply",
]
