"""The test's end of the strings that `tests.wire.tools` hang on."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

__all__ = ["BOUND_S", "Puppet", "Strings"]

BOUND_S: Final = 20.0
"""Within which everything happens that has to; the machine may be busy."""

JSON = dict[str, Any]


class Puppet:
    """One run of a tool, and what it has said."""

    def __init__(self, connection: socket.socket, changed: threading.Condition) -> None:
        self.heard: list[JSON] = []
        self.is_over = False
        self._connection = connection
        self._changed = changed

    def order(self, **order: Any) -> None:
        """Without waiting; to one that has ended it is nothing."""
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(order).encode() + b"\n")

    def count(self, event: str) -> int:
        return sum(said["event"] == event for said in self.heard)

    def read(self, on_first: Callable[[JSON], None]) -> None:
        """Until it ends."""
        with (
            self._connection,
            contextlib.suppress(OSError),
            self._connection.makefile("rb") as file,
        ):
            for line in file:
                said = json.loads(line)
                if said["event"] == "began":
                    on_first(said)
                with self._changed:
                    self.heard.append(said)
                    self._changed.notify_all()
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def cut(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


class Strings:
    """Accepts every run of a tool."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._runs: dict[str, list[Puppet]] = {}
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
            puppet = Puppet(connection, self.changed)

            def began(said: JSON, puppet: Puppet = puppet) -> None:
                with self.changed:
                    self._runs.setdefault(said["name"], []).append(puppet)
                    again = self._again.get(said["name"])
                if again is not None:
                    puppet.order(**again)

            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._threads.append(threading.Thread(target=puppet.read, args=(began,)))
            self._threads[-1].start()

    def runs(self, name: str) -> list[Puppet]:
        with self.changed:
            return list(self._runs.get(name, ()))

    def on_next_run(self, name: str, **order: Any) -> None:
        """What a tool that was parked is told first when it is run again."""
        with self.changed:
            self._again[name] = order

    def until(self, is_so: Callable[[], Any]) -> Any:
        """What it returns as soon as that is true, or the last when time is over."""
        with self.changed:
            return self.changed.wait_for(is_so, BOUND_S)

    def puppet(self, name: str) -> Puppet | None:
        """The newest run, waited for; None if there is none in good time."""
        self.until(lambda: name in self._runs)
        runs = self.runs(name)
        return runs[-1] if runs else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for runs in self._runs.values():
            for puppet in runs:
                puppet.cut()
        for thread in self._threads:
            thread.join()
