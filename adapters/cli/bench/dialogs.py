"""The requests of a client in each revision, and the validation of the answers."""

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from taskmachine.adapters.cli.bench.connection import Script, WrongAnswer
from taskmachine.adapters.cli.bench.requester import (
    DONE,
    FILL,
    RELEASE,
    Requester,
    Work,
    check_text,
    decode,
    is_completed,
    task_id_of,
)

__all__ = ["DIALOGS", "Dialog", "constant"]

TTL_MS: Final = 600_000

_RELATED: Final = "io.modelcontextprotocol/related-task"


class Dialog(Protocol):
    """The requests of one client, which has a connection of its own."""

    def hello(self) -> Script[None]:
        """Send the first request of this revision."""
        ...

    def open(self) -> Script[None]: ...
    def create(self, work: Work = DONE) -> Script[str]: ...
    def finish(self, task_id: str, work: Work = DONE) -> Script[bytes]:
        """Wait for the result, check it, and return the message that contains it."""
        ...

    def get(self, task_id: str, work: Work = DONE) -> Script[bytes]:
        """Get a completed task and return the message."""
        ...

    def release(self, key: str) -> bytes:
        """Return the request that releases a `hold`."""
        ...

    def fill(self, count: int) -> bytes:
        """Return the request that stores `count` tasks, on servers that have the tool for it."""
        ...

    def page(self) -> Script[int]:
        """Get the first page of tasks and return their number."""
        ...

    def wait(self, task_id: str) -> bytes:
        """Return the request whose answer announces the end of the task."""
        ...

    def is_end(self, message: dict[str, Any], task_id: str) -> bool:
        """Return whether a message is the one that `wait` waits for."""
        ...

    def listen(self, task_id: str) -> bytes:
        """Return the request for a stream of changes of the task."""
        ...

    def is_news(self, message: dict[str, Any], task_id: str) -> bool:
        """Return whether a message announces a change of the task."""
        ...


class Dialog2025(Requester):
    """MCP 2025-11-25, with a session per client."""

    _headers: bytes = b""

    def hello(self) -> Script[None]:
        yield from self.open()

    def open(self) -> Script[None]:
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        answer, message = yield from self.ask(b"", b"initialize", msgspec.json.encode(params))
        if self.result(message).get("protocolVersion") != "2025-11-25":
            raise WrongAnswer(f"another revision: {message[:300]!r}")
        self._headers = b"MCP-Protocol-Version: 2025-11-25\r\n"
        if (session := answer.header(b"mcp-session-id")) is not None:
            self._headers += b"Mcp-Session-Id: %b\r\n" % session
        ready = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        yield from self.notify(self._headers, ready)

    def create(self, work: Work = DONE) -> Script[str]:
        params = b'{"name":"%b","arguments":%b,"task":{"ttl":%d}}' % (
            work.tool.encode(),
            work.arguments,
            TTL_MS,
        )
        _, message = yield from self.ask(self._headers, b"tools/call", params)
        return task_id_of(self.result(message).get("task"), message)

    def finish(self, task_id: str, work: Work = DONE) -> Script[bytes]:
        _, message = yield from self.ask(self._headers, b"tasks/result", _named(task_id))
        result = self.result(message)
        check_text(result, work.text, message)
        if result.get("_meta", {}).get(_RELATED) != {"taskId": task_id}:
            raise WrongAnswer(f"of another task: {message[:300]!r}")
        return message

    def get(self, task_id: str, work: Work = DONE) -> Script[bytes]:
        _, message = yield from self.ask(self._headers, b"tasks/get", _named(task_id))
        if not is_completed(self.result(message), task_id, message):
            raise WrongAnswer(f"no longer completed: {message[:300]!r}")
        return message

    def release(self, key: str) -> bytes:
        return self._plain(RELEASE, {"key": key})

    def fill(self, count: int) -> bytes:
        return self._plain(FILL, {"count": count})

    def _plain(self, tool: str, arguments: dict[str, Any]) -> bytes:
        params = msgspec.json.encode({"name": tool, "arguments": arguments})
        return self.framed(self._headers, b"tools/call", params)

    def page(self) -> Script[int]:
        _, message = yield from self.ask(self._headers, b"tasks/list", b"{}")
        tasks = self.result(message).get("tasks")
        if not isinstance(tasks, list) or not tasks:
            raise WrongAnswer(f"no page of tasks: {message[:300]!r}")
        return len(tasks)

    def wait(self, task_id: str) -> bytes:
        return self.framed(self._headers, b"tasks/result", _named(task_id))

    def is_end(self, message: dict[str, Any], task_id: str) -> bool:
        return message.get("id") == self._id and "result" in message

    def listen(self, task_id: str) -> bytes:
        return b"%b%b\r\n" % (self._get_head, self._headers)

    def is_news(self, message: dict[str, Any], task_id: str) -> bool:
        is_status = message.get("method") == "notifications/tasks/status"
        return is_status and message.get("params", {}).get("taskId") == task_id


class Polled2025(Dialog2025):
    """A client for servers whose `tasks/result` rejects tasks that are not completed.

    That violates the revision, and their results do not name the task either; the benchmark does
    not count these defects against their speed.
    """

    def finish(self, task_id: str, work: Work = DONE) -> Script[bytes]:
        while True:
            _, message = yield from self.ask(self._headers, b"tasks/get", _named(task_id))
            if is_completed(self.result(message), task_id, message):
                break
        _, message = yield from self.ask(self._headers, b"tasks/result", _named(task_id))
        check_text(self.result(message), work.text, message)
        return message


class Dialog2026(Requester):
    """MCP 2026-07-28, where each request is self-contained."""

    _VERSION: Final = b"MCP-Protocol-Version: 2026-07-28\r\n"

    def hello(self) -> Script[None]:
        params = b'{"_meta":%b}' % _META
        headers = b"%bMcp-Method: server/discover\r\n" % self._VERSION
        _, message = yield from self.ask(headers, b"server/discover", params)
        self.result(message)

    def open(self) -> Script[None]:
        """Open the connection, so that the first measured request does not pay for it."""
        yield from self.hello()

    def create(self, work: Work = DONE) -> Script[str]:
        name = work.tool.encode()
        params = b'{"name":"%b","arguments":%b,"_meta":%b}' % (name, work.arguments, _META)
        _, message = yield from self.ask(self._headers(b"tools/call", name), b"tools/call", params)
        result = self.result(message)
        if result.get("resultType") != "task":
            raise WrongAnswer(f"no task: {message[:300]!r}")
        return task_id_of(result, message)

    def finish(self, task_id: str, work: Work = DONE) -> Script[bytes]:
        while True:
            is_ended, message = yield from self._look(task_id, work)
            if is_ended:
                return message

    def get(self, task_id: str, work: Work = DONE) -> Script[bytes]:
        is_ended, message = yield from self._look(task_id, work)
        if not is_ended:
            raise WrongAnswer(f"no longer completed: {message[:300]!r}")
        return message

    def release(self, key: str) -> bytes:
        return self._plain(RELEASE, {"key": key})

    def fill(self, count: int) -> bytes:
        return self._plain(FILL, {"count": count})

    def _plain(self, tool: str, arguments: dict[str, Any]) -> bytes:
        params = b'{"name":"%b","arguments":%b,"_meta":%b}' % (
            tool.encode(),
            msgspec.json.encode(arguments),
            _META_WITHOUT_TASKS,
        )
        return self.framed(self._headers(b"tools/call", tool.encode()), b"tools/call", params)

    def page(self) -> Script[int]:
        raise WrongAnswer("2026-07-28 has no tasks/list")
        yield b""

    def wait(self, task_id: str) -> bytes:
        return self.listen(task_id)

    def is_end(self, message: dict[str, Any], task_id: str) -> bool:
        return self.is_news(message, task_id) and message["params"].get("status") == "completed"

    def listen(self, task_id: str) -> bytes:
        params = b'{"notifications":{"taskIds":["%b"]},"_meta":%b}' % (task_id.encode(), _META)
        headers = b"%bMcp-Method: subscriptions/listen\r\n" % self._VERSION
        return self.framed(headers, b"subscriptions/listen", params)

    def is_news(self, message: dict[str, Any], task_id: str) -> bool:
        is_change = message.get("method") == "notifications/tasks"
        return is_change and message.get("params", {}).get("taskId") == task_id

    def _look(self, task_id: str, work: Work) -> Script[tuple[bool, bytes]]:
        name = task_id.encode()
        params = b'{"taskId":"%b","_meta":%b}' % (name, _META)
        _, message = yield from self.ask(self._headers(b"tasks/get", name), b"tasks/get", params)
        result = self.result(message)
        is_ended = is_completed(result, task_id, message)
        if is_ended:
            check_text(result.get("result"), work.text, message)
        return is_ended, message

    def _headers(self, method: bytes, name: bytes) -> bytes:
        return b"%bMcp-Method: %b\r\nMcp-Name: %b\r\n" % (self._VERSION, method, name)


DIALOGS: Final[dict[str, Callable[..., Dialog]]] = {
    "2025-11-25": Dialog2025,
    "2025-11-25, polled": Polled2025,
    "2026-07-28": Dialog2026,
}
"""Keyed by revision and variant; each is created from a frame."""


def constant(dialog: Dialog, task_id: str, expected: bytes) -> Script[None]:
    """Send the request of `get` to a server that answers everything with the same body."""
    answer = yield next(dialog.get(task_id))
    # Parse it like an answer of a real server, so that the client does equal work for the floor.
    if answer.status != 200 or answer.messages() != [expected] or "result" not in decode(expected):
        raise WrongAnswer(f"not the constant: {answer.body[:300]!r}")


def _named(task_id: str) -> bytes:
    return b'{"taskId":"%b"}' % task_id.encode()


def _meta(capabilities: dict[str, Any]) -> bytes:
    return msgspec.json.encode(
        {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }
    )


_META: Final = _meta({"extensions": {"io.modelcontextprotocol/tasks": {}}})
_META_WITHOUT_TASKS: Final = _meta({})
