"""Requests of one client: numbering, framing and checking of the answers."""

from typing import Any, Final, NamedTuple

import msgspec

from taskmachine.adapters.cli.bench.connection import Answer, Script, WrongAnswer

__all__ = [
    "DONE",
    "FILL",
    "HOLD",
    "RELEASE",
    "SIZED",
    "TEXT",
    "TOOL",
    "Frame",
    "JSONObject",
    "Requester",
    "Work",
    "check_text",
    "decode",
    "hold",
    "is_completed",
    "sized",
    "task_id_of",
]

TOOL: Final = "done"
"""Returns immediately, on every server."""
HOLD: Final = "hold"
"""Returns when its key is released."""
RELEASE: Final = "release"
"""Releases one `hold`; not a task."""
FILL: Final = "fill"
"""Stores many tasks at once, for `grow`; only our server has it."""
SIZED: Final = "sized"
"""Returns as many characters as requested."""
TEXT: Final = "The work is done."
"""The result of `done` and `hold`, on every server."""

decode: Final = msgspec.json.Decoder().decode

JSONObject = dict[str, Any]


class Work(NamedTuple):
    """A call that becomes a task, and the text of its result."""

    tool: str
    arguments: bytes
    text: str


DONE: Final = Work(TOOL, b"{}", TEXT)


def hold(key: str) -> Work:
    return Work(HOLD, msgspec.json.encode({"key": key}), TEXT)


def sized(size: int) -> Work:
    return Work(SIZED, b'{"size":%d}' % size, "x" * size) if size else DONE


class Frame(NamedTuple):
    """How a message is sent: as an HTTP request to a host and path, or as a line."""

    host: str = ""
    path: str = ""

    @property
    def is_line(self) -> bool:
        return not self.host

    def head(self, method: str = "POST") -> bytes:
        accepted = (
            "application/json, text/event-stream" if method == "POST" else "text/event-stream"
        )
        return (
            f"{method} {self.path} HTTP/1.1\r\nHost: {self.host}\r\nAccept: {accepted}\r\n".encode()
        )


class Requester:
    """Number requests, and accept only the answer to the latest one.

    Clients that share a pipe use interleaved numbers.
    """

    def __init__(self, frame: Frame, first: int = 1, step: int = 1) -> None:
        self._is_line = frame.is_line
        self._head = frame.head() + b"Content-Type: application/json\r\n"
        self._get_head = frame.head("GET")
        self._id = first - step
        self._step = step
        self._unsent = b""

    def framed(self, headers: bytes, method: bytes, params: bytes) -> bytes:
        """Return the next request."""
        self._id += self._step
        body = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (self._id, method, params)
        return self._framed(headers, body)

    def notify(self, headers: bytes, body: bytes) -> Script[None]:
        """Send a notification; on a pipe, together with the next request."""
        if self._is_line:
            self._unsent += body + b"\n"
            return
        taken = yield self._framed(headers, body)
        if taken.status != 202:
            raise WrongAnswer(f"{body[:60]!r}: HTTP {taken.status}")

    def ask(self, headers: bytes, method: bytes, params: bytes) -> Script[tuple[Answer, bytes]]:
        answer = yield self.framed(headers, method, params)
        if answer.status != 200:
            raise WrongAnswer(f"{method.decode()}: HTTP {answer.status} {answer.body[:300]!r}")
        return answer, answer.messages()[-1]  # after any notifications

    def result(self, message: bytes) -> JSONObject:
        said = decode(message)
        if said.get("jsonrpc") != "2.0" or said.get("id") != self._id or "result" not in said:
            raise WrongAnswer(f"not the result of request {self._id}: {message[:300]!r}")
        result: JSONObject = said["result"]
        return result

    def _framed(self, headers: bytes, body: bytes) -> bytes:
        if self._is_line:
            line, self._unsent = self._unsent + body + b"\n", b""
            return line
        return b"%b%bContent-Length: %d\r\n\r\n%b" % (self._head, headers, len(body), body)


def task_id_of(task: Any, message: bytes) -> str:
    task_id = task.get("taskId") if isinstance(task, dict) else None
    if not isinstance(task_id, str) or task.get("status") not in ("working", "completed"):
        raise WrongAnswer(f"no task: {message[:300]!r}")
    return task_id


def is_completed(task: JSONObject, task_id: str, message: bytes) -> bool:
    status = task.get("status")
    if task.get("taskId") != task_id or status not in ("working", "completed"):
        raise WrongAnswer(f"not the task, or not as it should be: {message[:300]!r}")
    return bool(status == "completed")


def check_text(result: Any, text: str, message: bytes) -> None:
    if (
        not isinstance(result, dict)
        or result.get("isError")
        or result.get("content") != [{"type": "text", "text": text}]
    ):
        raise WrongAnswer(f"not the result of the tool: {message[:300]!r}")
