"""`get`, `task` and `payload`: rates, cost to the server, and share of the floor."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from taskmachine.adapters.cli.bench.clients import run_client
from taskmachine.adapters.cli.bench.figures import Failed, case_of
from taskmachine.adapters.cli.bench.load import Figures, Job, Kind, Load, Turn
from taskmachine.adapters.cli.bench.rounds import Measure, Round, Taken

__all__ = ["GET", "PAYLOAD", "TASK", "size_case", "values_of"]

PATIENCE_S: Final = 400
PAYLOAD_CLIENTS: Final = 4
"""Few, because megabyte results for many clients would measure the client's memory."""


def values_of(turn: Turn, clients: int) -> dict[str, float]:
    subject, floor = turn.subject, turn.floor
    # With one client, wall time and processor time agree on an idle machine.  On a busy server
    # wall time favours the slower server, because a process that is never idle gets more of
    # the core, so both shares must reach the bound.
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


def _played(one_round: Round, loads: Mapping[str, Load], seconds: float) -> Taken:
    """Run the loads and return their values by case."""
    one, workload = one_round.contestant, one_round.workload
    job = Job(
        one.dialog,
        one.path,
        one_round.address,
        one_round.floor,
        list(loads.values()),
        seconds,
        seconds / 5,
        workload.most,
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


def _of_clients(one_round: Round, kind: Kind) -> Taken:
    loads = {case_of(count): Load(kind, count) for count in one_round.workload.clients}
    return _played(one_round, loads, one_round.workload.seconds)


def _payload(one_round: Round) -> Taken:
    kinds: tuple[Kind, ...] = ("get", "task")
    loads = {
        size_case(kind, size): Load(kind, PAYLOAD_CLIENTS, size)
        for kind in kinds
        for size in one_round.workload.payloads
    }
    return _played(one_round, loads, one_round.workload.seconds / 5)


GET: Final = Measure("get", partial(_of_clients, kind="get"), is_repeated=True)
TASK: Final = Measure("task", partial(_of_clients, kind="task"), is_repeated=True)
PAYLOAD: Final = Measure("payload", _payload, lambda one: one.is_ours)
