"""A server process on real pipes, with a client in plain JSON."""

import json
import os
import pty
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from taskmachine.adapters.transports.stdio.server import LineSplitter
from taskmachine.protocol.jsonvalue import MAX_BYTES
from tests.adapters.transports.conftest import Start
from tests.adapters.transports.pipes import (
    COMMAND,
    DEADLINE_S,
    HELLO,
    JSON,
    MISBEHAVING,
    MODERN,
    Client,
)
from tests.requirements import covers

RELATED: Final = "io.modelcontextprotocol/related-task"
YES: Final = {"action": "accept", "content": {"confirmed": True, "stage": "live"}}
PING: Final = b'{"jsonrpc":"2.0","id":"ping","method":"ping"}\n'
MEBIBYTE: Final = 1024 * 1024


def introduced(folder: Path, tools: str) -> Iterator[Client]:
    client = Client(folder, tools=tools)
    client.introduce()
    yield client
    client.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server with the demo tools that several tests share."""
    yield from introduced(tmp_path_factory.mktemp("demo"), "demo")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server with the misbehaving tools that several tests share."""
    yield from introduced(tmp_path_factory.mktemp("odd"), MISBEHAVING)


def create(client: Client, tool: str, arguments: JSON) -> str:
    """Create a task by 2025-11-25."""
    params = {"name": tool, "arguments": arguments, "task": {}}
    task_id: str = client.ask("tools/call", params)["result"]["task"]["taskId"]
    return task_id


def create_modern(client: Client, tool: str, arguments: JSON) -> str:
    result = client.ask_modern("tools/call", {"name": tool, "arguments": arguments})["result"]
    assert result["resultType"] == "task"
    task_id: str = result["taskId"]
    return task_id


def text_of(result: JSON) -> str:
    [block] = result["content"]
    text: str = block["text"]
    return text


def in_flight(client: Client, task_id: str) -> JSON:
    """Return the request with the question of this task."""
    return client.expect(
        lambda message: (
            message.get("method") == "elicitation/create"
            and message["params"]["_meta"][RELATED]["taskId"] == task_id
        )
    )


# --- both generations ------------------------------------------------------------------------


@covers(
    "2026-07-28:both-eras-concurrently",
    "2026-07-28:initialize-selects-legacy",
    "2026-07-28:modern-request-served-statelessly",
)
def test_both_generations_share_one_pipe_and_its_tasks(start: Start) -> None:
    client = start()
    discovered = client.ask_modern("server/discover")["result"]
    assert "2026-07-28" in discovered["supportedVersions"]
    assert client.introduce()["result"]["protocolVersion"] == "2025-11-25"
    old = create(client, "count", {"to": 2, "pause_ms": 1})
    new = create_modern(client, "count", {"to": 3, "pause_ms": 1})
    assert client.ask("tasks/result", {"taskId": new})["result"]["structuredContent"] == {
        "counted": 3
    }
    assert client.until_status(old, "completed")["result"]["structuredContent"] == {"counted": 2}
    listed = client.ask("tasks/list")["result"]["tasks"]
    assert {task["taskId"] for task in listed} == {old, new}
    assert client.ask_modern("tasks/list")["error"]["code"] == -32601
    assert client.end() == 0


def test_server_detects_the_revision_of_each_request(start: Start) -> None:
    client = start()
    assert client.ask("tools/list")["error"]["code"] == -32600, "before initialize"
    assert client.ask_modern("tools/list")["result"]["resultType"] == "complete"
    other = {**MODERN, "io.modelcontextprotocol/protocolVersion": "2030-01-01"}
    refused = client.ask("tools/list", {"_meta": other})["error"]
    assert (refused["code"], refused["data"]["supported"]) == (-32022, ["2026-07-28"])
    assert client.ask("server/discover")["error"]["code"] == -32602, "without its _meta"
    client.introduce()
    assert "resultType" not in client.ask("tools/list")["result"]
    assert "resultType" not in client.ask("tools/list", {"_meta": {"progressToken": 1}})["result"]
    assert client.ask_modern("tools/list")["result"]["resultType"] == "complete"


@covers("2026-07-28:server-sends-no-requests")
def test_questions_are_asked_in_the_way_of_each_generation(demo: Client) -> None:
    new = create_modern(demo, "deploy", {"version": "2.0"})
    old = create(demo, "deploy", {"version": "1.0"})
    waiting = demo.request("tasks/result", {"taskId": old})
    question = in_flight(demo, old)
    asked = demo.until_status(new, "input_required")["inputRequests"]
    assert asked["confirm"]["method"] == "elicitation/create"
    demo.send({"id": question["id"], "result": YES})
    answers = {"taskId": new, "inputResponses": {"confirm": YES}}
    assert demo.ask_modern("tasks/update", answers)["result"]["resultType"] == "complete"
    done = demo.until_status(new, "completed")["result"]
    assert text_of(done) == "2.0 is deployed to live."
    assert text_of(demo.answer(waiting)["result"]) == "1.0 is deployed to live."
    requests = [
        message["params"] for message in demo.messages if "method" in message and "id" in message
    ]
    assert {params["_meta"][RELATED]["taskId"] for params in requests} == {old}


def test_questions_are_sent_only_while_the_client_waits_for_the_result(start: Start) -> None:
    client = start()
    client.introduce()
    old = create(client, "deploy", {"version": "1.0"})
    client.until_status(old, "input_required")
    assert not [message for message in client.messages if "method" in message and "id" in message]
    waiting = client.request("tasks/result", {"taskId": old})
    client.send({"id": in_flight(client, old)["id"], "result": YES})
    assert text_of(client.answer(waiting)["result"]) == "1.0 is deployed to live."


def test_a_plain_call_can_ask_in_both_generations(demo: Client) -> None:
    call: JSON = {"name": "deploy", "arguments": {"version": "3.0"}}
    without_tasks = {
        **MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }
    paused = demo.ask("tools/call", {**call, "_meta": without_tasks})["result"]
    assert paused["resultType"] == "input_required"
    again = {
        **call,
        "_meta": without_tasks,
        "inputResponses": {"confirm": YES},
        "requestState": paused["requestState"],
    }
    assert text_of(demo.ask("tools/call", again)["result"]) == "3.0 is deployed to live."
    waiting = demo.request("tools/call", call)
    question = demo.called("elicitation/create")
    demo.send({"id": question["id"], "result": {"action": "decline"}})
    assert "not deployed" in text_of(demo.answer(waiting)["result"])


def test_the_demo_tools_use_progress_and_sampling(demo: Client) -> None:
    failed = demo.ask("tools/call", {"name": "fail"})["result"]
    assert failed["isError"] is True
    crashed = demo.ask("tools/call", {"name": "crash"})
    assert crashed["error"] == {"code": -32603, "message": "Tool 'crash' failed"}
    assert demo.ask("tools/call", {"name": "greet", "task": {}})["error"]["code"] == -32601
    waiting = demo.request("tools/call", {"name": "sample", "arguments": {"topic": "bees"}})
    question = demo.called("sampling/createMessage")
    assert "bees" in question["params"]["messages"][0]["content"]["text"]
    content = {"type": "text", "text": "Bees hum."}
    demo.send(
        {"id": question["id"], "result": {"role": "assistant", "model": "m", "content": content}}
    )
    assert text_of(demo.answer(waiting)["result"]) == "Bees hum."


@covers("2026-07-28:stdio-cancelled-work-stops", "2026-07-28:stdio-silence-after-cancel")
@pytest.mark.parametrize("is_modern", [False, True])
def test_a_plain_call_is_cancelled_by_its_id(odd: Client, is_modern: bool) -> None:
    # A client without the task capability makes plain calls in both revisions.
    meta = {**MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    params: JSON = {"name": "hold", **({"_meta": meta} if is_modern else {})}
    id = f"held {is_modern}"
    odd.request("tools/call", params, id)
    odd.ask("ping")
    stops = odd.stderr.count("hold was stopped") + 1
    odd.send({"method": "notifications/cancelled", "params": {"requestId": id}})
    odd.until_logged("hold was stopped", stops)
    # The id is free again, in both revisions.
    assert "result" in odd.answer(odd.request("ping", {}, id))
    assert [message.get("id") for message in odd.messages].count(id) == 1


def test_an_id_has_one_answer_whatever_the_generation(odd: Client) -> None:
    odd.request("tools/call", {"name": "hold"}, 77)
    odd.request("tools/list", {"_meta": MODERN}, 77)
    refused = odd.expect(lambda message: "error" in message and "id" not in message)
    assert refused["error"]["code"] == -32600
    assert not [message for message in odd.messages if message.get("id") == 77]
    odd.send({"method": "notifications/cancelled", "params": {"requestId": 77}})


def test_tasks_are_cancelled_in_both_generations(odd: Client) -> None:
    old, new = create(odd, "hold", {}), create_modern(odd, "hold", {})
    assert odd.ask("tasks/cancel", {"taskId": old})["result"]["status"] == "cancelled"
    odd.ask_modern("tasks/cancel", {"taskId": new})
    for task_id in (old, new):
        odd.until_status(task_id, "cancelled")


@covers("2026-07-28:listen-final-response", "2026-07-28:listen-final-response-shape")
def test_a_watch_is_ended_before_the_server_leaves(start: Start) -> None:
    client = start()
    task_id = create_modern(client, "deploy", {"version": "1"})
    params = {"notifications": {"taskIds": [task_id]}, "_meta": MODERN}
    watch = client.request("subscriptions/listen", params)
    client.called("notifications/subscriptions/acknowledged")
    assert client.end() == 0
    result = client.answer(watch)["result"]
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/subscriptionId"] == watch
    assert client.messages[-1]["id"] == watch


def test_the_private_dialect_has_a_pipe_of_its_own(start: Start) -> None:
    client = start("--dialect", "erlmcp")
    action = {"name": "count", "arguments": {"to": 1, "pause_ms": 1}}
    task_id = client.ask("tasks/create", {"action": action})["result"]["task"]["taskId"]
    client.expect(
        lambda message: (
            message.get("method") == "notifications/tasks/status"
            and message["params"]["task"]["status"] == "completed"
        )
    )
    result = client.ask("tasks/result", {"taskId": task_id})["result"]
    assert "counted" in json.dumps(result)
    for method in ("initialize", "server/discover"):
        assert client.ask(method, {**HELLO, "_meta": MODERN})["error"]["code"] == -32601


# --- crashes ---------------------------------------------------------------------------------


def test_questions_outlive_a_server_that_was_killed(start: Start) -> None:
    first = start()
    first.introduce()
    old = create(first, "deploy", {"version": "1.0"})
    first.request("tasks/result", {"taskId": old})
    in_flight(first, old)
    new = create_modern(first, "deploy", {"version": "2.0"})
    first.until_status(new, "input_required")
    first.kill()

    second = start()
    second.introduce()
    waiting = second.request("tasks/result", {"taskId": old})
    second.send({"id": in_flight(second, old)["id"], "result": YES})
    assert text_of(second.answer(waiting)["result"]) == "1.0 is deployed to live."
    assert second.until_status(new, "input_required")["inputRequests"].keys() == {"confirm"}
    answers = {"taskId": new, "inputResponses": {"confirm": YES}}
    second.ask_modern("tasks/update", answers)
    assert text_of(second.until_status(new, "completed")["result"]) == "2.0 is deployed to live."


# --- lines -----------------------------------------------------------------------------------


@covers("2025-11-25:stdio-no-embedded-newlines", "2026-07-28:stdio-no-embedded-newlines")
def test_lines_may_be_long_and_contain_anything(odd: Client) -> None:
    text = "first\nsecond\r\n\u2028 \U0001f600" + "x" * 100_000
    params = {"name": "echo", "arguments": {"text": text}}
    assert text_of(odd.ask("tools/call", params)["result"]) == text


def test_a_line_that_is_too_long_is_refused_and_skipped(start: Start) -> None:
    client = start()
    client.introduce()
    before = client.peak_bytes()
    for _ in range(16):
        client.write(b"[" * 4 * MEBIBYTE)
    client.write(b"\n" + PING)
    client.answer("ping")
    errors = [message for message in client.messages if "error" in message]
    assert [error["error"]["code"] for error in errors] == [-32700], "one answer for one line"
    assert "id" not in errors[0]
    assert client.peak_bytes() - before < 24 * MEBIBYTE, "for a line of 64 MiB"


def test_the_longest_line_is_read(start: Start) -> None:
    client = start()
    head, tail = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"', b'"}}'
    filling = b"x" * (MAX_BYTES - len(head) - len(tail))
    client.write(head + filling + tail + b"\r\n")
    assert "result" in client.answer(1)
    client.write(head + filling + b"x" + tail + b"\n" + PING)
    client.answer("ping")
    [refused] = [message for message in client.messages if "error" in message]
    assert refused["error"]["code"] == -32700


def test_lines_do_not_depend_on_how_they_arrive() -> None:
    text = b'{"a":1}\r\n\n  \n{"b":2}\n\r\n{"c":3}'
    for size in range(1, len(text) + 1):
        lines = LineSplitter()
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        found = [line for chunk in chunks for line in lines.feed(chunk)]
        assert [*found, *lines.end()] == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


MALFORMED: Final[dict[bytes, tuple[int, Any]]] = {
    b"nonsense": (-32700, None),
    b'{"jsonrpc":"2.0","id":1': (-32700, None),
    b"\xff\xfe": (-32700, None),
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}': (-32700, None),
    b"[" * 100_000: (-32700, None),
    b"[]": (-32600, None),
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]': (-32600, None),
    b"42": (-32600, None),
    b"null": (-32600, None),
    b"{}": (-32600, None),
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}': (-32600, 1),
    b'{"id":"a","method":"ping"}': (-32600, "a"),
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}': (-32600, None),
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}': (-32600, None),
    b'{"jsonrpc":"2.0","id":2,"method":7}': (-32600, 2),
    b'{"jsonrpc":"2.0","method":7}': (-32600, None),
    b'{"jsonrpc":"2.0","id":3,"method":"ping","params":[]}': (-32602, 3),
    b'{"jsonrpc":"2.0","id":4,"method":"ping","params":{"_meta":[]}}': (-32602, 4),
    b'{"jsonrpc":"2.0","id":5,"method":"no/such"}': (-32601, 5),
    b'{"jsonrpc":"2.0","id":6,"method":"tools/list","params":{"_meta":7}}': (-32602, 6),
}
UNANSWERED: Final = [
    b'{"jsonrpc":"2.0","method":"notifications/initialized","params":[]}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":true}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
    b'{"jsonrpc":"2.0","method":"notifications/no/such"}',
    b'{"jsonrpc":"2.0","id":1,"result":[]}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","result":{}}',
    b'{"jsonrpc":"2.0","id":1,"error":7}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"},"result":{}}',
    b'{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}',
]


@covers("2025-11-25:stdio-stdout-only-mcp", "2026-07-28:stdio-stdout-only-mcp")
def test_a_thousand_malformed_lines_are_answered_one_by_one(start: Start) -> None:
    client = start()
    lines = list(MALFORMED) * 50
    client.write(b"".join(line + b"\n" for line in lines) + PING)
    client.answer("ping")
    answers = [message for message in client.messages if "error" in message]
    assert len(answers) == len(lines) == 1_000
    found = [(answer["error"]["code"], answer.get("id")) for answer in answers]
    assert found == [MALFORMED[line] for line in lines]
    assert all(answer["jsonrpc"] == "2.0" and answer["error"]["message"] for answer in answers)
    assert "Traceback" not in client.stderr
    assert client.end() == 0


def test_malformed_notifications_and_responses_get_no_answer(start: Start) -> None:
    client = start()
    client.introduce()
    before = len(client.messages)
    client.write(b"".join(line + b"\n" for line in UNANSWERED) + PING)
    client.answer("ping")
    assert len(client.messages) == before + 1
    assert "Traceback" not in client.stderr


def test_an_internal_error_affects_one_message_only(start: Start) -> None:
    client = start(tools="tests.adapters.transports.broken_tools:TOOLS")
    client.introduce()
    assert client.ask("tools/list")["error"] == {"code": -32603, "message": "Internal error"}
    assert "result" in client.ask("ping")


# --- who else uses the streams ---------------------------------------------------------------


def test_a_tool_that_prints_or_reads_does_no_harm(start: Start) -> None:
    client = start(tools=MISBEHAVING)
    client.introduce()
    result = client.ask("tools/call", {"name": "noisy"})["result"]
    assert text_of(result) == "0 bytes were read, and ''"
    assert client.end() == 0
    assert all(message["jsonrpc"] == "2.0" for message in client.messages), (
        "every line is a message"
    )
    for source in ("an import", "Python", "the descriptor", "a program"):
        assert f"printed by {source}\n" in client.stderr


INPUT: Final = (
    json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode()
    + b"\n"
    + b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":'
    + b'{"name":"greet","arguments":{"name":"Ada"}}}'  # without a newline
)


def command(folder: Path) -> list[str]:
    return [COMMAND, "serve", "--stdio", "--store", f"sqlite:{folder / 'tasks.db'}"]


def answered(output: bytes) -> bool:
    messages = [json.loads(line) for line in output.splitlines()]
    assert {message["id"] for message in messages} <= {1, 2}
    return len(messages) == 2 and "Hello, Ada!" in json.dumps(messages)


def test_stdio_works_with_files(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(INPUT)
    with (tmp_path / "input").open("rb") as source, (tmp_path / "output").open("wb") as sink:
        done = subprocess.run(
            command(tmp_path), stdin=source, stdout=sink, timeout=DEADLINE_S, check=False
        )
    assert done.returncode == 0
    assert answered((tmp_path / "output").read_bytes())


@contextmanager
def running(folder: Path, source: int, sink: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command(folder), stdin=source, stdout=sink)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_stdio_works_with_sockets(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    ours.settimeout(DEADLINE_S)
    with (
        ours,
        ours.makefile("rb") as output,
        theirs,
        running(tmp_path, theirs.fileno(), theirs.fileno()) as process,
    ):
        theirs.close()
        ours.sendall(INPUT + b"\n")
        assert answered(output.readline() + output.readline())
        # More than the socket's buffer.
        long = {"name": "greet", "arguments": {"name": "x" * MEBIBYTE}}
        call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": long}
        ours.sendall(json.dumps(call).encode() + b"\n")
        assert len(text_of(json.loads(output.readline())["result"])) > MEBIBYTE
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(DEADLINE_S) == 0


def test_connection_reset_by_the_client_is_not_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    ours.settimeout(DEADLINE_S)
    with ours, theirs, running(tmp_path, theirs.fileno(), subprocess.PIPE) as process:
        theirs.close()
        ours.sendall(PING)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == "ping"
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ours.close()
        assert process.wait(DEADLINE_S) == 0


def test_stdio_works_with_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with running(tmp_path, theirs, subprocess.PIPE) as process:
        os.close(theirs)
        os.write(ours, PING)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == "ping"
        os.close(ours)  # hangs up
        assert process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize(
    ("closed", "status", "says"),
    [("<&-", 2, "one is closed"), (">&-", 2, "one is closed"), ("2>&-", 0, "")],
)
def test_standard_streams_that_are_closed(
    tmp_path: Path, closed: str, status: int, says: str
) -> None:
    script = f"{' '.join(command(tmp_path))} {closed}"
    done = subprocess.run(
        ["bash", "-c", script], input=INPUT, capture_output=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == status
    assert says in done.stderr.decode()
    assert answered(done.stdout) is (status == 0)


# --- the end ---------------------------------------------------------------------------------


@covers("2026-07-28:stdio-exit-on-eof")
def test_server_answers_pending_requests_before_it_exits(tmp_path: Path) -> None:
    params = {"name": "count", "arguments": {"to": 1, "pause_ms": 200}}
    count = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}
    done = subprocess.run(
        command(tmp_path), input=INPUT + b"\n" + json.dumps(count).encode(),
        capture_output=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    *first, last = done.stdout.splitlines()
    assert answered(b"\n".join(first))
    assert json.loads(last)["result"]["structuredContent"] == {"counted": 1}
    assert done.stderr.decode().startswith("taskmachine: serving 6 tools on standard input and ")
    assert "Traceback" not in done.stderr.decode()


@covers("2026-07-28:stdio-exit-on-eof")
def test_a_task_that_runs_goes_back_to_the_store_at_the_end_of_input(
    start: Start, tmp_path: Path
) -> None:
    first = start(tools=MISBEHAVING)
    first.introduce()
    task_id = create(first, "hold", {})
    waiting = first.request("tasks/result", {"taskId": task_id})
    first.called("notifications/tasks/status")
    assert first.end() == 0
    assert not [message for message in first.messages if message.get("id") == waiting]
    show = [COMMAND, "tasks", "show", "--json", task_id, "--store", f"sqlite:{tmp_path}/tasks.db"]
    shown = json.loads(subprocess.run(show, capture_output=True, check=True).stdout)
    assert shown["state"] == "submitted", "no worker has it"
    second = start(tools=MISBEHAVING)
    second.introduce()
    assert second.ask("tasks/get", {"taskId": task_id})["result"]["status"] == "working"
    assert second.ask("tasks/cancel", {"taskId": task_id})["result"]["status"] == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_signal_exits_without_error(start: Start, number: int) -> None:
    client = start()
    client.introduce()
    client.process.send_signal(number)
    assert client.wait() == 0
    assert "Traceback" not in client.stderr


def test_closed_client_output_is_not_an_error(start: Start) -> None:
    client = start(is_not_reading=True)
    client.until_logged("serving")
    client.stdout.close()
    client.write(PING)
    assert client.wait() == 0
    assert "Traceback" not in client.stderr


def test_a_tool_that_ignores_cancellation_does_not_block_the_exit(start: Start) -> None:
    client = start(tools=MISBEHAVING)
    client.introduce()
    client.request("tools/call", {"name": "stubborn"})
    client.ask("ping")
    assert client.end() == 0
    assert "forcing exit" in client.stderr


# --- clients that do not read ----------------------------------------------------------------


def test_a_client_that_does_not_read_is_not_read_from(start: Start) -> None:
    """Memory stays bounded, and every answer arrives once the client reads again."""
    count = 150
    client = start(tools=MISBEHAVING, is_not_reading=True)
    client.send({"id": "hello", "method": "initialize", "params": HELLO})
    client.until_logged("serving")
    before = client.peak_bytes()
    for id in range(count):
        call = {"name": "big", "arguments": {"size": MEBIBYTE // 2}}  # sent twice
        client.request("tools/call", call, id)
    client.listen()
    for id in range(count):
        assert len(text_of(client.answer(id)["result"])) == MEBIBYTE // 2
    assert client.peak_bytes() - before < 64 * MEBIBYTE, "for 150 MiB"
    assert client.end() == 0


def test_the_server_exits_if_the_client_never_reads(start: Start) -> None:
    client = start(tools=MISBEHAVING, is_not_reading=True)
    client.send({"id": 1, "method": "initialize", "params": HELLO})
    client.send({"method": "notifications/initialized"})
    call = {"name": "chatter", "arguments": {"times": 100_000}, "_meta": {"progressToken": "t"}}
    client.request("tools/call", call, 2)
    assert client.wait() == 1
    assert "taskmachine: error: the client does not read: " in client.stderr
    assert "Traceback" not in client.stderr
