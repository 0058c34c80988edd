"""Traces and metrics with OpenTelemetry."""

from taskmachine.adapters.bridges.required import require

require("opentelemetry-api", "otel", "1.40")
require("prometheus-client", "otel", "0.22")

from taskmachine.adapters.telemetry import OpenTelemetry, current_meta  # noqa: E402

__all__ = ["OpenTelemetry", "current_meta"]
