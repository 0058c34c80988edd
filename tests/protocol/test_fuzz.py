"""Hostile input by the thousands: a message or a clean error, never anything else."""

import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from taskmachine.protocol import DIALECTS, Dialect
from taskmachine.protocol.jsonrpc import (
    ErrorResponse,
    Notification,
    Request,
    ResultResponse,
    decode_message,
)
from taskmachine.statemachine import TaskmachineError
from tests.protocol.messages import SAMPLES, Sample
from tests.protocol.test_messages import encode
from tests.seed import SEED

ROUNDS = 10_000


def outcomes(data: bytes) -> Iterator[str]:
    """Decode these bytes and everything inside; any unexpected exception fails the test."""
    try:
        message = decode_message(data)
    except TaskmachineError as error:
        yield type(error).__name__
        return
    for dialect in (entry.messages for entry in DIALECTS.values()):
        match message:
            case Request():
                yield attempt(dialect, partial(dialect.decode_request, message))
                yield attempt(dialect, partial(dialect.decode_request, message, sender="server"))
            case Notification():
                yield attempt(dialect, partial(dialect.decode_notification, message))
            case ResultResponse():
                for method in dialect.methods:
                    yield attempt(dialect, partial(dialect.decode_result, method, message))
            case ErrorResponse():
                yield "ErrorResponse"


def attempt(dialect: Dialect, decode: Callable[[], object]) -> str:
    try:
        decode()
    except TaskmachineError as error:
        refused = error
    else:
        return "decoded"
    answer = dialect.encode_error(1, refused).error
    assert answer.message
    assert -32768 <= answer.code <= -32000
    return type(refused).__name__


def valid_messages() -> list[bytes]:
    return [encode(sample, message) for sample in SAMPLES for message in examples(sample)]


def examples(sample: Sample) -> list[object]:
    found: list[object] = []

    @settings(
        max_examples=3,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(sample.messages)
    def collect(message: object) -> None:
        found.append(message)

    collect()
    return found


def test_random_bytes() -> None:
    chance = random.Random(SEED)
    alphabet = b'{}[]",:\\u0123456789-+.eE truefalsn\x00\xff\xed\xa0jsonrpcidmethodparams'
    seen: set[str] = set()
    for _ in range(ROUNDS):
        length = chance.randrange(1, 60)
        data = (
            chance.randbytes(length)
            if chance.random() < 0.3
            else bytes(chance.choices(alphabet, k=length))
        )
        seen.update(outcomes(data))
    assert seen == {"MalformedMessage"}, f"seed {SEED}"


TOKENS = [b"null", b"true", b"0", b"-1", b"1.5", b"1e400", b'""', b'"x"', b"[]", b"{}", b"NaN"]


def mutate(data: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data = data[:at] + chance.randbytes(1) + data[at + 1 :]
            case 1:
                data = data[:at] + data[at + chance.randrange(1, 20) :]
            case 2:
                data = data[:at] + data[at : at + 20] * chance.randrange(2, 4) + data[at + 20 :]
            case _:  # another value behind a colon
                colons = [i for i, byte in enumerate(data) if byte == ord(":")]
                if colons:
                    start = chance.choice(colons) + 1
                    stops = [data.find(stop, start) for stop in (b",", b"}")]
                    stop = min((s for s in stops if s > 0), default=start)
                    data = data[:start] + chance.choice(TOKENS) + data[stop:]
    return data


def test_mutated_messages() -> None:
    chance = random.Random(SEED)
    pool = valid_messages()
    seen: set[str] = set()
    for _ in range(ROUNDS):
        seen.update(outcomes(mutate(chance.choice(pool), chance)))
    assert {"decoded", "MalformedMessage", "InvalidParams", "InvalidResult"} <= seen, f"seed {SEED}"


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":' + tail
        for tail in (
            b'"' + b"x" * 1_000_000 + b'"}}',
            b"[" * 1_000_000,
            b"1" * 1_000_000 + b"}}",
            b'"' + b"\\u00e9" * 160_000 + b'"}}',
            b'"a"' + b',"k":0' * 160_000 + b"}}",
            b"[" + b"{}," * 300_000 + b"{}]}}",
        )
    ],
    ids=["long text", "brackets", "digits", "escapes", "duplicate keys", "many objects"],
)
def test_a_megabyte_of_malice(data: bytes) -> None:
    assert list(outcomes(data))
