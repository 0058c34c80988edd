"""The JSON log of a real server, and secrets that it must not contain."""

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any, Final

from taskmachine.adapters.server.json_log import KEYS, JsonLines
from taskmachine.adapters.stores import StoreError
from tests.adapters.transports.pipes import Client

SECRET: Final = "xyzzy-0f3a"
TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
TOOLS: Final = "tests.adapters.telemetry.secret_tools:TOOLS"
ANSWER: Final = {"action": "accept", "content": {"name": SECRET}}


def log_of_secrets(folder: Path, *options: str) -> list[bytes]:
    """Return the log of a server whose callers and tools put a secret into every text."""
    client = Client(folder, "--log-format", "json", *options, tools=TOOLS)
    try:
        client.introduce()
        meta = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        for tool in ("crash", "refuse", "fail", "return_nonsense"):
            params = {"name": tool, "arguments": {"secret": SECRET}, "task": {}, "_meta": meta}
            task_id = client.ask("tools/call", params)["result"]["task"]["taskId"]
            client.ask("tasks/result", {"taskId": task_id})
            client.ask("tools/call", {"name": tool, "arguments": {"secret": SECRET}})
        params = {"name": "tell", "arguments": {"secret": SECRET}, "task": {}, "_meta": meta}
        task_id = client.ask("tools/call", params)["result"]["task"]["taskId"]
        waiting = client.request("tasks/result", {"taskId": task_id})
        question = client.called("elicitation/create")
        client.send({"id": question["id"], "result": ANSWER})
        client.answer(waiting)
        client.ask(SECRET)
        client.send({"method": SECRET, "params": [SECRET]})
        client.write(SECRET.encode() + b"\n")
        assert client.end() == 0
    finally:
        client.close()
    return client.stderr.encode().splitlines()


def test_every_line_is_an_object_without_secrets(tmp_path: Path) -> None:
    lines = log_of_secrets(tmp_path)
    assert SECRET.encode() not in b"".join(lines)
    decoded = [json.loads(line) for line in lines]
    for line in decoded:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line.pop("time"))
        assert line.pop("level") in ("info", "warning", "error")
        assert line.keys() <= {*KEYS, "message", "error", "stack"}
    events = [line for line in decoded if line.get("tool") == "tell"]
    assert [(line["event"], line["from"], line["to"]) for line in events] == [
        ("submit", "new", "submitted"),
        ("start", "submitted", "working"),
        ("report", "working", "working"),
        ("report", "working", "working"),
        ("ask", "working", "input_required"),
        ("resume", "input_required", "working"),
        ("complete", "working", "completed"),
    ]
    assert [line["version"] for line in events] == list(range(1, 8))
    assert len({line["task"] for line in events}) == 1
    (owner,) = {line["owner"] for line in events}
    assert owner != "stdio"
    assert [line["event"] for line in decoded].count("ready") == 1
    (raised, _) = [line for line in decoded if line.get("error") == "RuntimeError"]
    assert raised["message"] == "tool 'crash' raised"
    assert "secret_tools.py" in raised["stack"][-1]
    assert "trace" not in events[0], "without an observer"


def test_with_telemetry_each_event_names_its_trace(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    lines = [json.loads(line) for line in log_of_secrets(tmp_path, "--otel")]
    traces = {line.get("trace") for line in lines if line.get("tool") == "tell"}
    assert traces == {TRACE}


def formatted(message: str, *arguments: object) -> dict[str, Any]:
    record = logging.LogRecord("x", logging.ERROR, "f", 1, message, arguments, None)
    line: dict[str, Any] = json.loads(JsonLines().format(record))
    return line


def test_log_shows_only_the_type_of_foreign_errors() -> None:
    assert formatted("no: %s", ValueError(SECRET))["message"] == "no: ValueError"
    assert formatted("no: %s", StoreError("disk full"))["message"] == "no: disk full"
    assert formatted("100 %")["message"] == "100 %"
    line = formatted("two\nlines \x1b[2J %s", "and \u202e")
    assert line["message"] == "two\nlines \x1b[2J and \u202e"


def test_no_line_of_the_log_can_be_forged() -> None:
    try:
        raise KeyError(SECRET)
    except KeyError:
        record = logging.LogRecord("x", 40, "f", 1, "a\n\x1b[2J", None, sys.exc_info())
    line = JsonLines().format(record)
    assert line.isascii()
    assert line.isprintable()
    assert SECRET not in line
