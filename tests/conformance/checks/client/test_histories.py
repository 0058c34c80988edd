"""Checks of clients accept malformed messages; both views of a history agree."""

from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.clients.view import as_client, original
from taskmachine.adapters.conformance.history import Entry, History, Http, Kind
from taskmachine.adapters.conformance.judging import CLIENT_CHECKS
from tests.conformance.checks.cases import outcomes
from tests.conformance.checks.client.histories import FORM, NEW, OLD, begin, hello, meta, task
from tests.conformance.histories.messages import a_task

load_checks()

VALUES: list[Any] = [None, 1, "x", [], [1], {}, {"x": None}]
METHODS = ("tools/list", "tools/call", "tasks/get", "tasks/update", "tasks/list", "tasks/cancel")
FIELDS = ("_meta", "taskId", "task", "cursor", "arguments", "inputResponses", "name")


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("revision", [OLD, NEW])
def test_malformed_messages_of_clients(revision: str, value: Any) -> None:
    history = begin(revision).request("initialize", value, id=0).answer({"capabilities": {}})
    history.create(a_task()).create(task("input_required", inputRequests={}))
    for method in METHODS:
        fields = dict.fromkeys(FIELDS, value)
        history.request(method, value).request(method, fields)
        history.request(
            method, {**fields, "taskId": "task-a", "_meta": dict.fromkeys(meta(), value)}
        )
    for kind in ("elicitation/create", "sampling/createMessage", "tasks/get", "tasks/list"):
        request = {"jsonrpc": "2.0", "id": kind, "method": kind, "params": {**FORM, "task": {}}}
        history.receive(request).send({"id": kind, "result": value})
        history.send({"id": kind, "error": value})
    history.send(value).cancel(value).cancel({"requestId": value})
    for check in set(CLIENT_CHECKS.values()):
        list(check.observe(history.history))


def test_evidence_is_as_the_tester_recorded_it() -> None:
    history = hello().history
    [first, *_] = as_client(history).entries
    assert first.kind is Kind.SENT
    assert original(history, first) is history.entries[0]


def test_the_view_of_the_client_is_the_other_side() -> None:
    history = hello().create(a_task()).exits(None).history
    assert not history.exchanges
    assert [e.method for e in as_client(history).exchanges] == ["initialize", "tools/call"]
    kinds = [entry.kind for entry in as_client(as_client(history)).entries]
    assert kinds == [entry.kind for entry in history.entries]


def test_accept_lists_types_one_by_one() -> None:
    http = Http("POST", 0, {"accept": "text/event-stream;q=0.5,  application/json"})
    entry = Entry(0, 0, Kind.HEARD, "A", 1, 1, {"id": 1, "method": "ping"}, None, http)
    check = CLIENT_CHECKS["2026-07-28:http-accept-both"]
    assert outcomes(check, History(NEW, "http", (entry,))) == {"good"}
