"""Every message class: round trip, and the verdict of independent judges."""

import json
from functools import cache
from typing import Any

import mcp_types._v2025_11_25 as official_2025
import mcp_types._v2026_07_28 as official_2026
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as mcp_2026_07_28
from taskmachine.protocol.jsonrpc import (
    Notification,
    Request,
    ResultResponse,
    decode_message,
    encode_message,
)
from tests.json_schemas import values_of
from tests.oracle import REFERENCE, judge, published_judge
from tests.protocol.messages import SAMPLES, Sample

# The wire models of the official package are marked internal, yet they are the only ones that
# have the tasks of 2025-11-25.
OFFICIAL = {"2025-11-25": official_2025, "2026-07-28": official_2026}

every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=str)


def encode(sample: Sample, message: Any) -> bytes:
    dialect = sample.dialect.DIALECT
    match sample.kind:
        case "request":
            return encode_message(dialect.encode_request(7, message))
        case "notification":
            return encode_message(dialect.encode_notification(message))
        case "result":
            return encode_message(dialect.encode_response(7, message))


def decode(sample: Sample, data: bytes) -> Any:
    dialect = sample.dialect.DIALECT
    match decode_message(data):
        case Request() as request:
            assert (request.id, request.method) == (7, sample.method)
            sender = dialect.methods[sample.method].senders[0]
            return dialect.decode_request(request, sender=sender)
        case Notification() as notification:
            assert notification.method == sample.method
            return dialect.decode_notification(notification)
        case ResultResponse() as response:
            return dialect.decode_result(sample.method, response)
    raise AssertionError("not one of the three")


def judged_part(sample: Sample, data: bytes) -> Any:
    message = json.loads(data)
    return message["result"] if sample.kind == "result" else message


@every_sample
@given(data=st.data())
def test_an_encoded_message_decodes_to_an_equal_message(
    sample: Sample, data: st.DataObject
) -> None:
    message = data.draw(sample.messages)
    assert decode(sample, encode(sample, message)) == message


@every_sample
@given(data=st.data())
def test_every_encoded_message_is_valid_by_the_project_schema(
    sample: Sample, data: st.DataObject
) -> None:
    sent = judged_part(sample, encode(sample, data.draw(sample.messages)))
    judge(sample.dialect.REVISION, sample.schema).validate(sent)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.model], ids=str)
@given(data=st.data())
def test_every_encoded_message_is_valid_by_the_official_model(
    sample: Sample, data: st.DataObject
) -> None:
    sent = judged_part(sample, encode(sample, data.draw(sample.messages)))
    official(sample).model_validate_json(json.dumps(sent), by_name=False, strict=True)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.model], ids=str)
@given(data=st.data())
def test_every_message_of_the_official_model_is_decoded(
    sample: Sample, data: st.DataObject
) -> None:
    message = data.draw(official_messages(sample.dialect.REVISION, str(sample.model)))
    official(sample).model_validate_json(json.dumps(message), by_name=False)
    if sample.dialect is mcp_2026_07_28:
        _tighten(sample, message)
    if sample.kind == "result":
        message = {"jsonrpc": "2.0", "id": 7, "result": message}
    elif sample.kind == "request":
        message["id"] = 7
    decode(sample, json.dumps(message).encode())


def _tighten(sample: Sample, message: Any) -> None:
    """Requirements of 2026-07-28 that types do not express."""
    if sample.kind == "request":
        message["params"]["_meta"][mcp_2026_07_28.PROTOCOL_VERSION] = mcp_2026_07_28.REVISION
    elif sample.schema == "InputRequiredResult":
        message["requestState"] = "opaque"
        message["resultType"] = "input_required"
    elif sample.kind == "result":
        message["resultType"] = "complete"
    elif sample.schema == "SubscriptionsAcknowledgedNotification":
        message["params"]["_meta"] = {mcp_2026_07_28.SUBSCRIPTION_ID: 1}


@cache
def official_messages(revision: str, model: str) -> st.SearchStrategy[Any]:
    return values_of(getattr(OFFICIAL[revision], model).model_json_schema())


def official(sample: Sample) -> Any:
    return getattr(OFFICIAL[sample.dialect.REVISION], str(sample.model))


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the published schemas are not at hand")
@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.published], ids=str)
@given(data=st.data())
def test_every_encoded_message_is_valid_by_the_published_schema(
    sample: Sample, data: st.DataObject
) -> None:
    assert sample.published is not None
    sent = judged_part(sample, encode(sample, data.draw(sample.messages)))
    published_judge(*sample.published).validate(sent)


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the published schemas are not at hand")
@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.published], ids=str)
@given(data=st.data())
def test_the_project_schema_is_at_least_as_strict_as_the_published_schema(
    sample: Sample, data: st.DataObject
) -> None:
    assert sample.published is not None
    sent = judged_part(sample, encode(sample, data.draw(sample.messages)))
    broken = _break(data, sent)
    if not published_judge(*sample.published).is_valid(broken):
        assert not judge(sample.dialect.REVISION, sample.schema).is_valid(broken), broken


def _break(data: st.DataObject, message: Any) -> Any:
    """The message with one member lost or replaced, up to three levels down."""
    broken = here = json.loads(json.dumps(message))
    for _ in range(data.draw(st.integers(0, 2))):
        inner = [key for key, value in here.items() if isinstance(value, dict) and value]
        inner = [key for key in inner if key not in ("arguments", "content", "_meta")]
        if not inner:
            break
        here = here[data.draw(st.sampled_from(sorted(inner)))]
    if not here:
        return broken
    key = data.draw(st.sampled_from(sorted(here)))
    if data.draw(st.booleans()):
        del here[key]
    else:
        here[key] = data.draw(st.sampled_from([None, True, 1.5, -1, "x", [], {}]))
    return broken


def test_every_class_of_every_dialect_has_a_sample() -> None:
    for module in {sample.dialect for sample in SAMPLES}:
        sampled = {(s.kind, s.method) for s in SAMPLES if s.dialect is module}
        dialect = module.DIALECT
        wanted = {(kind, name) for name in dialect.methods for kind in ("request", "result")}
        wanted |= {("notification", name) for name in dialect.notifications}
        assert sampled == wanted
