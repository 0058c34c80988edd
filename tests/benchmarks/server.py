"""What our HTTP server does in a second, beside its floor and its peers.

`python -m tests.benchmarks.server [--peers] [--seconds N] [--profile]` leaves with 1 if a bound
is broken.  The floor is a bare ASGI application on the same server software that reads the same
requests and answers with a constant of the same size.  Every server has one core, the client the
other.  `--peers` installs what others have made into `.peers` and measures it in the same run.
"""

import argparse
import contextlib
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import cattrs
import msgspec

from tests.benchmarks.server_load import Figure, Figures, Job, Kind, Turn
from tests.benchmarks.server_processes import Address, NotStarted, serving
from tests.benchmarks.server_profile import print_profiles
from tests.benchmarks.server_subjects import FLOOR, Subject, ours, peers
from tests.oracle import REPOSITORY

# Lookups come first: some servers look at every task that is stored, whoever asks.
TURNS: Final[Sequence[tuple[Kind, int]]] = (("get", 1), ("get", 32), ("task", 1), ("task", 32))
ROUNDS: Final = 7

GET_SHARE: Final = 0.40
"""Of the floor's requests."""
TASK_SHARE: Final = 0.25
"""Of what the floor would do, if it answered as many requests for each task."""
DURABLE_RATE: Final = 400
DURABLE_SHARE: Final = 1 / 3
"""Of what is done in memory; a durable store has to reach this or the rate."""

BUILD: Final = REPOSITORY / "build"

HEADER: Final = (
    f"{'what':70} {'a second':>9} {'floor':>8} {'sent':>6} {'share':>6} "
    f"{'CPU us':>7} {'by CPU':>7} {'server':>7} {'client':>7}"
)


class Failed(Exception):
    """A subject gave a wrong answer, or none."""


class Scale(NamedTuple):
    rounds: int
    seconds: float
    most: int
    """Of each client in each load."""


class Run(NamedTuple):
    """The same turn in all rounds."""

    turns: Sequence[Turn]

    @property
    def rate(self) -> float:
        return self._median(lambda turn: turn.subject.rate)

    @property
    def share(self) -> float:
        """The median of what each round says by itself: the machine is never the same."""
        return self._median(
            lambda turn: turn.subject.rate * turn.subject.sent_each / turn.floor.rate
        )

    @property
    def share_by_cpu(self) -> float:
        """As `share` would be if nobody else used the machine, and the servers never waited."""
        return self._median(lambda turn: turn.floor.cost_us / turn.subject.cost_us)

    def reaches(self, share: float) -> bool:
        """By the clock; and by the processor as well, where the server has no time to wait.

        There the two are the same on a machine that nobody else uses.  If it is busy, the clock
        flatters the slower server, since whoever always has work to do gets more of the core.
        """
        return self.share >= share and (self.turns[0].clients == 1 or self.share_by_cpu >= share)

    def to(self, other: "Run") -> float:
        pairs = zip(self.turns, other.turns, strict=True)
        return statistics.median(a.subject.rate / b.subject.rate for a, b in pairs)

    def _median(self, value: Callable[[Turn], float]) -> float:
        return statistics.median(value(turn) for turn in self.turns)

    def __str__(self) -> str:
        def used(seconds: float, figure: Figure) -> float:
            return seconds / figure.seconds

        return " ".join(
            (
                f"{self.rate:9,.0f} {self._median(lambda turn: turn.floor.rate):8,.0f}",
                f"{self._median(lambda turn: turn.subject.sent_each):6.2f} {self.share:6.1%}",
                f"{self._median(lambda turn: turn.subject.cost_us):7,.0f}",
                f"{self.share_by_cpu:7.1%}",
                f"{self._median(lambda turn: used(turn.subject.server_s, turn.subject)):7.0%}",
                f"{self._median(lambda turn: used(turn.subject.client_s, turn.subject)):7.0%}",
            )
        )


Measured = Mapping[Subject, Sequence[Figures]]
Runs = Mapping[tuple[Subject, Kind, int], Run]


def measure(
    subjects: Sequence[Subject], scale: Scale, failed: Callable[[Subject, str], None]
) -> Measured:
    """Each round measures all of them, every one on a server that is new."""
    measured: dict[Subject, list[Figures]] = {subject: [] for subject in subjects}
    BUILD.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        # A disk, unlike /tmp at times.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=BUILD)))
        floor = stack.enter_context(serving(FLOOR, folder / "floor.txt"))
        for number in range(scale.rounds):
            print(f"round {number + 1} of {scale.rounds}", file=sys.stderr, flush=True)
            for subject in list(measured):
                try:
                    measured[subject].append(measure_once(subject, floor, folder, scale))
                except Failed as error:
                    failed(subject, str(error))
                    del measured[subject]
    return measured


def measure_once(subject: Subject, floor: Address, folder: Path, scale: Scale) -> Figures:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        own = Path(name)
        try:
            with serving(subject.command(own), own / "output.txt") as address:
                return load(
                    Job(
                        subject.revision,
                        subject.path,
                        address,
                        floor,
                        list(TURNS),
                        scale.seconds,
                        scale.seconds / 5,
                        scale.most,
                    )
                )
        except NotStarted as error:
            raise Failed(str(error)) from None


def load(job: Job) -> Figures:
    """Let the client do it, in a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.server_load"],
            input=msgspec.json.encode(cattrs.unstructure(job)),
            capture_output=True,
            cwd=REPOSITORY,
            timeout=300 + 20 * job.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed("the client did not end") from None
    if done.returncode:
        raise Failed((done.stderr.decode(errors="replace").strip().splitlines() or ["?"])[-1])
    return cattrs.structure(msgspec.json.decode(done.stdout), Figures)


def runs(measured: Measured) -> Runs:
    return {
        (subject, kind, clients): Run([figures.turns[at] for figures in rounds])
        for subject, rounds in measured.items()
        for at, (kind, clients) in enumerate(TURNS)
    }


def judged(all_runs: Runs) -> Iterator[tuple[str, bool]]:
    """Each line of the table, and whether its bound holds."""
    for (subject, kind, clients), run in all_runs.items():
        holds, bound = verdict(subject, kind, clients, run, all_runs)
        what = "tasks/get" if kind == "get" else "whole tasks"
        label = f"{subject.name}, {subject.revision}: {what}, {clients} at a time"
        said = f"  {'OK' if holds else 'BROKEN'}: {bound}" if bound else ""
        yield f"{label:70} {run}{said}", holds


def verdict(
    subject: Subject, kind: Kind, clients: int, run: Run, all_runs: Runs
) -> tuple[bool, str]:
    """Peers have no bound."""
    if not subject.store:
        return True, ""
    if kind == "get":
        return run.reaches(GET_SHARE), f">= {GET_SHARE:.0%} of the floor"
    if subject.store == "memory":
        return run.reaches(TASK_SHARE), f">= {TASK_SHARE:.0%} of the floor"
    bound = f">= {DURABLE_RATE} a second, or a third of memory"
    if run.rate >= DURABLE_RATE:
        return True, bound
    for (other, *what), in_memory in all_runs.items():
        if (other.store, other.revision, *what) == ("memory", subject.revision, kind, clients):
            part = run.to(in_memory)
            return part >= DURABLE_SHARE, f"{bound} ({part:.0%})"
    return False, f"{bound} (not measured)"


def floor_lines(all_runs: Runs) -> Iterator[str]:
    """The floor by itself, of all turns: here the client has most to do."""
    for clients in sorted({clients for _, _, clients in all_runs}):
        floors = [
            turn.floor
            for (_, _, count), run in all_runs.items()
            if count == clients
            for turn in run.turns
        ]
        rate = statistics.median(floor.rate for floor in floors)
        cost = statistics.median(floor.cost_us for floor in floors)
        server = statistics.median(floor.server_s / floor.seconds for floor in floors)
        client = statistics.median(floor.client_s / floor.seconds for floor in floors)
        label = f"the floor: requests, {clients} at a time"
        yield (
            f"{label:70} {rate:9,.0f} {'':8} {1:6.2f} {'':6} "
            f"{cost:7,.0f} {'':7} {server:7.0%} {client:7.0%}"
        )


def explanation(scale: Scale, measured: Measured) -> Iterable[str]:
    sizes = ", ".join(map(str, sorted({rounds[0].answer_bytes for rounds in measured.values()})))
    yield f"Medians of {scale.rounds} rounds of {scale.seconds:g} s, each with the floor before and"
    yield "after, and with servers that are new.  What it says:"
    yield "  a second  lookups, or whole tasks, each from its call to its result"
    yield "  floor     requests a second of a bare ASGI application on the same server software,"
    yield f"            which repeats an answer to tasks/get ({sizes} bytes)"
    yield "  sent      requests for each lookup or task, counted as they are sent"
    yield "  share     of the floor: requests a second of the one, of those of the other"
    yield "  CPU us    of the server's processor for one request"
    yield "  by CPU    the share that follows from it; with many clients it is judged as well,"
    yield "            since on a busy machine the clock flatters whoever is slower"
    yield "  server, client   how much of its core each has used: well below 100 % for the server"
    yield "            with many clients means that others were using the machine"
    yield "Peers keep their tasks in memory, and answer without streams."
    yield "Ours has its rate limit of lookups and its caps on stored tasks set out of the way, and"
    yield "like theirs it logs no line for each request."


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a bound is broken, or ours could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.server")
    parser.add_argument("--peers", action="store_true", help="measure what others have made, too")
    parser.add_argument("--seconds", type=float, default=1, help="of each load; default: 1")
    parser.add_argument("--quick", action="store_true", help="see that it works; no figures")
    parser.add_argument("--profile", action="store_true", help="what takes our server its time")
    options = parser.parse_args(arguments)
    if options.profile:
        print_profiles(load, 20 if options.quick else 10_000)
        return 0
    scale = Scale(1, 0.05, 3) if options.quick else Scale(ROUNDS, options.seconds, 10**9)
    broken = 0

    def failed(subject: Subject, why: str) -> None:
        nonlocal broken
        broken += bool(subject.store)
        print(f"{subject.name}, {subject.revision}: not measured: {why}", flush=True)

    subjects = [*ours(), *(peers() if options.peers else ())]
    measured = measure(subjects, scale, failed)
    print(*explanation(scale, measured), "", HEADER, sep="\n")
    all_runs = runs(measured)
    print(*floor_lines(all_runs), sep="\n")
    for line, holds in judged(all_runs):
        broken += not holds
        print(line, flush=True)
    return int(broken > 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and no server stays behind
    sys.exit(main())
