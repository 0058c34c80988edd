"""Properties of all dialects."""

from collections.abc import Callable

import pytest

from taskmachine.protocol import DIALECTS, MCP, Dialect, dialect, receivers
from taskmachine.protocol.dialects.dialect import answerable_kinds, capabilities_for
from taskmachine.protocol.errors import (
    AlreadyEnded,
    HeaderMismatch,
    InvalidParams,
    InvalidResult,
    MalformedMessage,
    MethodNotFound,
    MissingCapability,
    TaskSupportMismatch,
    UnsupportedVersion,
)
from taskmachine.protocol.jsonrpc import Error, Notification, Request
from taskmachine.protocol.operations import Get, Watch
from taskmachine.protocol.timestamps import decode_timestamp, encode_timestamp
from taskmachine.statemachine import (
    Call,
    ConfigurationError,
    Outcome,
    Progress,
    Reply,
    TaskmachineError,
    lifecycle,
)


def test_a_dialect_is_found_by_its_revision() -> None:
    assert dialect("2025-11-25").name == "2025-11-25"
    for name, entry in DIALECTS.items():
        assert name == entry.messages.revision
        assert entry.receiver.messages is entry.requestor.messages is entry.messages


def test_an_unknown_dialect_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'2024'.*2025-11-25, 2026-07-28, erlmcp"):
        dialect("2024")


def test_a_server_supports_both_revisions_or_one_named_dialect() -> None:
    assert receivers() == MCP
    assert receivers("erlmcp") == (DIALECTS["erlmcp"].receiver,)


@pytest.mark.parametrize(
    ("stamp", "ms", "is_ours"),
    [
        ("1970-01-01T00:00:00.000Z", 0, True),
        ("2023-11-14T22:13:20.001Z", 1_700_000_000_001, True),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999, True),
        ("2025-11-25T10:30:00Z", 1_764_066_600_000, False),
        ("2025-11-25T11:30:00+01:00", 1_764_066_600_000, False),
        ("2025-11-25T10:30:00.9999Z", 1_764_066_600_999, False),
    ],
)
def test_timestamps_are_utc_with_milliseconds(stamp: str, ms: int, is_ours: bool) -> None:
    assert decode_timestamp(stamp) == ms
    assert (encode_timestamp(ms) == stamp) is is_ours


@pytest.mark.parametrize("stamp", ["", "yesterday", "2025-11-25T10:30:00"])
def test_an_invalid_timestamp_is_refused(stamp: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid isoformat|no offset"):
        decode_timestamp(stamp)


OLD, NEW, ERLMCP = (DIALECTS[name] for name in ("2025-11-25", "2026-07-28", "erlmcp"))
CALL, REPLY = Call("tools/call", "greet"), Reply(b"{}")


ABSENT: dict[str, Callable[[], object]] = {
    "a plain call in erlmcp": lambda: ERLMCP.receiver.ran(Outcome.of_result(b"{}")),
    "its progress": lambda: ERLMCP.receiver.call_progress("token", Progress(1)),
    "a question taken back in erlmcp": lambda: ERLMCP.receiver.withdrawal(1),
    "a pause in 2025-11-25": lambda: OLD.receiver.paused((), None),
    "a watch in 2025-11-25": lambda: OLD.receiver.acknowledgement(1, ()),
    "its end": lambda: OLD.receiver.end_watch(1),
    "a list in 2026-07-28": lambda: NEW.receiver.page((), None, 0),
    "a retry in 2025-11-25": lambda: OLD.requestor.retry(CALL, {}, None),
    "an update in 2025-11-25": lambda: OLD.requestor.answer("t1", "k", REPLY),
    "tasks/result in 2026-07-28": lambda: NEW.requestor.collect("t1"),
    "its answer": lambda: NEW.requestor.read_collected(None),
    "a response in erlmcp": lambda: ERLMCP.requestor.respond(1, "t1", REPLY),
}


@pytest.mark.parametrize("use", ABSENT)
def test_an_operation_that_a_dialect_lacks_raises_method_not_found(use: str) -> None:
    with pytest.raises(MethodNotFound):
        ABSENT[use]()


def test_an_abandoned_request_is_cancelled_where_that_can_be_said() -> None:
    assert OLD.requestor.abandon(7).requestId == 7
    assert NEW.requestor.abandon(7).requestId == 7
    assert ERLMCP.requestor.abandon(7) is None
    assert [d.requestor.may_abandon(CALL) for d in (OLD, NEW, ERLMCP)] == [False, True, False]


def test_a_2026_07_28_server_notifies_only_subscribers_of_changes() -> None:
    task = lifecycle.submit("t1", "alice", CALL, 0, ttl_ms=1_000).task
    assert NEW.receiver.notices(task, None, None, 0) == ()
    assert NEW.receiver.notices(task, 1, Get("t1"), 0) == ()
    assert len(NEW.receiver.notices(task, 1, Watch(("t1",)), 0)) == 1


@pytest.mark.parametrize("value", [None, True, "tools", [], 1])
def test_a_capability_that_is_not_an_object_is_not_declared(value: object) -> None:
    for name in ("roots", "sampling", "elicitation"):
        assert answerable_kinds({name: value}) == frozenset()
        assert answerable_kinds({name: {}}) != frozenset()


def test_a_url_and_a_form_need_both_modes_declared() -> None:
    both = capabilities_for({"elicitation/create", "elicitation/create url"})
    assert both == {"elicitation": {"form": {}, "url": {}}}


@pytest.mark.parametrize("spoken", [d.messages for d in DIALECTS.values()], ids=DIALECTS)
def test_an_unknown_method_is_named_in_the_answer(spoken: Dialect) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: spoken.decode_request(Request(1, "no/such", {})),
        lambda: spoken.decode_notification(Notification("no/such")),
    ]
    for decode in attempts:
        with pytest.raises(MethodNotFound) as error:
            decode()
        answer = spoken.encode_error(1, error.value).error
        assert answer == Error(-32601, "Method not found: no/such")


@pytest.mark.parametrize(
    ("error", "fields", "words"),
    [
        (
            MalformedMessage(-32600, "Invalid request: x", 7),
            {"code": -32600, "reason": "Invalid request: x", "id": 7},
            "Invalid request: x",
        ),
        (MethodNotFound("no/such"), {"method": "no/such"}, "unknown method 'no/such'"),
        (InvalidParams("params is x"), {"reason": "params is x"}, "params is x"),
        (
            InvalidResult("tasks/get", "result is x"),
            {"method": "tasks/get", "reason": "result is x"},
            "invalid answer to tasks/get: result is x",
        ),
        (
            MissingCapability({"roots": {}}),
            {"required": {"roots": {}}},
            "the client did not declare {'roots': {}}",
        ),
        (
            UnsupportedVersion("1900", ["2026-07-28"]),
            {"requested": "1900", "supported": ("2026-07-28",)},
            "protocol version '1900' is not among ['2026-07-28']",
        ),
        (HeaderMismatch("Mcp-Name is x"), {"reason": "Mcp-Name is x"}, "Mcp-Name is x"),
        (
            TaskSupportMismatch("greet", "required"),
            {"tool": "greet", "support": "required"},
            "task support of tool 'greet' is 'required'",
        ),
        (AlreadyEnded("failed"), {"status": "failed"}, "the task is already failed"),
    ],
)
def test_an_error_carries_its_fields_and_says_them(
    error: TaskmachineError, fields: dict[str, object], words: str
) -> None:
    assert vars(error) == fields
    assert str(error) == words
