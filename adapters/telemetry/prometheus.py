"""The Prometheus page `/metrics`."""

from collections.abc import Awaitable, Callable

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.telemetry.open_telemetry import OpenTelemetry
from taskmachine.statemachine import ConfigurationError

__all__ = ["metrics_route"]


def metrics_route(runtime: Runtime, check: Callable[[Request], Awaitable[object]]) -> Route:
    """Create the route; `check` raises to refuse a request.

    ConfigurationError if the runtime's observer has no Prometheus registry.
    """
    observer = runtime.service.observer
    registry = observer.registry if isinstance(observer, OpenTelemetry) else None
    if registry is None:
        raise ConfigurationError("metrics needs an observer: OpenTelemetry(registry=...)")

    async def show(request: Request) -> Response:
        await check(request)
        await runtime.count()  # the gauges would be some seconds old
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return Route("/metrics", show)
