"""What a client says to a server in each revision, and what must come back."""

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from tests.benchmarks.server_connection import Answer, Script, WrongAnswer

__all__ = ["DIALOGS", "TEXT", "TOOL", "Dialog", "constant"]

TOOL: Final = "done"
TEXT: Final = "The work is done."
"""What the tool returns, in every server."""

TTL_MS: Final = 600_000

_RELATED: Final = "io.modelcontextprotocol/related-task"
_decode: Final = msgspec.json.Decoder().decode

JSONObject = dict[str, Any]


class Dialog(Protocol):
    """One client, that has a connection for itself."""

    def open(self) -> Script[None]: ...
    def create(self) -> Script[str]: ...
    def finish(self, task_id: str) -> Script[None]:
        """Return when the result is here, and right."""
        ...

    def get(self, task_id: str) -> Script[bytes]:
        """Of a task that is completed; the message that came back."""
        ...


class _Client:
    """Numbers its requests, and takes nothing but the answer to the last one."""

    def __init__(self, host: str, path: str) -> None:
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\n"
        ).encode()
        self._id = 0

    def _post(self, headers: bytes, body: bytes) -> Script[Answer]:
        answer = yield b"%b%bContent-Length: %d\r\n\r\n%b" % (
            self._head,
            headers,
            len(body),
            body,
        )
        return answer

    def _ask(self, headers: bytes, method: bytes, params: bytes) -> Script[tuple[Answer, bytes]]:
        self._id += 1
        body = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (self._id, method, params)
        answer = yield from self._post(headers, body)
        if answer.status != 200:
            raise WrongAnswer(f"{method.decode()}: HTTP {answer.status} {answer.body[:300]!r}")
        return answer, answer.messages()[-1]  # what comes before it are notifications

    def _result(self, message: bytes) -> JSONObject:
        said = _decode(message)
        if said.get("jsonrpc") != "2.0" or said.get("id") != self._id or "result" not in said:
            raise WrongAnswer(f"not the result of request {self._id}: {message[:300]!r}")
        result: JSONObject = said["result"]
        return result


class Dialog2025(_Client):
    """MCP 2025-11-25, in a session of its own."""

    _headers: bytes = b""

    def open(self) -> Script[None]:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        answer, message = yield from self._ask(b"", b"initialize", msgspec.json.encode(params))
        if self._result(message).get("protocolVersion") != "2025-11-25":
            raise WrongAnswer(f"another revision: {message[:300]!r}")
        self._headers = b"MCP-Protocol-Version: 2025-11-25\r\n"
        if (session := answer.header(b"mcp-session-id")) is not None:
            self._headers += b"Mcp-Session-Id: %b\r\n" % session
        ready = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        taken = yield from self._post(self._headers, ready)
        if taken.status != 202:
            raise WrongAnswer(f"notifications/initialized: HTTP {taken.status}")

    def create(self) -> Script[str]:
        params = b'{"name":"%b","arguments":{},"task":{"ttl":%d}}' % (TOOL.encode(), TTL_MS)
        _, message = yield from self._ask(self._headers, b"tools/call", params)
        return _task_id(self._result(message).get("task"), message)

    def finish(self, task_id: str) -> Script[None]:
        params = b'{"taskId":"%b"}' % task_id.encode()
        _, message = yield from self._ask(self._headers, b"tasks/result", params)
        result = self._result(message)
        _check_text(result, message)
        if result.get("_meta", {}).get(_RELATED) != {"taskId": task_id}:
            raise WrongAnswer(f"of another task: {message[:300]!r}")

    def get(self, task_id: str) -> Script[bytes]:
        params = b'{"taskId":"%b"}' % task_id.encode()
        _, message = yield from self._ask(self._headers, b"tasks/get", params)
        if not _is_completed(self._result(message), task_id, message):
            raise WrongAnswer(f"no longer completed: {message[:300]!r}")
        return message


class Dialog2026(_Client):
    """MCP 2026-07-28, where each request says everything about itself."""

    _META: Final = msgspec.json.encode(
        {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {
                "extensions": {"io.modelcontextprotocol/tasks": {}}
            },
        }
    )
    _VERSION: Final = b"MCP-Protocol-Version: 2026-07-28\r\n"

    def open(self) -> Script[None]:
        """Nothing needs to be said; but the first request must not pay for the connection."""
        yield from self.create()

    def create(self) -> Script[str]:
        name = TOOL.encode()
        headers = b"%bMcp-Method: tools/call\r\nMcp-Name: %b\r\n" % (self._VERSION, name)
        params = b'{"name":"%b","arguments":{},"_meta":%b}' % (name, self._META)
        _, message = yield from self._ask(headers, b"tools/call", params)
        result = self._result(message)
        if result.get("resultType") != "task":
            raise WrongAnswer(f"no task: {message[:300]!r}")
        return _task_id(result, message)

    def finish(self, task_id: str) -> Script[None]:
        while (yield from self._look(task_id))[0] is False:
            pass

    def get(self, task_id: str) -> Script[bytes]:
        is_completed, message = yield from self._look(task_id)
        if not is_completed:
            raise WrongAnswer(f"no longer completed: {message[:300]!r}")
        return message

    def _look(self, task_id: str) -> Script[tuple[bool, bytes]]:
        name = task_id.encode()
        headers = b"%bMcp-Method: tasks/get\r\nMcp-Name: %b\r\n" % (self._VERSION, name)
        params = b'{"taskId":"%b","_meta":%b}' % (name, self._META)
        _, message = yield from self._ask(headers, b"tasks/get", params)
        result = self._result(message)
        is_completed = _is_completed(result, task_id, message)
        if is_completed:
            _check_text(result.get("result"), message)
        return is_completed, message


DIALOGS: Final[dict[str, Callable[[str, str], Dialog]]] = {
    "2025-11-25": Dialog2025,
    "2026-07-28": Dialog2026,
}
"""By revision; made of host and path."""


def constant(dialog: Dialog, task_id: str, expected: bytes) -> Script[None]:
    """The request of `get`, to a server that answers the same to everything."""
    answer = yield next(dialog.get(task_id))
    # Read as an answer of a server is read, so that the client does as much for the floor.
    if answer.status != 200 or answer.messages() != [expected] or "result" not in _decode(expected):
        raise WrongAnswer(f"not the constant: {answer.body[:300]!r}")


def _task_id(task: Any, message: bytes) -> str:
    task_id = task.get("taskId") if isinstance(task, dict) else None
    if not isinstance(task_id, str) or task.get("status") not in ("working", "completed"):
        raise WrongAnswer(f"no task: {message[:300]!r}")
    return task_id


def _is_completed(task: JSONObject, task_id: str, message: bytes) -> bool:
    status = task.get("status")
    if task.get("taskId") != task_id or status not in ("working", "completed"):
        raise WrongAnswer(f"not the task, or not as it should be: {message[:300]!r}")
    return bool(status == "completed")


def _check_text(result: Any, message: bytes) -> None:
    if (
        not isinstance(result, dict)
        or result.get("isError")
        or result.get("content") != [{"type": "text", "text": TEXT}]
    ):
        raise WrongAnswer(f"not the result of the tool: {message[:300]!r}")
