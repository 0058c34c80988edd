"""The harness works, and its client is not fooled; how fast a server is today is no matter."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import server
from tests.benchmarks.server_connection import Answer, Connection, Script, WrongAnswer, read_answer
from tests.benchmarks.server_dialogs import DIALOGS, TEXT, Dialog, constant
from tests.benchmarks.server_load import Figure, Figures, Turn
from tests.benchmarks.server_profile import print_table, profiled
from tests.benchmarks.server_subjects import Subject

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
def test_an_answer_is_read_when_all_of_it_is_there(whole: bytes) -> None:
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
def test_what_cannot_be_read_is_an_error(data: bytes) -> None:
    with pytest.raises(WrongAnswer):
        read_answer(data)


def test_what_a_script_returns_or_raises_comes_back_even_if_it_asks_for_nothing() -> None:
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
        for _ in range(2):  # while it is asked, and when it has long been gone
            with pytest.raises(WrongAnswer):
                await asyncio.wait_for(connection.play(asking()), 10)
        listening.close()

    asyncio.run(play())


# --- what the client takes for an answer -----------------------------------------------------


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
    return DIALOGS[revision]("localhost", "/mcp")


RESULT = {"content": [{"type": "text", "text": TEXT}]}
RELATED = {"io.modelcontextprotocol/related-task": {"taskId": "t"}}
TASK = {"taskId": "t", "status": "working"}
ENDED = {"taskId": "t", "status": "completed"}


def test_a_task_of_2025_11_25_is_created_and_its_result_taken() -> None:
    client = dialog("2025-11-25")
    assert played(client.create(), iter([{"result": {"task": TASK}}])) == "t"
    played(client.finish("t"), iter([{"result": {**RESULT, "_meta": RELATED}}]))
    played(client.get("t"), iter([{"result": ENDED}]))


def test_a_task_of_2026_07_28_is_looked_up_until_it_is_completed() -> None:
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


# --- what is made of figures -----------------------------------------------------------------


def subject(store: str) -> Subject:
    return Subject(f"ours, {store}", "2025-11-25", "/mcp", lambda folder: (), store)


def figures(gets: float, tasks: float, floor: float = 1_000) -> Figures:
    """Rates a second; two requests for each task."""

    def figure(done: float, sent: float) -> Figure:
        return Figure(int(done), int(sent), 1, 0.5, 0.5)

    return Figures(
        200,
        [
            Turn(
                kind,
                clients,
                figure(gets, gets) if kind == "get" else figure(tasks, tasks * 2),
                figure(floor, floor),
            )
            for kind, clients in server.TURNS
        ],
    )


@pytest.mark.parametrize(
    ("memory", "sqlite", "broken"),
    [
        ((400, 125), (400, 42), set()),
        ((399, 125), (400, 42), {"ours, memory, 2025-11-25: tasks/get"}),
        ((400, 124), (400, 42), {"ours, memory, 2025-11-25: whole tasks"}),
        ((400, 125), (399, 42), {"ours, sqlite, 2025-11-25: tasks/get"}),
        ((400, 125), (400, 41), {"ours, sqlite, 2025-11-25: whole tasks"}),
        ((400, 1_500), (400, 400), set()),
        ((400, 1_500), (400, 399), {"ours, sqlite, 2025-11-25: whole tasks"}),
    ],
)
def test_bounds_are_judged(
    memory: tuple[float, float], sqlite: tuple[float, float], broken: set[str]
) -> None:
    measured = {subject("memory"): [figures(*memory)], subject("sqlite"): [figures(*sqlite)]}
    lines = list(server.judged(server.runs(measured)))
    assert all(("BROKEN" in line) != holds for line, holds in lines)
    failed = {
        line.partition(" at a time")[0].rpartition(",")[0] for line, holds in lines if not holds
    }
    assert failed == broken


@pytest.mark.parametrize(("clients", "holds"), [(1, True), (32, False)])
def test_the_processor_is_judged_where_the_server_does_not_wait(clients: int, holds: bool) -> None:
    subject, floor = Figure(400, 400, 1, 0.1, 0.9), Figure(1_000, 1_000, 1, 0.1, 0.5)
    run = server.Run([Turn("get", clients, subject, floor)])
    assert run.share == pytest.approx(0.4)
    assert run.reaches(0.399) is holds


def test_the_share_is_the_median_of_rounds_and_not_of_one_moment() -> None:
    rounds = [figures(400, 125, floor) for floor in (500, 1_000, 4_000)]
    assert server.Run([of.turns[0] for of in rounds]).share == pytest.approx(0.4)


# --- the whole of it -------------------------------------------------------------------------


def test_the_harness_measures_our_server_on_both_stores_and_in_both_revisions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.main(["--quick"])
    output = capsys.readouterr().out
    assert "not measured" not in output
    assert "the floor: requests, 32 at a time" in output
    for store in ("memory", "sqlite"):
        for revision in ("2025-11-25", "2026-07-28"):
            for what in ("tasks/get, 1", "tasks/get, 32", "whole tasks, 1", "whole tasks, 32"):
                assert f"ours, {store}, {revision}: {what} at a time" in output


def test_the_profile_names_functions_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_table(*profiled(server.load, tmp_path, "2026-07-28", "task", 64), "whole tasks")
    assert "taskmachine.adapters" in capsys.readouterr().out
