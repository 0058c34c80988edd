"""The observer of a server: OpenTelemetry if the settings say so."""

import os

from taskmachine.adapters.runtime.observer import Observer
from taskmachine.adapters.transports.settings import Settings
from taskmachine.statemachine import ConfigurationError

__all__ = ["observer_from"]


def observer_from(settings: Settings) -> Observer | None:
    """Return the observer; ConfigurationError if a package for it is not installed."""
    if not (settings.otel or settings.metrics):
        return None
    try:
        from taskmachine.adapters.telemetry.providers import observer_of_process
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("taskmachine"):
            raise
        raise ConfigurationError(
            f"telemetry needs the package {error.name}: pip install 'taskmachine[otel]'"
        ) from None
    return observer_of_process(os.environ, exports=settings.otel, is_scraped=settings.metrics)
