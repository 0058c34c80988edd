"""What a client says to a server in each revision, and what must come back."""

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from taskmachine.adapters.cli.bench.asking import (
    DONE,
    FILL,
    RELEASE,
    Asking,
    Work,
    check_text,
    decode,
    is_completed,
    task_id_of,
)
from taskmachine.adapters.cli.bench.connection import Script, WrongAnswer

__all__ = ["DIALOGS", "Dialog", "constant"]

TTL_MS: Final = 600_000

_RELATED: Final = "io.modelcontextprotocol/related-task"


class Dialog(Protocol):
    """One client, that has a connection for itself."""

    def hello(self) -> Script[None]:
        """The first request of this revision."""
        ...

    def open(self) -> Script[None]: ...
    def create(self, work: Work = DONE) -> Script[str]: ...
    def finish(self, task_id: str, work: Work = DONE) -> Script[bytes]:
        """Return when the result is here, and right: the message that has it."""
        ...

    def get(self, task_id: str, work: Work = DONE) -> Script[bytes]:
        """Of a task that is completed; the message that came back."""
        ...

    def release(self, key: str) -> bytes:
        """The request that lets a `hold` go."""
        ...

    def fill(self, count: int) -> bytes:
        """The request that stores so many tasks, where there is the tool for it."""
        ...

    def page(self) -> Script[int]:
        """The first page of the tasks; how many are on it."""
        ...

    def wait(self, task_id: str) -> bytes:
        """The request whose answer tells the end of the task."""
        ...

    def is_end(self, message: dict[str, Any], task_id: str) -> bool:
        """Whether this is what `wait` waits for."""
        ...

    def listen(self, task_id: str) -> bytes:
        """The request for a stream on which changes of the task are told."""
        ...

    def is_news(self, message: dict[str, Any], task_id: str) -> bool:
        """Whether this tells a change of the task."""
        ...


class Dialog2025(Asking):
    """MCP 2025-11-25, in a session of its own."""

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
        yield from self.tell(self._headers, ready)

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
    """With a server whose `tasks/result` refuses what is not completed, against the revision.

    Its results do not name their task either: what is missing is not held against its speed.
    """

    def finish(self, task_id: str, work: Work = DONE) -> Script[bytes]:
        while True:
            _, message = yield from self.ask(self._headers, b"tasks/get", _named(task_id))
            if is_completed(self.result(message), task_id, message):
                break
        _, message = yield from self.ask(self._headers, b"tasks/result", _named(task_id))
        check_text(self.result(message), work.text, message)
        return message


class Dialog2026(Asking):
    """MCP 2026-07-28, where each request says everything about itself."""

    _VERSION: Final = b"MCP-Protocol-Version: 2026-07-28\r\n"

    def hello(self) -> Script[None]:
        params = b'{"_meta":%b}' % _META
        headers = b"%bMcp-Method: server/discover\r\n" % self._VERSION
        _, message = yield from self.ask(headers, b"server/discover", params)
        self.result(message)

    def open(self) -> Script[None]:
        """Nothing needs to be said; but the first request must not pay for the connection."""
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
"""By revision, and how it is spoken; made of a frame."""


def constant(dialog: Dialog, task_id: str, expected: bytes) -> Script[None]:
    """The request of `get`, to a server that answers the same to everything."""
    answer = yield next(dialog.get(task_id))
    # Read as an answer of a server is read, so that the client does as much for the floor.
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
