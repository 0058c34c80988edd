"""Error responses of the helper endpoints, all in one JSON shape.

Each has a code for programs and a message for people that ends with what to do.  It does not
reveal whether another owner has the task.
"""

from collections.abc import Mapping
from math import ceil
from typing import Final

import attrs
from starlette.responses import Response

from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.statemachine import LimitExceeded

__all__ = [
    "BAD_IF_NONE_MATCH",
    "BAD_TIMEOUT",
    "LIMIT_REACHED",
    "METHOD_NOT_ALLOWED",
    "NO_STORE",
    "STORE_UNAVAILABLE",
    "TASK_NOT_FOUND",
    "Problem",
    "answer",
    "limit_reached",
]

NO_STORE: Final = "no-store"
"""For Cache-Control: results are private, and tasks change; callers use `If-None-Match` instead."""


@attrs.frozen
class Problem:
    """A kind of error response."""

    status: int
    code: str
    message: str

    @property
    def body(self) -> JSONObject:
        return {"error": {"code": self.code, "message": self.message}}

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        return answer(self.status, self.body, headers)


BAD_TIMEOUT: Final = Problem(
    400,
    "bad_timeout",
    "timeout must be given at most once, as a whole number of milliseconds. "
    "Send, for example, ?timeout=30000, or leave it out.",
)
BAD_IF_NONE_MATCH: Final = Problem(
    400,
    "bad_if_none_match",
    "If-None-Match must be * or a list of entity tags. "
    'Send the ETag of an earlier answer with its quotes, for example "3".',
)
TASK_NOT_FOUND: Final = Problem(
    404,
    "task_not_found",
    "You have no task with this id. Check the id, and that you use the same credentials as when "
    "the task was created. A task is deleted when its time to live has passed.",
)
METHOD_NOT_ALLOWED: Final = Problem(
    405,
    "method_not_allowed",
    "Only GET and HEAD work here. Use MCP to create, answer or cancel tasks.",
)
LIMIT_REACHED: Final = Problem(
    429,
    "limit_reached",
    "Limit reached: 100 waiting calls per task. Wait for the time in Retry-After, then try again.",
)
STORE_UNAVAILABLE: Final = Problem(
    503,
    "store_unavailable",
    "The task store does not respond. Try again in a moment; if it persists, contact the operator.",
)


def limit_reached(error: LimitExceeded) -> Response:
    """Return the response with the time to wait, in the body and in `Retry-After`."""
    body = attrs.evolve(
        LIMIT_REACHED,
        message=f"Limit reached: {error.limit}. Wait for the time in Retry-After, then try again.",
    ).body
    body["error"]["retryAfterMs"] = error.retry_after_ms
    seconds = max(1, ceil(error.retry_after_ms / 1_000))  # HTTP has whole seconds only
    return answer(LIMIT_REACHED.status, body, {"Retry-After": str(seconds)})


def answer(status: int, body: JSONObject, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response that must not be cached."""
    return Response(
        encode_json(body),
        status,
        {"Cache-Control": NO_STORE, **(headers or {})},
        media_type="application/json",
    )
