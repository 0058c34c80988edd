"""The cost of the core as ratios to a floor in the same run: `python -m tests.benchmarks.core`.

Exits 1 if a bound is exceeded.  The floors: a bare `transitions` trigger, and the standard
library's `json` reading the same request and writing the same answer.
"""

import json
import sys
import timeit
from collections.abc import Callable
from typing import Final, NamedTuple

from transitions import Machine

from taskmachine.protocol.dialects.mcp_2025_11_25 import messages as mcp_2025_11_25
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as mcp_2026_07_28
from taskmachine.protocol.dialects.mcp_2026_07_28 import receiver as receiver_2026_07_28
from taskmachine.protocol.errors import MalformedMessage
from taskmachine.protocol.jsonrpc import Request, decode_message, encode_message
from taskmachine.statemachine import TABLE, Call, Event, State, Task, fire, lifecycle

MEGABYTE: Final = 1_000_000


class Measure(NamedTuple):
    what: str
    cost_us: float
    floor_us: float
    most: float
    """The maximum ratio; infinite without a bound."""
    most_us: float = float("inf")

    @property
    def ratio(self) -> float:
        return self.cost_us / self.floor_us

    @property
    def holds(self) -> bool:
        return self.ratio <= self.most and self.cost_us <= self.most_us


def race(ours: Callable[[], object], floor: Callable[[], object], n: int) -> tuple[float, float]:
    """Return the best of seven rounds of each; alternating, so that noise affects both."""
    rounds = [(timeit.timeit(ours, number=n), timeit.timeit(floor, number=n)) for _ in range(7)]
    return min(a for a, _ in rounds) / n * 1e6, min(b for _, b in rounds) / n * 1e6


def a_task() -> Task:
    call = Call("tools/call", "greet")
    task_id = "786512e2-9e0d-44bd-8f29-789f320fe840"
    step = lifecycle.submit(task_id, "alice", call, 1_700_000_000_000, ttl_ms=60_000)
    return lifecycle.start(step.task, 1_700_000_000_000, worker="w").task


def measure_events(n: int) -> list[Measure]:
    machine = Machine(
        model=None,
        states=[state.value for state in State],
        initial="new",
        auto_transitions=False,
    )
    for row in TABLE:
        machine.add_transition(row.event.value, row.source.value, row.dest.value)

    class Cursor:
        state = "working"

    cursor, bare, task = Cursor(), machine.events["report"], a_task()

    def floor() -> None:
        cursor.state = "working"
        bare.trigger(cursor)

    return [
        Measure("fire an event", *race(lambda: fire(State.WORKING, Event.REPORT), floor, n), 2),
        Measure(
            "fire it and make the next record",
            *race(lambda: lifecycle.report(task, 1, message="x"), floor, n),
            float("inf"),
        ),
    ]


def measure_get(n: int) -> list[Measure]:
    task = a_task()
    meta = {
        mcp_2026_07_28.PROTOCOL_VERSION: "2026-07-28",
        mcp_2026_07_28.CLIENT_INFO: {"name": "bench", "version": "1"},
        mcp_2026_07_28.CLIENT_CAPABILITIES: mcp_2026_07_28.TASKS_REQUIRED,
    }
    params = {
        mcp_2025_11_25: {"taskId": task.id},
        mcp_2026_07_28: {"taskId": task.id, "_meta": meta},
    }
    measures = []
    for module in (mcp_2025_11_25, mcp_2026_07_28):
        request = json.dumps(
            {"jsonrpc": "2.0", "id": 3, "method": "tasks/get", "params": params[module]}
        ).encode()

        show = receiver_2026_07_28.encode_task if module is mcp_2026_07_28 else module.encode_task

        def ours(module=module, request=request, show=show) -> bytes:  # type: ignore[no-untyped-def]
            message = decode_message(request)
            assert isinstance(message, Request)
            module.DIALECT.decode_request(message)
            shown = show(task, 5000)
            return encode_message(module.DIALECT.encode_response(message.id, shown))

        answer = json.loads(ours())

        def floor(request: bytes = request, answer: object = answer) -> None:
            json.loads(request)
            json.dumps(answer)

        what = f"tasks/get of {module.REVISION}"
        measures.append(Measure(what, *race(ours, floor, n), 2, most_us=40))
    return measures


def measure_hostile_input() -> list[Measure]:
    """Compare 1 MB of hostile input with 0.1 MB: linear cost means a ratio of about ten."""
    shapes: dict[str, Callable[[int], bytes]] = {
        "brackets": lambda size: b"[" * size,
        "digits": lambda size: b"1" * size,
        "escapes": lambda size: b'"' + b"\\u00e9" * (size // 6),
        "one repeated key": lambda size: b"{" + b'"k":0,' * (size // 6) + b'"k":0}',
        "different keys": lambda size: (
            b"{" + b",".join(b'"%07d":0' % i for i in range(size // 12)) + b"}"
        ),
        "small objects": lambda size: b"[" + b"{}," * (size // 3) + b"{}]",
        "deep objects": lambda size: b"[" + (b"[" * 60 + b"]" * 60 + b",") * (size // 121) + b"0]",
    }
    measures = []
    for name, make in shapes.items():
        large, small = make(MEGABYTE), make(MEGABYTE // 10)
        cost, floor = race(lambda data=large: refused(data), lambda data=small: refused(data), 2)  # type: ignore[misc]
        measures.append(Measure(f"1 MB of {name}, to 0.1 MB", cost, floor, 20))
    return measures


def refused(data: bytes) -> None:
    try:
        decode_message(data)
    except MalformedMessage:
        return
    raise AssertionError("decoded as a message")


def main(n: int = 20_000) -> int:
    """Print the table; return 1 if a bound is exceeded."""
    print(f"{'what':42} {'cost':>12} {'floor':>12} {'ratio':>7} {'bound':>7}")
    broken = 0
    for measure in [*measure_events(n), *measure_get(n), *measure_hostile_input()]:
        bound = "" if measure.most == float("inf") else f"{measure.most:.1f}"
        broken += not measure.holds
        print(
            f"{measure.what:42} {measure.cost_us:9.2f} us {measure.floor_us:9.2f} us "
            f"{measure.ratio:7.2f} {bound:>7}{'' if measure.holds else '  BROKEN'}"
        )
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
