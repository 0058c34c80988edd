"""The connections over which a test steers the runs of `tests.lifecycle.wire.tools`."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

__all__ = ["BOUND_S", "REST_S", "ToolControl", "ToolRun"]

BOUND_S: Final = 20.0
"""Bound on every wait; generous, as the machine may be busy."""

REST_S: Final = 0.2
"""How long a tool sleeps, or waits for a retry."""

JSON = dict[str, Any]


class ToolRun:
    """One run of a tool, and the events that it sent."""

    def __init__(self, connection: socket.socket, changed: threading.Condition) -> None:
        self.events: list[JSON] = []
        self.has_ended = False
        self._connection = connection
        self._changed = changed

    def order(self, **order: Any) -> None:
        """Send an order without waiting; a run that has ended ignores it."""
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(order).encode() + b"\n")

    def count(self, event: str) -> int:
        return sum(said["event"] == event for said in self.events)

    def read(self, on_start: Callable[[JSON], None]) -> None:
        with (
            self._connection,
            contextlib.suppress(OSError),
            self._connection.makefile("rb") as file,
        ):
            for line in file:
                said = json.loads(line)
                if said["event"] == "started":
                    on_start(said)
                with self._changed:
                    self.events.append(said)
                    self._changed.notify_all()
        with self._changed:
            self.has_ended = True
            self._changed.notify_all()

    def disconnect(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


class ToolControl:
    """The listener to which every run of a tool connects."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._runs: dict[str, list[ToolRun]] = {}
        self._again: dict[str, JSON] = {}
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            tool_run = ToolRun(connection, self.changed)

            def started(said: JSON, tool_run: ToolRun = tool_run) -> None:
                with self.changed:
                    self._runs.setdefault(said["name"], []).append(tool_run)
                    again = self._again.get(said["name"])
                if again is not None:
                    tool_run.order(**again)

            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._threads.append(threading.Thread(target=tool_run.read, args=(started,)))
            self._threads[-1].start()

    def runs(self, name: str) -> list[ToolRun]:
        with self.changed:
            return list(self._runs.get(name, ()))

    def on_next_run(self, name: str, **order: Any) -> None:
        """Set the first order for the next run of a parked tool."""
        with self.changed:
            self._again[name] = order

    def until(self, is_so: Callable[[], Any]) -> Any:
        """Return the value of `is_so` once it is true, or its last value after the bound."""
        with self.changed:
            return self.changed.wait_for(is_so, BOUND_S)

    def tool_run(self, name: str) -> ToolRun | None:
        """Wait for a run of this tool and return the newest; None after the bound."""
        self.until(lambda: name in self._runs)
        runs = self.runs(name)
        return runs[-1] if runs else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for runs in self._runs.values():
            for tool_run in runs:
                tool_run.disconnect()
        for thread in self._threads:
            thread.join()
