"""The rules about single messages, against histories written by hand."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from taskmachine.adapters.conformance.checks.reading import messages, meta
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.judging import Observation
from tests.conformance.histories.wire import Wire, pipe, web

Observer = Callable[[History], Iterator[Observation]]


def outcomes(observe: Observer, tale: Wire) -> set[str]:
    return {observation.outcome for observation in observe(tale.history)}


OK = {"jsonrpc": "2.0", "id": 1, "result": {}}
ERROR = {"code": -32602, "message": "no"}


@pytest.mark.parametrize(
    ("message", "fine"),
    [
        (OK, True),
        ({"jsonrpc": "2.0", "id": 1, "error": ERROR}, True),
        ({"jsonrpc": "2.0", "error": ERROR}, True),
        ({"jsonrpc": "2.0", "method": "ping", "id": "a"}, True),
        ({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}, True),
        ({"id": 1, "result": {}}, False),
        ({"jsonrpc": "1.0", "id": 1, "result": {}}, False),
        ({"jsonrpc": 2.0, "id": 1, "result": {}}, False),
        ({"jsonrpc": "2.0", "id": 1}, False),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "error": ERROR}, False),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "result": {}}, False),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, False),
        ({"jsonrpc": "2.0", "method": "x", "params": [1]}, False),
        ([OK], False),
        (None, False),
        ("hello", False),
    ],
)
def test_each_message_is_jsonrpc(message: Any, fine: bool) -> None:
    tale = pipe().request("ping", id=1).says(message)
    assert outcomes(messages.speaks_jsonrpc, tale) == {"good" if fine else "bad"}


def test_the_words_of_an_http_error_are_free() -> None:
    tale = web().request("ping").head(401).says({"error": "invalid_token"})
    for observe in (
        messages.speaks_jsonrpc,
        messages.errors_have_code_and_message,
        messages.errors_have_integer_codes,
        messages.errors_have_the_id,
        messages.results_are_objects,
    ):
        assert outcomes(observe, tale) == set()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (OK, {"good"}),
        ({"jsonrpc": "2.0", "id": 1, "error": ERROR}, set()),
        ({"jsonrpc": "2.0", "id": 1}, {"bad"}),
        ({"jsonrpc": "2.0", "id": 1, "result": None}, {"bad"}),
        ({"jsonrpc": "2.0", "id": 1, "result": []}, {"bad"}),
        ({"jsonrpc": "2.0", "id": 1, "result": "done"}, {"bad"}),
    ],
)
def test_a_result_is_an_object(message: Any, expected: set[str]) -> None:
    assert outcomes(messages.results_are_objects, pipe().request("ping", id=1).says(message)) == (
        expected
    )


@pytest.mark.parametrize("begin", [pipe, web])
@pytest.mark.parametrize(
    ("sent", "heard", "expected"),
    [
        (1, 1, "good"),
        (1, 1.0, "good"),
        ("a", "a", "good"),
        (2, "2", "bad"),
        ("1", 1, "bad"),
        (1, 2, "bad"),
        (1, None, "bad"),
        (1, True, "bad"),
    ],
)
def test_a_result_has_the_id(
    begin: Callable[[], Wire], sent: Any, heard: Any, expected: str
) -> None:
    tale = begin().request("ping", id=sent).answer({}, id=heard)
    assert outcomes(messages.results_have_the_id, tale) == {expected}


def test_results_on_the_pipe_may_come_in_any_order() -> None:
    tale = pipe().request("ping", id=1).request("ping", id="1").answer({}, id="1").answer({}, id=1)
    assert outcomes(messages.results_have_the_id, tale) == {"good"}


def test_a_result_on_a_post_belongs_to_that_post() -> None:
    tale = web().request("ping", id=1).request("ping", id=2).answer({}, id=1)
    assert outcomes(messages.results_have_the_id, tale) == {"bad"}


def test_a_resumed_stream_may_have_a_result_of_an_earlier_post() -> None:
    tale = web().request("tasks/result", id=1).head().leaves().sent(method="GET").answer({}, id=1)
    assert outcomes(messages.results_have_the_id, tale) == {"good"}


@pytest.mark.parametrize(
    ("tale", "expected"),
    [
        (pipe().request("tasks/get", id=1).error(-32602), {"good"}),
        (pipe().request("tasks/get", id=1).error(-32602, id=None), {"bad"}),
        (pipe().request("tasks/get", id=1).error(-32602, id="1"), {"bad"}),
        (pipe().sent(text="{not json").error(-32700, id=None), {"good"}),
        (pipe().sent(text="{not json").says({"jsonrpc": "2.0", "error": ERROR}), {"good"}),
        (pipe().sent([1]).error(-32600, id=None), {"good"}),
        (pipe().sent({"jsonrpc": "2.0", "id": 7}).error(-32600, id=7), {"good"}),
        (pipe().sent({"jsonrpc": "2.0", "id": 7}).error(-32600, id=None), {"good"}),
        (
            pipe().sent([{"jsonrpc": "2.0", "id": 7, "method": "ping"}]).error(-32600, id=7),
            {"good"},
        ),
        (pipe().notify("notifications/x").error(-32601, id=None), set()),
        (web().request("tasks/get", id=1).head(404).error(-32600, id=None), {"good"}),
        (web().request("tasks/get", id=1).head(400).error(-32600, id="server-error"), {"warning"}),
        (web().request("tasks/get", id=1).error(-32602, id="server-error"), {"bad"}),
        (web().request("tasks/get", id=1).error(-32602, id=None), {"bad"}),
    ],
)
def test_an_error_has_the_id(tale: Wire, expected: set[str]) -> None:
    assert outcomes(messages.errors_have_the_id, tale) == expected


@pytest.mark.parametrize(
    ("error", "whole", "integer"),
    [
        (ERROR, "good", "good"),
        (ERROR | {"data": 1}, "good", "good"),
        ({"code": -32602}, "bad", "good"),
        ({"message": "no"}, "bad", None),
        ({"code": -32602, "message": 5}, "bad", "good"),
        ({"code": "-32602", "message": "no"}, "good", "bad"),
        ({"code": 1.5, "message": "no"}, "good", "bad"),
        ({"code": True, "message": "no"}, "good", "bad"),
        ({"code": -32602.0, "message": "no"}, "good", "good"),
        ("no", "bad", None),
        (None, "bad", None),
    ],
)
def test_an_error_has_an_integer_code_and_a_message(
    error: Any, whole: str, integer: str | None
) -> None:
    tale = pipe().request("ping", id=1).says({"jsonrpc": "2.0", "id": 1, "error": error})
    assert outcomes(messages.errors_have_code_and_message, tale) == {whole}
    assert outcomes(messages.errors_have_integer_codes, tale) == ({integer} if integer else set())


def test_the_error_of_a_failed_task_is_an_error_too() -> None:
    task = {"taskId": "t", "status": "failed", "error": {"code": "x"}}
    tale = web("2026-07-28").request("tasks/get", {"taskId": "t"}).answer(task)
    assert outcomes(messages.errors_have_code_and_message, tale) == {"bad"}
    assert outcomes(messages.errors_have_integer_codes, tale) == {"bad"}


@pytest.mark.parametrize("begin", [pipe, web])
def test_a_notification_has_no_id(begin: Callable[[], Wire]) -> None:
    tale = begin().request("ping").tells("notifications/progress").tells("ping", id=1)
    assert outcomes(messages.notifications_have_no_id, tale) == {"good"}
    tale.tells("notifications/progress", id=1)
    assert outcomes(messages.notifications_have_no_id, tale) == {"good", "bad"}


@pytest.mark.parametrize(
    ("tale", "expected"),
    [
        (pipe().notify("notifications/x").request("ping").answer({}), {"good"}),
        (pipe().notify("notifications/x").error(-32601, id=None), {"bad"}),
        (pipe().notify("notifications/x").says({"jsonrpc": "2.0", "result": {}}), {"bad"}),
        (pipe().notify("notifications/x"), set()),
        (pipe().sent(text="{").notify("notifications/x").error(-32700, id=None), set()),
        (web().notify("notifications/x").head(202), {"good"}),
        (web().notify("notifications/x").head(400).error(-32600, id=None), {"good"}),
        (web().notify("notifications/x").head(200).answer({}, id=None), {"bad"}),
        (web().notify("notifications/x").head(202).error(-32601, id=None), {"bad"}),
        (web().sent({"jsonrpc": "2.0", "method": 5}).error(-32600, id=None), set()),
        (web().notify("notifications/x"), set()),
    ],
)
def test_a_notification_is_not_answered(tale: Wire, expected: set[str]) -> None:
    assert outcomes(messages.notifications_are_not_answered, tale) == expected


@pytest.mark.parametrize(
    ("key", "prefix", "label", "name"),
    [
        ("progressToken", None, None, "good"),
        ("com.example/key", "good", "good", "good"),
        ("com.example/", "good", "good", "good"),
        ("com.ex-ample.a1/k_e-y.1", "good", "good", "good"),
        ("/key", "bad", None, "good"),
        ("com..example/key", "bad", None, "good"),
        (".com/key", "bad", None, "good"),
        ("com.example/a/b", "bad", None, "good"),
        ("1com.example/key", "good", "bad", "good"),
        ("com.example-/key", "good", "bad", "good"),
        ("com.ex_ample/key", "good", "bad", "good"),
        ("_fastmcp", None, None, "bad"),
        ("com.example/key-", "good", "good", "bad"),
        ("a b", None, None, "note"),
        ("é", None, None, "bad"),
    ],
)
def test_keys_of_meta_have_a_form(
    key: str, prefix: str | None, label: str | None, name: str | None
) -> None:
    tale = pipe().request("ping").answer({"_meta": {key: 1}})
    assert outcomes(meta.meta_prefixes, tale) == ({prefix} if prefix else set())
    assert outcomes(meta.meta_labels, tale) == ({label} if label else set())
    assert outcomes(meta.meta_names, tale) == ({name} if name else set())


@pytest.mark.parametrize(
    ("key", "reverse", "reserved"),
    [
        ("io.modelcontextprotocol/related-task", "good", "good"),
        ("io.modelcontextprotocol/of-an-extension", "good", "note"),
        ("com.mcp.tools/x", "good", "bad"),
        ("dev.mcp/x", "good", "bad"),
        ("com.example.mcp/x", "good", None),
        ("example.com/x", "bad", None),
        ("example/x", "bad", None),
        ("alpha.beta/x", None, None),
        ("plain", None, None),
    ],
)
def test_prefixes_are_reverse_domains_and_some_are_reserved(
    key: str, reverse: str | None, reserved: str | None
) -> None:
    tale = pipe().request("ping").answer({"_meta": {key: 1}})
    assert outcomes(meta.meta_reversed, tale) == ({reverse} if reverse else set())
    assert outcomes(meta.meta_reserved, tale) == ({reserved} if reserved else set())


def test_only_meta_of_the_protocol_is_searched() -> None:
    wrong = {"_meta": {"-": 1}}
    tools = [{"name": "t", "inputSchema": wrong}]
    free = {"structuredContent": wrong, "tools": tools, "_meta": {"a": wrong}}
    assert list(meta.meta_keys({"result": free})) == ["a"]
    assert list(meta.meta_keys({"result": {"content": [wrong]}})) == ["-"]
    assert list(meta.meta_keys({"params": {"_meta": {"b": 1}}})) == ["b"]
