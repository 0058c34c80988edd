"""A generator of malformed messages and requests, determined by a seed."""

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import attrs

from tests.wire_faults.clients import meta
from tests.wire_faults.wire import BOTH, request_bytes

__all__ = ["Garbage", "Sent"]

JSON = dict[str, Any]
T = TypeVar("T")


@attrs.frozen
class Sent:
    """Bytes to send; `is_http` if they form one complete HTTP request, however wrong otherwise."""

    data: bytes
    is_http: bool = True


_TEXTS: Final = (
    "", "x", "null", "2026-07-28", "\x00", "\n", "../../etc/passwd", "' OR 1=1 --", "${jndi:x}",
    "\U0001f4a9", "\u202e", "A" * 300, "A" * 5_000, "\r\nX-Injected: yes", "=?base64?!?=", "\ud800",
)  # fmt: skip
_NUMBERS: Final = (
    0, -1, 1.5, 2**31, 2**53, 2**64, -(2**63) - 1, 10**300, 10**4_000, 1e308, -0.0, 5e-324,
)  # fmt: skip
_METHODS: Final = (
    "initialize", "ping", "tools/list", "tools/call", "tasks/get", "tasks/result", "tasks/cancel",
    "tasks/list", "tasks/update", "subscriptions/listen", "server/discover", "tools/undo", "",
    "notifications/initialized", "notifications/cancelled", "elicitation/create", "__init__",
)  # fmt: skip
_RAW: Final = (
    b"", b"{", b"}", b"[]", b"[[", b"null", b"true", b'"', b'"\\ud800"', b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"{}{}", b'{"a":1,}', b"{'a':1}", b"NaN", b"1e99999", b"-", b"01", b"\x00",
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"pong"}', b"<xml/>", b"a=b&c=d",
)  # fmt: skip
_MEDIA: Final = (
    "", "text/plain", "application/xml", "application/json;charset=utf-16", "*/*", ";", ",,,",
    "application/json, text/event-stream", "text/event-stream", "multipart/form-data; boundary=x",
)  # fmt: skip
_HEADERS: Final = (
    "Content-Type", "Accept", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "MCP-Session-Id",
    "Origin", "Host", "Authorization", "Last-Event-ID", "Mcp-Param-Region", "Expect", "Upgrade",
    "Connection", "Cookie", "X-Forwarded-For", "If-None-Match", "Transfer-Encoding",
)  # fmt: skip
_PATHS: Final = (
    "/mcp", "/mcp/", "//mcp", "/mcp?x=y", "/mcp#x", "/%6dcp", "/MCP", "/", "/tasks", "/tasks/",
    "/tasks/x", "/tasks/x/poll?timeout=0", "/tasks/x/poll?timeout=x&timeout=y", "/tasks/%00/events",
    "/tasks/%ff%fe", "/tasks/..%2f..%2f/poll", "/tasks/" + "x" * 3_000, "/healthz", "/openapi.json",
    "/.well-known/oauth-protected-resource/mcp", "/tasks/x/events/x", "/%", "/%zz", "/a b",
)  # fmt: skip
_BROKEN: Final = (
    b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    b"GET /mcp HTTP/1.1\nHost: x\n\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"GET http://127.0.0.1/mcp HTTP/1.1\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nHost : x\r\n\r\n", b"GET /mcp HTTP/1.1\r\n folded: x\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"POST /mcp HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"\x00" * 100,
    b"POST /mcp HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nX\x00: y\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"GET /mcp HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
)  # fmt: skip


class Garbage:
    """Generates messages and requests."""

    def __init__(self, seed: int, session_id: str = "x" * 43) -> None:
        self._chance = random.Random(seed)
        self._session_id = session_id

    def message(self) -> bytes:
        """Return a line that should be one JSON-RPC message."""
        kind = self._chance.randrange(8)
        if kind == 0:
            return self._pick(_RAW)
        if kind == 1:
            depth = self._pick((100, 127, 129, 1_000, 50_000))
            return self._pick((b"[", b'{"a":')) * depth + b"1" + b"]" * self._pick((0, depth))
        if kind == 2:
            return self._corrupted(_encoded(self._valid()))
        if kind == 3:
            digits = b"9" * self._pick((20, 400, 5_000))
            return b'{"jsonrpc":"2.0","id":%s,"method":"tools/list","params":{}}' % digits
        return _encoded(self._mutated(self._valid()))

    def request(self) -> Sent:
        """Return bytes that should be one HTTP request."""
        makers: tuple[Callable[[], Sent], ...] = (
            self._bad_body, self._bad_body, self._bad_body, self._bad_headers, self._bad_headers,
            self._bad_path, self._in_session, self._broken, self._pipelined, self._injected,
        )  # fmt: skip
        return self._pick(makers)()

    # --- HTTP --------------------------------------------------------------------------------

    def _headers(self) -> dict[str, str]:
        return {
            "Content-Type": "application/json",
            "Accept": BOTH,
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": self._pick(_METHODS),
            "Mcp-Name": self._pick(("greet", "x")),
        }

    def _bad_body(self) -> Sent:
        if self._chance.random() < 0.01:
            return Sent(request_bytes("POST", "/mcp", self._headers(), b" " * 300_000))
        if self._chance.random() < 0.3:
            return Sent(request_bytes("POST", "/mcp", self._headers(), self.message()))
        message = self._mutated(
            self._valid()
        )  # with matching headers, to get past their validation
        headers = self._headers() | _routing_headers(message)
        return Sent(request_bytes("POST", "/mcp", headers, _encoded(message)))

    def _bad_headers(self) -> Sent:
        headers = self._headers()
        for _ in range(self._chance.randint(1, 4)):
            name = self._pick(_HEADERS)
            values = (
                *_MEDIA,
                "x" * 9_000,
                "\xff\xfe",
                "keep-alive, close",
                "2025-11-25",
                "100-continue",
            )
            headers[name] = self._pick(values)
        dropped = self._pick((*headers, ""))
        pairs = [(name, value) for name, value in headers.items() if name != dropped]
        if self._chance.random() < 0.3:
            pairs.append(self._pick(pairs))
        # Some headers change the framing of the request or the connection.
        framing = {"Transfer-Encoding", "Connection", "Upgrade", "Expect"} & headers.keys()
        body = _encoded(self._valid())
        return Sent(request_bytes("POST", "/mcp", pairs, body), not framing)

    def _bad_path(self) -> Sent:
        methods = (
            "GET",
            "HEAD",
            "POST",
            "PUT",
            "DELETE",
            "OPTIONS",
            "PATCH",
            "TRACE",
            "BREW",
            "get",
        )
        method, path = self._pick(methods), self._pick(_PATHS)
        body = self.message() if method in ("POST", "PUT") else None
        # A space or an unknown method is not HTTP; a response to HEAD has no body.
        whole = " " not in path and "#" not in path and method not in ("HEAD", "BREW", "get")
        return Sent(request_bytes(method, path, self._headers(), body), whole and "%zz" not in path)

    def _in_session(self) -> Sent:
        headers = self._headers() | {"MCP-Protocol-Version": "2025-11-25"}
        headers["MCP-Session-Id"] = self._pick((self._session_id, "x", "", "y" * 5_000, "\xe9"))
        method = self._pick(("POST", "POST", "POST", "GET"))
        if method == "GET":
            headers["Accept"] = "text/event-stream"
            ids = (
                ".",
                "x.1",
                "1",
                ".5",
                "gAAAAAAA.0",
                "x" * 5_000 + ".9",
                "\xb2.\xb2",
                "a.99999999999",
            )
            headers["Last-Event-ID"] = self._pick(ids)
            return Sent(request_bytes("GET", "/mcp", headers))
        return Sent(request_bytes("POST", "/mcp", headers, self.message()))

    def _broken(self) -> Sent:
        data = self._pick(_BROKEN)
        if self._chance.random() < 0.3:
            data = self._corrupted(request_bytes("POST", "/mcp", self._headers(), b"{}"))
        return Sent(data, False)

    def _pipelined(self) -> Sent:
        several = [self._pick((self._bad_body, self._bad_path, self._broken))() for _ in range(3)]
        return Sent(b"".join(sent.data for sent in several), False)

    def _injected(self) -> Sent:
        attack = self._pick(
            ("x\r\nX-Injected: yes", "x\nX-Injected: yes", "x\rX-Injected: yes", "\x0b")
        )
        headers = self._headers() | {self._pick(_HEADERS): attack}
        return Sent(request_bytes("POST", "/mcp", headers, _encoded(self._valid())), False)

    # --- JSON-RPC ----------------------------------------------------------------------------

    def _valid(self) -> JSON:
        """Return a nearly valid message, which creates no task and rarely a session."""
        method = self._pick(_METHODS)
        params: JSON = {"_meta": meta()} if self._chance.random() < 0.7 else {}
        if method == "tools/call":
            params |= {"name": "greet", "arguments": {"name": "you"}}
        elif method == "initialize":
            info = {"name": "x", "version": "0"}
            params |= {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        elif method == "subscriptions/listen":
            params |= {"notifications": {"taskIds": ["x", "y"]}}
        elif method == "notifications/cancelled":
            params |= {"requestId": 1, "reason": "x"}
        elif method.startswith("tasks/"):
            params |= {
                "taskId": "x" * 22,
                "cursor": "x",
                "inputResponses": {"k": {"action": "accept"}},
            }
        message: JSON = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            message["id"] = self._chance.randrange(10**6)
        if self._chance.random() < 0.1:
            del message["method"], message["params"]
            message[self._pick(("result", "error"))] = self._junk()
        return message

    def _mutated(self, message: JSON) -> JSON:
        """Replace, add or delete one to three members."""
        message = copy.deepcopy(message)
        for _ in range(self._chance.randint(1, 3)):
            place: Any = message
            while True:
                key = self._pick(tuple(place))
                if isinstance(place[key], dict) and place[key] and self._chance.random() < 0.7:
                    place = place[key]
                    continue
                break
            action = self._chance.randrange(4)
            if action == 0 and len(place) > 1:
                del place[key]
            elif action == 1:
                place[self._pick(_TEXTS)] = self._junk()
            else:
                place[key] = self._junk()
        return message

    def _junk(self) -> Any:
        kinds: tuple[Any, ...] = (
            None, True, False, self._pick(_TEXTS), self._pick(_NUMBERS), [], {}, [[]], [None] * 50,
            {"": {}}, {"a": self._pick(_TEXTS)}, [self._pick(_NUMBERS)], {"__proto__": {}},
        )  # fmt: skip
        return self._pick(kinds)

    def _corrupted(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._chance.randint(1, 6)):
            at = self._chance.randrange(len(changed) + 1)
            match self._chance.randrange(4):
                case 0:
                    changed[at:at] = self._chance.randbytes(self._chance.randint(1, 4))
                case 1:
                    del changed[at : at + self._chance.randint(1, 9)]
                case 2:
                    changed[at : at + 1] = self._chance.randbytes(1)
                case _:
                    changed = changed[: at + 1] if self._chance.random() < 0.2 else changed
        return bytes(changed)

    def _pick(self, values: Sequence[T]) -> T:
        return self._chance.choice(values)


def _routing_headers(message: JSON) -> dict[str, str]:
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    said = params.get("_meta")
    version = (
        said.get("io.modelcontextprotocol/protocolVersion") if isinstance(said, dict) else None
    )
    fields = {
        "Mcp-Method": message.get("method"),
        "Mcp-Name": params.get("name", params.get("taskId")),
        "MCP-Protocol-Version": version,
    }
    return {
        name: value
        for name, value in fields.items()
        if isinstance(value, str) and value.isascii() and value.isprintable()
    }


def _encoded(value: JSON) -> bytes:
    return json.dumps(value, allow_nan=True).encode()
