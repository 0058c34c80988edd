"""Metrics: counts, durations and outcomes.

Attributes have bounded sets of values, which callers cannot extend and which identify no caller.
"""

from collections.abc import Iterable
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from taskmachine.adapters.stores import Totals
from taskmachine.adapters.telemetry import names

__all__ = ["Meters"]

Labels = dict[str, str]

REQUEST_BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""As recommended by the semantic conventions."""

TASK_BUCKETS: Final = (0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400, 604_800)
SWEEP_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)


class Meters:
    """The instruments of one observer."""

    def __init__(self, meter: Meter) -> None:
        self.request_duration = meter.create_histogram(
            names.REQUEST_DURATION,
            "s",
            "From a request to its response",
            explicit_bucket_boundaries_advisory=REQUEST_BUCKETS,
        )
        self.created = meter.create_counter(names.CREATED, "{task}", "Tasks that were created")
        self.settled = meter.create_counter(names.SETTLED, "{task}", "Tasks that ended")
        self.duration = meter.create_histogram(
            names.DURATION,
            "s",
            "From the creation of a task to its end",
            explicit_bucket_boundaries_advisory=TASK_BUCKETS,
        )
        self.retries = meter.create_counter(
            names.RETRIES, "{attempt}", "Failed attempts of tools that are repeated"
        )
        self.replayed = meter.create_counter(
            names.REPLAYED, "{step}", "Steps of tools that an earlier run had recorded"
        )
        self.removed = meter.create_counter(names.REMOVED, "{task}", "Tasks that were removed")
        self.sweep_duration = meter.create_histogram(
            names.SWEEP_DURATION,
            "s",
            "Duration of a sweep",
            explicit_bucket_boundaries_advisory=SWEEP_BUCKETS,
        )
        self.dropped = meter.create_counter(
            names.DROPPED, "{notification}", "Notifications dropped for slow readers"
        )
        self.lost = meter.create_counter(
            names.LOST, "{notification}", "Notifications that did not reach a waiter in time"
        )
        self.refused = meter.create_counter(names.REFUSED, "{step}", "Steps that were refused")
        self._totals: Totals | None = None
        self._labels: Labels = {}
        meter.create_observable_gauge(
            names.LIVE, [self._live], "{task}", "Tasks in the store that have not ended"
        )
        meter.create_observable_gauge(
            names.WAITING, [self._waiting], "{task}", "Tasks in the store that wait for an answer"
        )

    def count(self, totals: Totals, labels: Labels) -> None:
        """Set the numbers of tasks that the gauges report."""
        self._totals, self._labels = totals, labels

    def _live(self, _: CallbackOptions) -> Iterable[Observation]:
        return [] if self._totals is None else [Observation(self._totals.live, self._labels)]

    def _waiting(self, _: CallbackOptions) -> Iterable[Observation]:
        return [] if self._totals is None else [Observation(self._totals.waiting, self._labels)]
