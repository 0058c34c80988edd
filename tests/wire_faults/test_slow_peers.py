"""The server waits for slow clients as long as configured, without delaying other clients."""

import time
from pathlib import Path
from typing import Final

import pytest

from tests.wire_faults.clients import Modern
from tests.wire_faults.server_process import Server
from tests.wire_faults.slow_readers import measure
from tests.wire_faults.wire import BOTH, Wire, request_bytes

HEADER_S: Final = 0.5
BODY_S: Final = 0.6
SLACK_S: Final = 4.0
"""Tolerance for a busy machine."""

SETTINGS: Final = {"transport": {"header_s": HEADER_S, "body_s": BODY_S}}

JSON: Final = {"Content-Type": "application/json", "Accept": BOTH}


@pytest.mark.parametrize("begun", [b"", b"P", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Sl"])
def test_a_header_that_is_never_finished(begun: bytes, server: Server) -> None:
    began = time.monotonic()
    with Wire(server.connect()) as wire:
        wire.send(begun)
        wire.read_to_end()
    assert HEADER_S * 0.9 <= time.monotonic() - began < HEADER_S + SLACK_S


def test_a_header_byte_by_byte_gets_no_more_time(server: Server) -> None:
    began = time.monotonic()
    with Wire(server.connect()) as wire:
        wire.socket.settimeout(0.1)
        data = iter(b"POST /mcp HTTP/1.1\r\nX-Slow: " + b"z" * 10_000)
        while time.monotonic() - began < HEADER_S + SLACK_S:
            try:
                wire.send(bytes([next(data)]))
                if wire.socket.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("the header has no time limit")


def test_the_second_header_of_a_connection_is_bounded_too(server: Server) -> None:
    with Wire(server.connect()) as wire:
        wire.send(request_bytes("GET", "/healthz"))
        assert wire.answer().status == 200
        began = time.monotonic()
        wire.send(b"GET /healthz HT")
        wire.read_to_end()
    assert time.monotonic() - began < HEADER_S + SLACK_S


@pytest.mark.parametrize("sent", [b'{"jsonrpc":"2.0",', b"byte by byte"])
@pytest.mark.parametrize("length", [{"Content-Length": "1000"}, {"Transfer-Encoding": "chunked"}])
def test_a_body_that_is_never_finished(length: dict[str, str], sent: bytes, server: Server) -> None:
    began = time.monotonic()
    with Wire(server.connect()) as wire:
        wire.send(request_bytes("POST", "/mcp", {**JSON, **length}))
        piece = b" " if "Content-Length" in length else b"1\r\n \r\n"
        if sent == b"byte by byte":
            wire.socket.settimeout(0.1)
            while not wire.has_more() and time.monotonic() - began < BODY_S + SLACK_S:
                wire.send(piece)
        else:
            wire.send(sent if "Content-Length" in length else b"11\r\n%s\r\n" % sent)
        answer = wire.answer()
        assert answer.status == 408, answer
        assert answer.json["error"]["code"] == -32600
        assert answer.headers["connection"] == "close"
        wire.read_to_end()
    assert BODY_S * 0.9 <= time.monotonic() - began < BODY_S + SLACK_S


@pytest.mark.parametrize("field", [b"x" * 100_000, b"X: y\r\n" * 16_000])
@pytest.mark.parametrize("is_behind", [False, True], ids=["alone", "behind a request that waits"])
def test_an_endless_header_takes_no_memory(
    field: bytes, is_behind: bool, server: Server, tmp_path: Path
) -> None:
    client = Modern(server)
    task_id = client.create("hold", gate=str(tmp_path / "gate"))
    tag = client.get(f"/tasks/{task_id}").headers["etag"]
    poll = client.get_bytes(f"/tasks/{task_id}/poll", {"If-None-Match": tag})
    before = server.rss_bytes()
    most = before
    with Wire(server.connect()) as wire:
        wire.send(poll if is_behind else b"")
        wire.send(b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        try:
            for _ in range(300):
                wire.send(field)
                most = max(most, server.rss_bytes())
        except ConnectionError:
            pass
    assert most - before < 10_000_000
    (tmp_path / "gate").touch()


@pytest.mark.parametrize(
    "readers", [9, pytest.param(45, marks=[pytest.mark.slow, pytest.mark.faults])]
)
def test_slow_readers_are_cut_off_and_delay_no_other_client(readers: int, tmp_path: Path) -> None:
    measured = measure(tmp_path, readers)
    assert measured.complaints() == [], measured
