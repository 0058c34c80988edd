"""New and withdrawn keys, and outages of their source."""

import asyncio
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import jwt
import pytest

from taskmachine.adapters.transports.auth.key_sources import (
    MAX_KEY_SET,
    KeyFile,
    KeysUnavailable,
    KeyUrl,
    check_address,
    decode_key_set,
)
from taskmachine.statemachine import ConfigurationError
from tests.adapters.memory_service import Clock, run
from tests.adapters.transports.issuer import document, jwk, key_server, private_key, self_signed

ONE, OTHER = jwk("ed25519"), jwk("p256")


# --- key sets --------------------------------------------------------------------------------


def kids(keys: Collection[jwt.PyJWK]) -> set[str | None]:
    return {key.key_id for key in keys}


def test_a_key_verifies_the_algorithms_of_its_type_and_alg() -> None:
    keys = decode_key_set(
        document(jwk("rsa"), jwk("rsa", kid="ps", alg="PS256"), ONE, OTHER, jwk("p384"))
    )
    assert {(key.key_id, key.algorithm_name) for key in keys} == {
        *(("rsa", name) for name in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        ("ps", "PS256"),
        ("ed25519", "EdDSA"),
        ("p256", "ES256"),
        ("p384", "ES384"),
    }


@pytest.mark.parametrize(
    "useless",
    [
        {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "secret"},
        {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "alg": "HS256"},
        jwk("rsa", use="enc"),
        jwk("rsa", alg="RSA-OAEP"),
        jwk("rsa", alg="HS256"),
        jwk("rsa", alg="none"),
        jwk("rsa", alg=["RS256"]),
        jwk("rsa", kty=["RSA"]),
        jwk("rsa", kid=7),
        jwk("rsa", n=7),
        jwk("rsa", n="*"),
        jwk("p256", x="AAAA"),
        jwk("k256"),
        jwk("k256", alg="ES256"),
        jwk("p256", crv={}),
        jwk("p256", alg="ES384"),
        jwk("ed25519", x=None),
        {"kty": "RSA", "kid": "empty"},
        {"kid": "without a kind"},
        jwk("ed25519", crv="Ed448"),
        jwk("weak"),
        "key",
        None,
    ],
)
def test_key_set_skips_keys_that_cannot_verify_signatures(useless: Any) -> None:
    [key] = decode_key_set(document(useless, ONE))
    assert key.key_id == "ed25519"
    with pytest.raises(ValueError, match="no public key"):
        decode_key_set(document(useless))


def test_of_a_private_key_only_the_public_half_is_kept() -> None:
    secret = private_key("ed25519").private_bytes_raw()
    [key] = decode_key_set(document({**ONE, "d": secret.hex()}))
    assert key.key == private_key("ed25519").public_key()


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b"7", b'{"keys": {}}', b'{"keys": []}', b"{" * 500, b"\xff"]
)
def test_an_invalid_key_set_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_key_set(text)


# --- files -----------------------------------------------------------------------------------


async def test_changed_key_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(document(ONE))
    source = KeyFile(path)

    before = await source.current()
    assert "ed25519" in kids(before)
    assert await source.current() is before
    path.write_bytes(document(OTHER))
    assert "ed25519" not in kids(await source.current())
    assert "p256" in kids(await source.renewed())


def test_a_change_of_the_same_length_is_seen_too(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(document({**ONE, "kid": "a"}))
    os.utime(path, ns=(1, 1))
    source = KeyFile(path)
    path.write_bytes(document({**ONE, "kid": "b"}))
    os.utime(path, ns=(2, 2))
    assert "b" in kids(run(source.current()))


async def test_a_broken_file_keeps_the_old_keys_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(document(ONE))
    source = KeyFile(path)

    path.write_bytes(b"{")
    for _ in range(3):
        assert "ed25519" in kids(await source.current())
    assert len(caplog.records) == 1
    path.unlink()
    for _ in range(3):
        assert "ed25519" in kids(await source.current())
    assert len(caplog.records) == 2
    path.write_bytes(document(OTHER))
    assert "p256" in kids(await source.current())


@pytest.mark.parametrize("content", [None, b"{", b"{}", document(ONE) + b" " * MAX_KEY_SET])
def test_an_unusable_file_at_the_start_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "keys.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"cannot use .*keys\.json"):
        KeyFile(path)


# --- addresses -------------------------------------------------------------------------------


async def test_concurrent_requests_share_one_fetch() -> None:
    async with key_server(ONE) as server:
        server.gate.clear()
        source = KeyUrl(server.url, Clock(0))
        waiting = [asyncio.create_task(source.current()) for _ in range(50)]
        await asyncio.wait_for(server.asked.wait(), 5)
        server.gate.set()
        found = await asyncio.wait_for(asyncio.gather(*waiting), 5)
        assert all(keys is found[0] for keys in found)
        assert await source.current() is found[0]
        assert server.requests == 1


async def test_a_cancelled_request_does_not_cancel_the_shared_fetch() -> None:
    async with key_server(ONE) as server:
        server.gate.clear()
        source = KeyUrl(server.url, Clock(0))
        leaves, stays = (asyncio.create_task(source.current()) for _ in range(2))
        await asyncio.wait_for(server.asked.wait(), 5)
        leaves.cancel()
        await asyncio.wait([leaves])
        server.gate.set()
        assert "ed25519" in kids(await asyncio.wait_for(stays, 5))
        assert leaves.cancelled()
        assert server.requests == 1


async def test_unknown_keys_cause_at_most_one_fetch_per_minute() -> None:
    clock = Clock(0)
    async with key_server(ONE) as server:
        source = KeyUrl(server.url, clock)
        await source.current()
        for _ in range(10):
            await asyncio.gather(*(source.renewed() for _ in range(10)))
        assert server.requests == 2
        clock.now += 60 - 1
        server.body = document(ONE, OTHER)
        assert "p256" not in kids(await source.renewed())
        assert server.requests == 2
        clock.now += 1
        assert "p256" in kids(await source.renewed())
        assert server.requests == 3


async def test_a_withdrawn_key_is_noticed_after_an_hour() -> None:
    clock = Clock(0)
    async with key_server(ONE, OTHER) as server:
        source = KeyUrl(server.url, clock)
        first = await source.current()
        server.body = document(OTHER)
        clock.now += 3_600 - 1
        assert await source.current() is first
        clock.now += 1
        assert "ed25519" not in kids(await source.current())
        assert server.requests == 2


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        ("500 Internal Server Error", "", document(OTHER)),
        ("404 Not Found", "", document(OTHER)),
        ("302 Found", "Location: /elsewhere\r\n", document(OTHER)),
        ("200 OK", "", b"<html>"),
        ("200 OK", "", b'{"keys": []}'),
        ("200 OK", "", json.dumps({"keys": [OTHER], "pad": " " * MAX_KEY_SET}).encode()),
        ("200 OK", "Content-Length: 100000\r\n", document(OTHER)),
        ("nonsense", "", document(OTHER)),
    ],
)
async def test_when_a_fetch_fails_the_old_keys_stay(
    status: str, headers: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(0)
    async with key_server(ONE) as server:
        source = KeyUrl(server.url, clock)
        first = await source.current()
        server.status, server.headers, server.body = status, headers, body
        assert await source.renewed() is first
        assert "cannot fetch keys" in caplog.text
        clock.now += 3_600
        assert await source.current() is first
        assert await source.current() is first
        assert server.requests == 3, "and it is not asked on every request"
        clock.now += 60
        server.status, server.headers, server.body = "200 OK", "", document(OTHER)
        assert "p256" in kids(await source.current())


async def test_a_fetch_times_out() -> None:
    async with key_server(ONE) as server:
        server.gate.clear()
        source = KeyUrl(server.url, Clock(0), timeout_s=0.05)
        with pytest.raises(KeysUnavailable):
            await asyncio.wait_for(source.current(), 5)


async def test_without_keys_requests_fail_and_the_fetch_is_retried() -> None:
    clock = Clock(0)
    async with key_server(ONE) as server:
        server.status = "503 Service Unavailable"
        source = KeyUrl(server.url, clock)
        for _ in range(3):
            with pytest.raises(KeysUnavailable) as refused:
                await source.current()
        assert server.requests == 1
        server.status = "200 OK"
        clock.now += refused.value.retry_after_ms // 1_000
        assert "ed25519" in kids(await source.current())


async def test_a_document_that_is_too_large_is_not_read_to_its_end() -> None:
    async with key_server(ONE) as server:
        server.body += b" " * 100_000_000
        with pytest.raises(KeysUnavailable):
            await asyncio.wait_for(KeyUrl(server.url, Clock(0)).current(), 5)
        await server.finished()
        assert MAX_KEY_SET < server.sent < len(server.body) // 2


async def test_the_certificate_of_an_issuer_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = self_signed(tmp_path)

    async with key_server(ONE, certificate=certificate) as server:
        assert server.url.startswith("https:")
        with pytest.raises(KeysUnavailable):
            await KeyUrl(server.url, Clock(0)).current()
        assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
        assert server.requests == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert "ed25519" in kids(await KeyUrl(server.url, Clock(0)).current())


async def test_a_refused_connection_is_logged() -> None:
    async with key_server(ONE) as server:
        pass
    with pytest.raises(KeysUnavailable):
        await KeyUrl(server.url, Clock(0)).current()


async def test_plain_http_does_not_use_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with key_server(ONE) as server, key_server(OTHER) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/keys"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert "ed25519" in kids(await KeyUrl(server.url, Clock(0)).current())
        assert proxy.requests == 0


@pytest.mark.parametrize(
    "url",
    [
        "https://issuer.example/keys",
        "HTTPS://issuer.example",
        "http://localhost:8000/keys",
        "http://127.0.0.1/keys",
        "http://[::1]:80/",
    ],
)
def test_safe_addresses(url: str) -> None:
    check_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/keys",
        "http://localhost.example/",
        "http://127.0.0.1.example/",
        "http://10.0.0.1/",
        "http://[::2]/",
        "http://[::1/",
        "https://",
        "https:///keys",
        "https://issuer.example:99999/",
        "https://issuer.example:port/",
        "https://user:password@issuer.example/",
        "https://issuer.example/a b",
        "https://issuer.example/\r\nX:y",
        "https://issuer.example/\tkeys",
        "https://íssuer.example/",
        "file:///etc/passwd",
        "ftp://issuer.example/",
        "issuer.example",
        "",
    ],
)
def test_addresses_that_are_not_safe(url: str) -> None:
    with pytest.raises(ConfigurationError):
        check_address(url)
    with pytest.raises(ConfigurationError):
        KeyUrl(url, Clock(0))
