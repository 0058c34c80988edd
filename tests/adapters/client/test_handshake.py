"""Which revision the client uses with which server."""

import json
from typing import Any

import pytest

from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.errors import CallFailed, ConnectionLost, Refused
from taskmachine.protocol.errors import UnsupportedVersion
from taskmachine.statemachine import ConfigurationError
from tests.adapters.client.scripted import (
    DISCOVERED,
    INITIALIZED,
    Exchange,
    legacy,
    modern,
    serving,
)
from tests.adapters.memory_service import run
from tests.requirements import covers


async def nothing(exchange: Exchange) -> None:
    raise AssertionError(exchange.what)


def error(code: int, data: Any = None) -> str:
    more = {} if data is None else {"data": data}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no", **more}})


def supported(*versions: str) -> str:
    return error(-32022, {"supported": versions, "requested": "2026-07-28"})


def meet(status: int, body: str, kind: str = "application/json") -> tuple[str, list[str]]:
    """Connect to a server with this first answer; return the revision and the requests."""

    async def script(exchange: Exchange) -> None:
        if exchange.what == "server/discover":
            await exchange.reply(status, body, kind)
        else:
            await legacy(nothing)(exchange)

    async def main() -> tuple[str, list[str]]:
        async with serving(script) as server:
            async with connect(server.url) as session:
                spoken = session.server.generation
            return spoken, [exchange.what for exchange in server.seen]

    return run(main())


@covers(
    "2025-11-25:initialize-sent-by-client",
    "2025-11-25:initialized-sent",
    "2026-07-28:stdio-fallback-any-error",
    "2026-07-28:http-era-probe",
)
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, "", "text/plain"),
        (400, "not JSON", "application/json"),
        (400, error(-32600), "application/json"),
        (400, error(-32000), "application/json"),
        (404, "<h1>Not Found</h1>", "text/html"),
        (405, "", "text/plain"),
        (406, error(-32600), "application/json"),
        (200, error(-32601), "application/json"),
        (200, error(-32602), "application/json"),
        (200, '{"jsonrpc":"2.0","id":1,"result":{}}', "application/json"),
        (400, supported("2025-11-25", "2025-06-18"), "application/json"),
    ],
)
def test_client_falls_back_to_initialize_when_discover_gets_no_modern_answer(
    status: int, body: str, kind: str
) -> None:
    spoken, sent = meet(status, body, kind)
    assert spoken == "2025-11-25"
    assert sent[:3] == ["server/discover", "initialize", "notifications/initialized"]


def test_a_server_that_supports_only_the_other_version_gets_the_handshake() -> None:
    result = {**DISCOVERED, "supportedVersions": ["2025-11-25"]}
    spoken, _ = meet(200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}))
    assert spoken == "2025-11-25"


def test_an_unknown_method_with_404_is_modern() -> None:
    spoken, sent = meet(404, error(-32601))
    assert (spoken, sent) == ("2026-07-28", ["server/discover"])


@covers("2026-07-28:http-400-body-inspected")
@pytest.mark.parametrize(
    ("status", "body", "raised", "words"),
    [
        (400, error(-32020), CallFailed, "-32020"),
        (400, error(-32021), CallFailed, "-32021"),
        (400, error(-32022), CallFailed, "-32022"),
        (400, supported("2027-01-01"), UnsupportedVersion, "2027-01-01"),
        (401, "", Refused, "HTTP 401"),
        (403, "", Refused, "HTTP 403"),
        (503, "", Refused, "HTTP 503"),
    ],
)
def test_error_that_a_handshake_cannot_solve_is_raised(
    status: int, body: str, raised: type[Exception], words: str
) -> None:
    with pytest.raises(raised, match=words):
        meet(status, body)


@pytest.mark.parametrize("generation", ["2025-11-25", "2026-07-28"])
async def test_a_generation_can_be_demanded(generation: str) -> None:
    script = legacy if generation == "2025-11-25" else modern
    async with serving(script(nothing)) as server:
        async with connect(server.url, generation=generation) as session:
            assert session.server.generation == generation
        first = "initialize" if generation == "2025-11-25" else "server/discover"
        assert server.seen[0].what == first


async def test_client_rejects_an_unknown_revision() -> None:
    with pytest.raises(ConfigurationError, match="'2024-11-05': use 2026-07-28 or 2025-11-25"):
        async with connect("http://127.0.0.1:1/", generation="2024-11-05"):
            raise AssertionError("connected")


@covers("2025-11-25:client-disconnects-on-version")
async def test_a_server_of_an_older_revision_is_left() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.what == "initialize":
            await exchange.result({**INITIALIZED, "protocolVersion": "2024-11-05"})
        else:
            await legacy(nothing)(exchange)

    with pytest.raises(UnsupportedVersion, match="2024-11-05"):
        async with serving(script) as server, connect(server.url):
            raise AssertionError("connected")


@covers(
    "2025-11-25:initialize-sent-by-client",
    "2025-11-25:client-version-supported",
    "2025-11-25:client-version-latest",
)
async def test_initialize_sends_the_client_info_and_only_supported_capabilities() -> None:
    async with serving(legacy(nothing)) as server:
        async with connect(
            server.url, generation="2025-11-25", info={"name": "me", "version": "2"}
        ):
            pass
        said = server.of("initialize")[0].params
        assert said == {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "me", "version": "2"},
        }


@covers("2025-11-25:request-timeouts")
def test_a_server_that_never_answers_is_given_up() -> None:
    async def main() -> None:
        async def silent(exchange: Exchange) -> None:
            await exchange.closed.wait()

        async with serving(silent) as server, connect(server.url, timeout=0.3):
            raise AssertionError("connected")

    with pytest.raises(ConnectionLost, match=r"no answer to initialize within 0\.3 s"):
        run(main())
