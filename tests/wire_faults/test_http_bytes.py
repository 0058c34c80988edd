"""Each kind of bad or unusual HTTP: status, message, and whether the connection stays open."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from tests.wire_faults.clients import Modern, meta
from tests.wire_faults.server_process import Server, serving
from tests.wire_faults.wire import BOTH, Wire

ALICE: Final = "the-token-of-alice-in-these-tests-0123456789"
BOB: Final = "the-token-of-bob-in-these-tests-0123456789"

CHUNKED: Final = "Transfer-Encoding: chunked"
H2C: Final = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
)
"""The HTTP/2 upgrade that Java's HttpClient offers with the first request of a connection."""

LATENCY_S: Final = 1.0
"""Bound for other callers during an attack."""
COST_S: Final = 0.25
"""Bound for the processor time of a refused request of 16 MB and a few served ones."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    tokens = folder / "tokens.toml"
    tokens.touch(0o600)
    tokens.write_text(f'alice = "{ALICE}"\nbob = "{BOB}"\n')
    with serving(folder, auth={"kind": "tokens", "tokens": str(tokens)}) as server:
        yield server


def call(id: int, method: str = "tools/list", **params: Any) -> bytes:
    params["_meta"] = meta()
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def post(
    *more: str,
    body: bytes = call(1),
    line: str = "POST /mcp HTTP/1.1",
    host: str | None = "Host: 127.0.0.1",
    length: str | None = "",
    token: str = ALICE,
    method: str = "tools/list",
) -> bytes:
    """Return a valid request apart from the given parts; `length` None omits Content-Length."""
    lines = [
        line,
        host,
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Accept: {BOTH}",
        "MCP-Protocol-Version: 2026-07-28",
        f"Mcp-Method: {method}",
        None if length is None else length or f"Content-Length: {len(body)}",
        *more,
    ]
    head = "".join(f"{one}\r\n" for one in lines if one is not None)
    return head.encode("latin-1") + b"\r\n" + body


def chunks(*more: str, extension: bytes = b"", trailers: bytes = b"") -> bytes:
    body = call(1)
    framed = b"%x%s\r\n%s\r\n0\r\n%s\r\n" % (len(body), extension, body, trailers)
    return post(*(more or [CHUNKED]), body=framed, length=None)


def get(*more: str, line: str = "GET /healthz HTTP/1.1") -> bytes:
    return "\r\n".join((line, "Host: 127.0.0.1", *more, "", "")).encode("latin-1")


@attrs.frozen
class Row:
    """Bytes sent in one write, the expected statuses, and whether the connection stays open."""

    sent: bytes
    statuses: tuple[int, ...]
    is_open: bool = False


TABLE: Final = {
    "two hosts": Row(post("Host: 127.0.0.1"), (400,)),
    "two hosts that disagree": Row(post("Host: evil.example"), (400,)),
    "no host": Row(post(host=None), (400,)),
    "no host, HTTP/1.0": Row(post(host=None, line="POST /mcp HTTP/1.0"), (200,)),
    "two tokens": Row(post(f"Authorization: Bearer {BOB}"), (400,)),
    "two sessions": Row(post("Mcp-Session-Id: a", "MCP-SESSION-ID: b"), (400,)),
    "two versions": Row(post("MCP-Protocol-Version: 2025-11-25"), (400,)),
    "two methods": Row(post("Mcp-Method: tools/call"), (400,)),
    "two origins": Row(post("Origin: http://localhost", "Origin: http://127.0.0.1"), (400,)),
    "two content types": Row(post("Content-Type: text/plain"), (400,)),
    "two headers that may be a list": Row(
        post("Accept: */*", "X: 1", "X: 2"), (200,), is_open=True
    ),
    "length and chunks": Row(post(CHUNKED), (400,)),
    "two lengths": Row(post("Content-Length: 3"), (400,)),
    "the same length twice": Row(post(f"Content-Length: {len(call(1))}"), (400,)),
    "a length that is negative": Row(post(length="Content-Length: -1"), (400,)),
    "chunks": Row(chunks(), (200,), is_open=True),
    "a trailer": Row(chunks(trailers=b"Checksum: 1\r\n"), (200,), is_open=True),
    "a trailer for the framing": Row(chunks(trailers=b"Content-Length: 9\r\n"), (400,)),
    "an extension of a chunk": Row(chunks(extension=b";name=value"), (200,), is_open=True),
    "a chunk that is too long": Row(
        post(CHUNKED, body=b"1\r\n{}\r\n0\r\n\r\n", length=None), (400,)
    ),
    "a chunk without a size": Row(post(CHUNKED, body=b"\r\n{}\r\n", length=None), (400,)),
    "compressed chunks": Row(chunks("Transfer-Encoding: gzip, chunked"), (501,)),
    "chunks with identity coding": Row(chunks("Transfer-Encoding: identity", CHUNKED), (400,)),
    "HTTP/0.9": Row(b"GET /healthz\r\n\r\n", (505,)),
    "HTTP/0.9 with headers": Row(get(line="GET /healthz HTTP/0.9"), (505,)),
    "HTTP/1.2": Row(get(line="GET /healthz HTTP/1.2"), (400,)),
    "HTTP/2.0": Row(get(line="GET /healthz HTTP/2.0"), (505,)),
    "HTTP/2 with prior knowledge": Row(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", (400,)
    ),
    "TLS": Row(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", (400,)),
    "an offer of HTTP/2": Row(post(*H2C), (200,), is_open=True),
    "an offer of HTTP/2, chunks": Row(chunks(*H2C, CHUNKED), (200,), is_open=True),
    "an offer of HTTP/2, and then more": Row(
        post(*H2C) + post(body=call(2)) + post(*H2C, body=call(3)), (200, 200, 200), is_open=True
    ),
    "an offer of HTTP/2 by two hosts": Row(post(*H2C, "Host: evil.example"), (400,)),
    "an offer of WebSocket": Row(
        get("Connection: Upgrade", "Upgrade: websocket"), (200,), is_open=True
    ),
    "a tunnel": Row(get(line="CONNECT 127.0.0.1:80 HTTP/1.1"), (400,)),
    "a folded header": Row(post("X: a\r\n b"), (400,)),
    "a folded token": Row(post(token=f"\r\n {ALICE}"), (400,)),
    "bare LF": Row(get().replace(b"\r\n", b"\n"), (400,)),
    "bare LF between headers": Row(post("X: a\nY: b"), (400,)),
    "bare CR between headers": Row(post("X: a\rY: b"), (400,)),
    "a space before the colon": Row(post("X : a"), (400,)),
    "a header without a name": Row(post(": a"), (400,)),
    "NUL in a header": Row(post("X: a\0b"), (400,)),
    "NUL in the target": Row(get(line="GET /health\0z HTTP/1.1"), (400,)),
    "a target that is not ASCII": Row(get(line="GET /health\xffz HTTP/1.1"), (400,)),
    "too many headers": Row(post(*["X: y"] * 20_000), (400,)),
    "a header that is too large": Row(post("X: " + "y" * 70_000), (400,)),
    "a target that is too long": Row(get(line=f"GET /{'y' * 70_000} HTTP/1.1"), (400,)),
    "a client that waits for 100": Row(post("Expect: 100-continue"), (200,), is_open=True),
    "an absolute target": Row(
        post(line="POST http://127.0.0.1/mcp HTTP/1.1"), (200,), is_open=True
    ),
    "empty lines before": Row(b"\r\n\r\n" + post(), (200,), is_open=True),
    "three at once": Row(
        b"".join(post(body=call(n)) for n in (1, 2, 3)), (200, 200, 200), is_open=True
    ),
    "the last one, and another": Row(post("Connection: close") + post(body=call(2)), (200,)),
    "a good one, and garbage": Row(post() + b"garbage\r\n\r\n", (200,)),
    "a good one, and two hosts": Row(post() + post("Host: x") + post(), (200, 400)),
}


@pytest.mark.parametrize("name", TABLE)
def test_bytes_get_their_answer(name: str, server: Server) -> None:
    row = TABLE[name]
    with Wire(server.connect()) as wire:
        _send(wire, row.sent)
        for number, status in enumerate(row.statuses, 1):
            answer = wire.answer()
            assert answer.status == status, answer
            if status != 200:
                assert len(answer.body) > 10, "an error has a message"
                assert answer.headers["connection"] == "close"
            elif b"/healthz" not in row.sent:
                assert answer.json["id"] == number
                assert answer.json["result"]["tools"]
        if row.is_open:
            wire.send(post(body=call(7)))
            assert wire.answer().json["id"] == 7
        else:
            assert not _rest(wire), "nothing is answered after that"
    assert Modern(server, ALICE).ask("tools/list")["result"]["tools"], "other clients are served"


def _send(wire: Wire, data: bytes) -> None:
    with suppress(ConnectionError):  # the server may refuse it before all is sent
        wire.send(data)


def _rest(wire: Wire) -> bytes:
    try:
        return wire.answer().body
    except (EOFError, ConnectionError):
        return b""


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_an_offer_of_http2_may_come_in_pieces(piece: int, server: Server) -> None:
    sent = post(*H2C) + post(body=call(2))
    with Wire(server.connect()) as wire:
        for at in range(0, len(sent), piece):
            wire.send(sent[at : at + piece])
        assert [wire.answer().json["id"] for _ in range(2)] == [1, 2]


# --- trailers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("header", "trailer"), [(ALICE, BOB), (BOB, ALICE)])
def test_a_token_in_a_trailer_changes_no_owner(
    header: str, trailer: str, server: Server, tmp_path: Path
) -> None:
    task_id = Modern(server, ALICE).create("hold", gate=str(tmp_path / "gate"))
    body = call(1, "tasks/get", taskId=task_id)
    trailers = b"Authorization: Bearer %s\r\n" % trailer.encode()
    framed = b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailers)
    named = f"Mcp-Name: {task_id}"
    with Wire(server.connect()) as wire:
        wire.send(post(CHUNKED, named, body=framed, length=None, token=header, method="tasks/get"))
        answer = wire.answer().json
    assert ("result" in answer) == (header == ALICE), answer
    (tmp_path / "gate").touch()


PADDED: Final = call(1) + b" " * 3_000_000
FIRST: Final = b"%x\r\n%s\r\n" % (len(PADDED), PADDED)

BOMBS: Final = {
    "trailers": FIRST + b"0\r\n" + b"a:\r\n" * 4_000_000 + b"\r\n",
    "one huge trailer": FIRST + b"0\r\na: " + b"b" * 16_000_000 + b"\r\n\r\n",
    "one huge extension": b"1;a=" + b"b" * 16_000_000 + b"\r\n{\r\n0\r\n\r\n",
    "extensions": b"1;abcdefghijklmnopqrstuvwxyz=0\r\n \r\n" * 400_000 + b"0\r\n\r\n",
    "a huge header": b"",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_and_delays_no_other_client(name: str, server: Server) -> None:
    more = ("X: " + "y" * 16_000_000,) if name == "a huge header" else ()
    sent = post(CHUNKED, *more, body=BOMBS[name], length=None)
    statuses: list[int] = []

    def explode() -> None:
        with Wire(server.connect()) as wire:
            _send(wire, sent)
            try:
                statuses.append(wire.head()[0])
            except (EOFError, ConnectionError):  # the response is lost if more data is sent
                statuses.append(0)

    exploding = threading.Thread(target=explode)
    before, latencies = server.cpu_s(), list[float]()
    exploding.start()
    other = Modern(server, ALICE)
    while exploding.is_alive() or not latencies:
        asked = time.monotonic()
        other.ask("tools/list")
        latencies.append(time.monotonic() - asked)
    exploding.join()
    assert statuses in ([400], [0])
    assert max(latencies) < LATENCY_S
    assert server.cpu_s() - before < COST_S


def test_chunks_of_one_byte_are_accepted(server: Server) -> None:
    body = call(1) + b" " * 100_000
    framed = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    with Wire(server.connect()) as wire:
        wire.send(post(CHUNKED, body=framed, length=None))
        assert wire.answer().json["id"] == 1
