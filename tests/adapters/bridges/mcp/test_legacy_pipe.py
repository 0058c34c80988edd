"""Tasks of 2025-11-25 on a pipe to an SDK server, where all streams share one pipe."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.adapters.bridges.mcp.legacy_client import FORM, RELATED, accept
from tests.adapters.transports.pipes import DEADLINE_S, PipeReader

JSON = dict[str, Any]
SERVER: Final = Path(__file__).with_name("legacy_server.py")
HELLO: Final[JSON] = {
    "protocolVersion": "2025-11-25",
    "capabilities": FORM,
    "clientInfo": {"name": "pipe", "version": "1"},
}


class Pipe:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SERVER)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self.process.stdout is not None
        self._heard = PipeReader(self.process.stdout)

    @property
    def heard(self) -> list[JSON]:
        return [json.loads(line) for line in self._heard.lines]

    def tell(self, *messages: JSON) -> None:
        assert self.process.stdin is not None
        lines = [json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages]
        self.process.stdin.write("".join(lines).encode())
        self.process.stdin.flush()

    def until(self, is_wanted: Callable[[JSON], bool]) -> JSON:
        """Wait for a message that matches and return it."""
        assert self._heard.until(lambda: any(map(is_wanted, self.heard))), self.heard
        return [message for message in self.heard if is_wanted(message)][-1]

    def answer(self, id: int | str) -> JSON:
        return self.until(lambda message: message.get("id") == id and "method" not in message)

    def called(self, method: str) -> JSON:
        return self.until(lambda message: message.get("method") == method)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._heard.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def request(id: int | str, method: str, **params: Any) -> JSON:
    return {"id": id, "method": method, "params": params}


INTRODUCED: Final = (
    request("hello", "initialize", **HELLO),
    {"method": "notifications/initialized"},
)
DEPLOY: Final = request("make", "tools/call", name="deploy", arguments={"version": "1"}, task={})


def test_a_life_on_one_pipe(pipe: Pipe) -> None:
    # All at once: a client need not wait for an answer before the next request.
    pipe.tell(*INTRODUCED, DEPLOY)
    task_id = pipe.answer("make")["result"]["task"]["taskId"]
    pipe.until(lambda message: message.get("params", {}).get("status") == "input_required")
    assert not any(message.get("method") == "elicitation/create" for message in pipe.heard)

    # Any request makes the client reachable, as there is only one pipe.
    pipe.tell(request("look", "tasks/get", taskId=task_id))
    assert pipe.answer("look")["result"]["status"] == "input_required"
    question = pipe.called("elicitation/create")
    assert question["params"]["_meta"][RELATED] == {"taskId": task_id}

    pipe.tell(request("same", "tasks/result", taskId=task_id))
    pipe.tell(request("same", "tasks/result", taskId=task_id))
    assert pipe.answer("same")["error"]["code"] == -32600

    pipe.tell(accept(question))
    done = pipe.until(lambda message: message.get("id") == "same" and "result" in message)
    assert done["result"]["content"][0]["text"] == "1 is deployed to test."
    told = [message.get("params", {}).get("status") for message in pipe.heard]
    assert told.index("completed") < pipe.heard.index(done)  # in the order of sending
    assert sum(message.get("method") == "elicitation/create" for message in pipe.heard) == 1


def test_server_sends_status_notifications_before_the_result(pipe: Pipe) -> None:
    count = {"name": "count", "arguments": {"to": 200, "pause_ms": 0}, "task": {}}
    pipe.tell(*INTRODUCED, request("make", "tools/call", **count))
    task_id = pipe.answer("make")["result"]["task"]["taskId"]
    pipe.tell(request("wait", "tasks/result", taskId=task_id))
    pipe.answer("wait")
    pipe.until(lambda message: message.get("params", {}).get("status") == "completed")
    told = [message.get("params", {}).get("status", message.get("id")) for message in pipe.heard]
    assert told.index("completed") < told.index("wait")


def test_a_question_on_the_pipe_is_taken_back_with_its_task(pipe: Pipe) -> None:
    pipe.tell(*INTRODUCED, DEPLOY)
    task_id = pipe.answer("make")["result"]["task"]["taskId"]
    pipe.until(lambda message: message.get("params", {}).get("status") == "input_required")
    pipe.tell(request("look", "tasks/get", taskId=task_id))
    question = pipe.called("elicitation/create")
    pipe.tell(request("end", "tasks/cancel", taskId=task_id))
    assert pipe.answer("end")["result"]["status"] == "cancelled"
    assert pipe.called("notifications/cancelled")["params"]["requestId"] == question["id"]


def test_server_rejects_task_requests_before_the_handshake(pipe: Pipe) -> None:
    pipe.tell(request(1, "tasks/get", taskId="x"), DEPLOY)
    for id in (1, "make"):
        assert pipe.answer(id)["error"]["code"] in (-32600, -32602)
    pipe.tell(*INTRODUCED, DEPLOY)
    pipe.until(lambda message: message.get("id") == "make" and "result" in message)


def test_server_asks_no_question_before_the_initialized_notification(pipe: Pipe) -> None:
    hello, ready = INTRODUCED
    pipe.tell(hello, DEPLOY)
    task_id = pipe.answer("make")["result"]["task"]["taskId"]
    pipe.tell(request("wait", "tasks/result", taskId=task_id))
    looks = 0
    while True:
        looks += 1
        pipe.tell(request(f"look {looks}", "tasks/get", taskId=task_id))
        if pipe.answer(f"look {looks}")["result"]["status"] == "input_required":
            break
    assert not any(message.get("method") == "elicitation/create" for message in pipe.heard)
    pipe.tell(ready)
    pipe.tell(accept(pipe.called("elicitation/create")))
    assert "result" in pipe.answer("wait")


def test_server_exits_when_stdin_closes_during_tasks_result(pipe: Pipe) -> None:
    pipe.tell(*INTRODUCED, DEPLOY)
    task_id = pipe.answer("make")["result"]["task"]["taskId"]
    pipe.tell(request("wait", "tasks/result", taskId=task_id))
    pipe.called("elicitation/create")
    assert pipe.process.stdin is not None
    pipe.process.stdin.close()
    assert pipe.process.wait(DEADLINE_S) == 0
