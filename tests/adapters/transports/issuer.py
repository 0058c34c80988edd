"""An authorization server with real keys, tokens of every kind, and a key set at a URL."""

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import attrs
import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from taskmachine.adapters.transports.auth.bearer_tokens import Unauthorized
from taskmachine.adapters.transports.auth.key_sources import decode_key_set

ISSUER = "https://issuer.example"
AUDIENCE = "https://tasks.example/mcp"


@cache
def private_key(kid: str) -> Any:
    """Return the key of a name such as `rsa` or `p256-other`, created at its first use."""
    match kid.partition("-")[0]:
        case "rsa":
            return rsa.generate_private_key(65537, 2048)
        case "weak":
            return rsa.generate_private_key(65537, 1024)
        case "p256":
            return ec.generate_private_key(ec.SECP256R1())
        case "k256":
            return ec.generate_private_key(ec.SECP256K1())
        case "p384":
            return ec.generate_private_key(ec.SECP384R1())
        case "p521":
            return ec.generate_private_key(ec.SECP521R1())
        case "ed25519":
            return ed25519.Ed25519PrivateKey.generate()
    raise AssertionError(kid)


def jwk(name: str, /, **more: Any) -> dict[str, Any]:
    public = private_key(name).public_key()
    kinds: list[tuple[type, Any]] = [
        (rsa.RSAPublicKey, RSAAlgorithm),
        (ec.EllipticCurvePublicKey, ECAlgorithm),
        (ed25519.Ed25519PublicKey, OKPAlgorithm),
    ]
    [algorithm] = [algorithm for kind, algorithm in kinds if isinstance(public, kind)]
    found: dict[str, Any] = algorithm.to_jwk(public, as_dict=True)
    found.pop("key_ops", None)
    return {**found, "kid": name, **more}


def document(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def now_s() -> int:
    return int(time.time())


def claims(**changes: Any) -> dict[str, Any]:
    """Return the claims of a valid token with changes; None removes a claim."""
    right = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now_s() + 86_400}
    return {name: value for name, value in {**right, **changes}.items() if value is not None}


def token(
    kid: str = "ed25519",
    algorithm: str = "EdDSA",
    headers: dict[str, Any] | None = None,
    **changes: Any,
) -> str:
    headers = {"kid": kid} if headers is None else headers
    return jwt.encode(claims(**changes), private_key(kid), algorithm, headers)


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unsigned(header: dict[str, Any], **changes: Any) -> str:
    """Return header and payload of a token without a signature."""
    return f"{b64(json.dumps(header).encode())}.{b64(json.dumps(claims(**changes)).encode())}"


@attrs.define
class FixedKeys:
    """Keys that a test sets."""

    keys: Collection[jwt.PyJWK]
    renewals: int = 0

    @classmethod
    def of(cls, *keys: dict[str, Any]) -> "FixedKeys":
        return cls(decode_key_set(document(*keys)))

    async def current(self) -> Collection[jwt.PyJWK]:
        return self.keys

    async def renewed(self) -> Collection[jwt.PyJWK]:
        self.renewals += 1
        return self.keys


@attrs.define
class KeyServer:
    body: bytes = b""
    status: str = "200 OK"
    headers: str = ""
    requests: int = 0
    sent: int = 0
    url: str = ""
    gate: asyncio.Event = attrs.field(factory=asyncio.Event)
    asked: asyncio.Event = attrs.field(factory=asyncio.Event)
    answering: set[asyncio.Task[None]] = attrs.field(factory=set)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.answering.add(task)
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            self.asked.set()
            await self.gate.wait()
            head = f"HTTP/1.1 {self.status}\r\n{self.headers}Connection: close\r\n\r\n"
            writer.write(head.encode())
            for start in range(0, len(self.body), 65_536):
                writer.write(self.body[start : start + 65_536])
                await writer.drain()
                self.sent += len(self.body[start : start + 65_536])
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has disconnected
        finally:
            writer.close()

    async def finished(self) -> None:
        """Open the gate and wait until all connections are closed."""
        self.gate.set()
        if self.answering:
            _, late = await asyncio.wait(self.answering, timeout=5)
            assert not late


@asynccontextmanager
async def key_server(
    *keys: dict[str, Any], certificate: Path | None = None
) -> AsyncIterator[KeyServer]:
    """Serve a key set on a free local port, with TLS if a certificate is given."""
    server = KeyServer(document(*keys))
    server.gate.set()
    tls = None
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    async with await asyncio.start_server(server.answer, "127.0.0.1", 0, ssl=tls) as listening:
        port = listening.sockets[0].getsockname()[1]
        server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/keys"
        yield server
        await server.finished()


def self_signed(folder: Path) -> Path:
    """Write a certificate for this host and its key into one file."""
    key = private_key("p256-tls")
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    host = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(host, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = folder / "certificate.pem"
    path.write_bytes(pem + certificate.public_bytes(Encoding.PEM))
    return path


def reason(error: Unauthorized) -> tuple[int, str | None, str]:
    return error.status, error.error, error.description
