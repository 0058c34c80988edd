"""`get`, `task` and `payload`: rates, what they cost the server, and their share of the floor."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from taskmachine.adapters.cli.bench.clients import run_client
from taskmachine.adapters.cli.bench.figures import Failed, case_of
from taskmachine.adapters.cli.bench.load import Figures, Job, Kind, Load, Turn
from taskmachine.adapters.cli.bench.visits import Measure, Taken, Visit

__all__ = ["GET", "PAYLOAD", "TASK", "size_case", "values_of"]

PATIENCE_S: Final = 400
PAYLOAD_CLIENTS: Final = 4
"""Results of a megabyte by many clients would measure the memory of the client."""


def values_of(turn: Turn, clients: int) -> dict[str, float]:
    subject, floor = turn.subject, turn.floor
    # Where the server has no time to wait, clock and processor say the same on a machine that
    # nobody else uses.  If it is busy, the clock flatters the slower server, since whoever always
    # has work to do gets more of the core: so both have to reach a bound.
    reached = turn.share if clients == 1 else min(turn.share, turn.share_by_cpu)
    return {
        "rate": subject.rate,
        "sent": subject.sent_each,
        "cpu_us": subject.server_s / subject.done * 1e6,
        "share": turn.share,
        "share_by_cpu": turn.share_by_cpu,
        "reached": reached,
        "floor_rate": floor.rate,
        "floor_us": floor.cost_us,
        "server_busy": subject.server_s / subject.seconds,
        "client_busy": subject.client_s / subject.seconds,
    }


def size_case(kind: str, size: int) -> str:
    shown = f"{size} B" if size < 1_000 else f"{size // 1_000} kB"
    if size >= 1_000_000:
        shown = f"{size // 1_000_000} MB"
    return f"{'tasks/get' if kind == 'get' else 'whole task'}, {shown}"


def _played(visit: Visit, loads: Mapping[str, Load], seconds: float) -> Taken:
    """Loads by their case."""
    one, scale = visit.contestant, visit.scale
    job = Job(
        one.dialog,
        one.path,
        visit.address,
        visit.floor,
        list(loads.values()),
        seconds,
        seconds / 5,
        scale.most,
    )
    figures = run_client("load", job, Figures, PATIENCE_S)
    if not figures.turns:
        raise Failed(figures.failed)
    taken: dict[str, dict[str, float] | str] = dict.fromkeys(loads, "not tried after that")
    for (case, load), turn in zip(loads.items(), figures.turns, strict=False):
        taken[case] = values_of(turn, load.clients)
    if figures.failed:
        taken[list(loads)[len(figures.turns)]] = figures.failed
    return taken


def _of_clients(visit: Visit, kind: Kind) -> Taken:
    loads = {case_of(count): Load(kind, count) for count in visit.scale.clients}
    return _played(visit, loads, visit.scale.seconds)


def _payload(visit: Visit) -> Taken:
    kinds: tuple[Kind, ...] = ("get", "task")
    loads = {
        size_case(kind, size): Load(kind, PAYLOAD_CLIENTS, size)
        for kind in kinds
        for size in visit.scale.payloads
    }
    return _played(visit, loads, visit.scale.seconds / 5)


GET: Final = Measure("get", partial(_of_clients, kind="get"), is_repeated=True)
TASK: Final = Measure("task", partial(_of_clients, kind="task"), is_repeated=True)
PAYLOAD: Final = Measure("payload", _payload, lambda one: one.is_ours)
