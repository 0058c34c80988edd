"""OpenTelemetry providers for the server process, configured by the variables `OTEL_*`.

Programs that configure OpenTelemetry themselves use `OpenTelemetry` directly.
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, Final

import attrs
from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import CollectorRegistry

from taskmachine.adapters.telemetry.open_telemetry import OpenTelemetry
from taskmachine.statemachine import ConfigurationError

__all__ = ["observer_of_process"]

_OTLP: Final = "otlp_proto_http"


@attrs.frozen(eq=False)
class _Kind:
    variable: str
    group: str


_TRACES: Final = _Kind("OTEL_TRACES_EXPORTER", "opentelemetry_traces_exporter")
_METRICS: Final = _Kind("OTEL_METRICS_EXPORTER", "opentelemetry_metrics_exporter")


def observer_of_process(
    environment: Mapping[str, str], *, exports: bool, is_scraped: bool
) -> OpenTelemetry:
    """Create an observer, and set its providers as the global ones, which tools may use.

    With `exports` spans and metrics are exported as `OTEL_*` configures; with `is_scraped` there
    is a Prometheus registry.  ConfigurationError for an exporter that is not installed.
    """
    readers: list[MetricReader] = []
    registry = CollectorRegistry() if is_scraped else None
    resource = Resource.create(
        {} if environment.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "taskmachine"}
    )
    if registry is not None:
        readers.append(PrometheusMetricReader(registry=registry, disable_target_info=True))
    if exports:
        tracer_provider = TracerProvider(resource=resource)
        for make in _exporters(environment, _TRACES):
            tracer_provider.add_span_processor(BatchSpanProcessor(make()))
        trace.set_tracer_provider(tracer_provider)
        for make in _exporters(environment, _METRICS):
            readers.append(PeriodicExportingMetricReader(make()))
    metrics.set_meter_provider(MeterProvider(readers, resource=resource))
    return OpenTelemetry(registry=registry)


def _exporters(environment: Mapping[str, str], kind: _Kind) -> Iterator[Any]:
    known = {
        point.name: point
        for point in entry_points(group=kind.group)
        if point.name != "prometheus"  # it would start its own HTTP server
    }
    for text in environment.get(kind.variable, "otlp").split(","):
        name = text.strip()
        if name == "none":
            continue
        point = known.get(_OTLP if name == "otlp" else name)
        if point is None:
            choices = ", ".join(sorted({"none", "otlp", *known}))
            raise ConfigurationError(f"{kind.variable} must be one of {choices}, got '{name}'")
        yield point.load()
