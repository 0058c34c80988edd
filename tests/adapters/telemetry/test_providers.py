"""`taskmachine serve --otel`: a real process sends to the collector in OTEL_*."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from taskmachine.adapters.cli.main import main
from tests.adapters.transports.pipes import Client

TRACE = "0af7651916cd43dd8448eb211c80319c"


class Collector(ThreadingHTTPServer):
    """A collector that stores request bodies by path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: Queue[tuple[str, bytes]] = Queue()


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            raise AssertionError("not requested")
        self.server.got.put((self.path, body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        monkeypatch.setenv(
            "OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}"
        )
        yield server
        server.shutdown()
        serving.join()


def test_spans_and_metrics_reach_a_collector(tmp_path: Path, collector: Collector) -> None:
    client = Client(tmp_path, "--otel")
    try:
        client.introduce()
        meta = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
        params = {"name": "fail", "arguments": {}, "task": {}, "_meta": meta}
        task_id = client.ask("tools/call", params)["result"]["task"]["taskId"]
        client.ask("tasks/result", {"taskId": task_id})
        assert client.end() == 0  # it exports the rest before it exits
    finally:
        client.close()
    assert "Traceback" not in client.stderr
    spans: dict[str, tuple[str, dict[str, str]]] = {}
    metrics: set[str] = set()
    services: set[str] = set()
    while not collector.got.empty():
        path, body = collector.got.get()
        if path == "/v1/traces":
            for traced in ExportTraceServiceRequest.FromString(body).resource_spans:
                services |= {
                    a.value.string_value
                    for a in traced.resource.attributes
                    if a.key == "service.name"
                }
                for scope in traced.scope_spans:
                    for span in scope.spans:
                        facts = {a.key: a.value.string_value for a in span.attributes}
                        spans[span.name] = span.trace_id.hex(), facts
        elif path == "/v1/metrics":
            for measured in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                metrics |= {m.name for scope in measured.scope_metrics for m in scope.metrics}
    for name in ("tools/call fail", "execute_tool fail", "task fail"):
        assert spans[name][0] == TRACE
    assert spans["tools/call fail"][1]["network.transport"] == "pipe"
    assert {"taskmachine.tasks.created", "mcp.server.operation.duration"} <= metrics
    assert services == {"taskmachine"}


def test_an_unknown_exporter_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "pigeons")
    assert main(["serve", "--http", "127.0.0.1:0", "--store", "memory:", "--otel"]) == 2
    error = capsys.readouterr().err
    assert "OTEL_TRACES_EXPORTER must be one of console, none, otlp" in error
    assert "'pigeons'" in error
