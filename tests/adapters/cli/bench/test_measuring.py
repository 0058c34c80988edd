"""The measurements work, and the client detects wrong answers; absolute speed does not matter."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskmachine.adapters.cli.bench.connection import (
    Answer,
    Connection,
    Script,
    WrongAnswer,
    read_answer,
)
from taskmachine.adapters.cli.bench.dialogs import DIALOGS, Dialog, constant
from taskmachine.adapters.cli.bench.figures import row_of
from taskmachine.adapters.cli.bench.load import Figure, Turn
from taskmachine.adapters.cli.bench.loads import values_of
from taskmachine.adapters.cli.bench.requester import TEXT, Frame
from taskmachine.adapters.cli.bench.streams import Listening
from tests.benchmarks.server_profile import print_table, profiled

PLAIN = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n" + b'{"a":1}'
)
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    b"1c\r\nid: 1\ndata:\n\n: still here\nda\r\n"
    b'13;x=y\r\nta: {"a":\ndata: 1}\n\r\n'
    b'C\r\n\ndata:{"b"}\n\r\n'
    b"1\r\n\n\r\n"
    b"0\r\n\r\n"
)


@pytest.mark.parametrize("whole", [PLAIN, CHUNKED])
def test_answer_is_parsed_only_when_complete(whole: bytes) -> None:
    for end in range(len(whole)):
        assert read_answer(whole[:end]) is None
    read = read_answer(whole + b"HTTP/1.1 2")
    assert read is not None
    assert read[1] == len(whole)


def test_messages_are_the_body_or_the_events_with_data() -> None:
    plain, chunked = read_answer(PLAIN), read_answer(CHUNKED)
    assert plain is not None
    assert plain[0].messages() == [b'{"a":1}']
    assert chunked is not None
    assert chunked[0].messages() == [b'{"a":\n1}', b'{"b"}']


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        CHUNKED.replace(b"\n\r\nC", b"\nXXC"),
    ],
)
def test_malformed_answer_raises_wrong_answer(data: bytes) -> None:
    with pytest.raises(WrongAnswer):
        read_answer(data)


def test_script_without_requests_passes_on_its_return_value_or_exception() -> None:
    def silent(error: Exception | None) -> Script[str]:
        if error is not None:
            raise error
        return "done"
        yield b""

    async def play() -> None:
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
        assert await connection.play(silent(None)) == "done"
        with pytest.raises(WrongAnswer):
            await connection.play(silent(WrongAnswer("no")))
        connection.close()
        listening.close()

    asyncio.run(play())


def test_a_server_that_hangs_up_is_an_error() -> None:
    class HangsUp(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.close()

    def asking() -> Script[None]:
        yield b"GET / HTTP/1.1\r\n\r\n"

    async def play() -> None:
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(HangsUp, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
        for _ in range(2):  # once during the request, and once long after
            with pytest.raises(WrongAnswer):
                await asyncio.wait_for(connection.play(asking()), 10)
        listening.close()

    asyncio.run(play())


# --- validation of answers -------------------------------------------------------------------


def played(script: Script[Any], results: Iterator[Any]) -> Any:
    """Answer each request of a script with the next result."""
    request = next(script)
    try:
        while True:
            sent = json.loads(request.partition(b"\r\n\r\n")[2])
            message = {"jsonrpc": "2.0", "id": sent["id"], **next(results)}
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json"
            request = script.send(Answer(200, head, json.dumps(message).encode()))
    except StopIteration as stop:
        return stop.value


def dialog(revision: str) -> Dialog:
    return DIALOGS[revision](Frame("localhost", "/mcp"))


RESULT = {"content": [{"type": "text", "text": TEXT}]}
RELATED = {"io.modelcontextprotocol/related-task": {"taskId": "t"}}
TASK = {"taskId": "t", "status": "working"}
ENDED = {"taskId": "t", "status": "completed"}


def test_a_task_of_2025_11_25_is_created_and_its_result_taken() -> None:
    client = dialog("2025-11-25")
    assert played(client.create(), iter([{"result": {"task": TASK}}])) == "t"
    played(client.finish("t"), iter([{"result": {**RESULT, "_meta": RELATED}}]))
    played(client.get("t"), iter([{"result": ENDED}]))


def test_bench_client_polls_a_2026_07_28_task_until_completed() -> None:
    client = dialog("2026-07-28")
    assert played(client.create(), iter([{"result": {"resultType": "task", **TASK}}])) == "t"
    answers = iter([{"result": TASK}, {"result": TASK}, {"result": {**ENDED, "result": RESULT}}])
    played(client.finish("t"), answers)
    assert list(answers) == []
    played(client.get("t"), iter([{"result": {**ENDED, "result": RESULT}}]))


@pytest.mark.parametrize(
    ("revision", "step", "answer"),
    [
        ("2025-11-25", "create", {"error": {"code": -32603, "message": "full"}}),
        ("2025-11-25", "create", {"id": 99, "result": {"task": TASK}}),
        ("2025-11-25", "create", {"result": RESULT}),
        ("2025-11-25", "create", {"result": {"task": {**TASK, "status": "failed"}}}),
        ("2025-11-25", "finish", {"result": RESULT}),
        ("2025-11-25", "finish", {"result": {**RESULT, "isError": True, "_meta": RELATED}}),
        ("2025-11-25", "finish", {"result": {"content": [], "_meta": RELATED}}),
        ("2025-11-25", "get", {"result": TASK}),
        ("2025-11-25", "get", {"result": {**ENDED, "taskId": "u"}}),
        ("2026-07-28", "create", {"result": {"resultType": "complete", **TASK}}),
        ("2026-07-28", "finish", {"result": {**TASK, "status": "failed"}}),
        ("2026-07-28", "finish", {"result": ENDED}),
        ("2026-07-28", "get", {"result": TASK}),
        ("2026-07-28", "get", {"result": {**ENDED, "result": {"content": []}}}),
    ],
)
def test_a_wrong_answer_is_an_error(revision: str, step: str, answer: dict[str, Any]) -> None:
    client = dialog(revision)
    scripts: dict[str, Callable[[], Script[object]]] = {
        "create": client.create,
        "finish": lambda: client.finish("t"),
        "get": lambda: client.get("t"),
    }
    with pytest.raises(WrongAnswer):
        played(scripts[step](), iter([answer]))


def test_the_floor_must_repeat_the_constant() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json"
    for body, is_right in ((b'{"result":1}', True), (b'{"result":2}', False)):
        script = constant(dialog("2025-11-25"), "t", b'{"result":1}')
        next(script)
        with pytest.raises(StopIteration if is_right else WrongAnswer):
            script.send(Answer(200, head, body))


# --- figures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("clients", "reached"), [(1, 0.4), (32, 0.222)])
def test_the_processor_counts_where_the_server_does_not_wait(clients: int, reached: float) -> None:
    subject, floor = Figure(400, 400, 1, 0.1, 0.9), Figure(1_000, 1_000, 1, 0.1, 0.5)
    values = values_of(Turn(subject, floor), clients)
    assert values["share"] == pytest.approx(0.4)
    assert values["reached"] == pytest.approx(reached, abs=0.001)


def test_requests_are_counted_for_the_share_and_work_for_the_rate() -> None:
    subject, floor = Figure(100, 250, 1, 0.1, 0.5), Figure(1_000, 1_000, 1, 0.1, 0.5)
    values = values_of(Turn(subject, floor), 1)
    assert values["rate"] == 100
    assert values["share"] == pytest.approx(0.25)
    assert values["cpu_us"] == pytest.approx(5_000)


def test_a_value_is_the_median_of_rounds_and_not_of_one_moment() -> None:
    rounds = [{"share": share} for share in (0.8, 0.4, 0.1)]
    row = row_of("get", "ours, memory", "2025-11-25", "1 at a time", rounds)
    assert row.values == {"share": 0.4}
    assert row.rounds == rounds


# --- streamed answers ------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 7, 1_000])
@pytest.mark.parametrize(
    ("answer", "messages"),
    [(PLAIN, [b'{"a":1}']), (CHUNKED, [b'{"a":\n1}', b'{"b"}'])],
)
def test_stream_messages_are_parsed_across_any_chunk_boundaries(
    answer: bytes, messages: list[bytes], step: int
) -> None:
    heard: list[bytes] = []
    listening = Listening(heard.append, lambda error: pytest.fail(str(error)))
    for at in range(0, len(answer), step):
        listening.data_received(answer[at : at + step])
    assert heard == messages


def test_http_error_is_reported_instead_of_a_stream() -> None:
    errors: list[Exception] = []
    listening = Listening(lambda text: pytest.fail("nothing was said"), errors.append)
    listening.data_received(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")
    assert "404" in str(errors[0])


def test_a_server_that_leaves_in_mid_stream_is_an_error() -> None:
    errors: list[Exception] = []
    listening = Listening(lambda text: None, errors.append)
    listening.data_received(CHUNKED[:-9])
    listening.connection_lost(None)
    assert isinstance(errors[0], WrongAnswer)


# --- the profile -----------------------------------------------------------------------------


def test_profile_lists_functions_of_taskmachine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table(*profiled(tmp_path, "2026-07-28", "task", 640), "whole tasks")
    assert "taskmachine.adapters" in capsys.readouterr().out
