"""Read spans and metrics with the in-memory exporters of the SDK."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from taskmachine.adapters.telemetry import OpenTelemetry

PATIENCE_S: Final = 20.0

CALLERS: Final = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
"""The `traceparent` of a caller."""

CALLERS_TRACE: Final = 0x0AF7651916CD43DD8448EB211C80319C
CALLERS_SPAN: Final = 0x00F067AA0BA902B7


class _Begun(SpanProcessor):
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def on_start(self, span: Span, parent_context: object = None) -> None:
        self.spans.append(span)


class Telemetry:
    """An observer, and the spans and metrics that it recorded."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.registry = CollectorRegistry()
        self.tracers = TracerProvider()
        self._begun = _Begun()
        self.tracers.add_span_processor(self._begun)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._meters = MeterProvider([self._reader, PrometheusMetricReader(registry=self.registry)])
        self.observer = OpenTelemetry(self.tracers, self._meters, registry=self.registry)

    # --- spans -------------------------------------------------------------------------------

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def unended(self) -> list[str]:
        """Return the names of spans that have not ended."""
        return [span.name for span in self._begun.spans if span.end_time is None]

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        spans = self.named(name)
        assert len(spans) == 1, (name, [span.name for span in self.spans])
        return spans[0]

    async def until(self, name: str, count: int = 1) -> list[ReadableSpan]:
        """Wait for that many spans of a name and return them."""
        async with asyncio.timeout(PATIENCE_S):
            while len(spans := self.named(name)) < count:
                await asyncio.sleep(0)
        return spans

    # --- metrics -----------------------------------------------------------------------------

    def points(self) -> dict[str, list[tuple[Mapping[str, Any], Any]]]:
        """Return attributes and value of each data point; count and sum for a histogram."""
        data = self._reader.get_metrics_data()
        found: dict[str, list[tuple[Mapping[str, Any], Any]]] = {}
        for resource in () if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found[metric.name] = [
                        (dict(point.attributes or {}), _value(point))
                        for point in metric.data.data_points
                    ]
        return found

    def value(self, name: str, **wanted: str) -> Any:
        """Return the sum over all points with these attributes (`_` for `.`)."""
        return sum(
            value[0] if isinstance(value, tuple) else value
            for attributes, value in self.points().get(name, [])
            if wanted.items() <= {key.replace(".", "_"): v for key, v in attributes.items()}.items()
        )


def _value(point: Any) -> Any:
    return (point.count, point.sum) if isinstance(point, HistogramDataPoint) else point.value


def trace_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
