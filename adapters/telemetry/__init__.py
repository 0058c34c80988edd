"""OpenTelemetry spans and metrics, and a page for Prometheus."""

from taskmachine.adapters.telemetry.open_telemetry import OpenTelemetry
from taskmachine.adapters.telemetry.propagation import current_meta

__all__ = ["OpenTelemetry", "current_meta"]
