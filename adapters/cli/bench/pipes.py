"""`stdio` and `start`: whole tasks over pipes, and the time to the first answer."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from taskmachine.adapters.cli.bench.connection import Answer, Script, WrongAnswer
from taskmachine.adapters.cli.bench.contestants import Contestant
from taskmachine.adapters.cli.bench.dialogs import DIALOGS, Dialog
from taskmachine.adapters.cli.bench.figures import Failed, Row, case_of, row_of
from taskmachine.adapters.cli.bench.load import repeated
from taskmachine.adapters.cli.bench.processes import (
    NotStarted,
    core_of_servers,
    end,
    environment_of_servers,
    on_core,
    processor_seconds,
)
from taskmachine.adapters.cli.bench.requester import Frame, decode
from taskmachine.adapters.cli.bench.workload import Workload

__all__ = ["measure_start", "measure_stdio"]

CLIENTS: Final = (1, 32)
PATIENCE_S: Final = 30
FIRST: Final = "to the first answer"


class Pipe:
    """A server as a child process; scripts share its pipes by means of request ids."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin.fileno()
        self._output = process.stdout.fileno()
        self._received = b""
        self.sent = 0

    def play(self, scripts: Sequence[Script[Any]]) -> list[Any]:
        """Play all scripts concurrently and return their results."""
        waiting: dict[int, tuple[int, Script[Any]]] = {}
        ended: dict[int, Any] = {}

        def advance(at: int, script: Script[Any], answer: Answer | None) -> None:
            try:
                request = next(script) if answer is None else script.send(answer)
            except StopIteration as stop:
                ended[at] = stop.value
                return
            waiting[decode(request.splitlines()[-1])["id"]] = at, script
            self.sent += 1
            self._write(request)

        for at, script in enumerate(scripts):
            advance(at, script, None)
        while waiting:
            for line in self._lines():
                message = decode(line)
                found = waiting.pop(message.get("id"), None) if "method" not in message else None
                if found is not None:
                    advance(*found, Answer(200, b"", line))
        return [ended[at] for at in range(len(scripts))]

    def _write(self, request: bytes) -> None:
        try:
            while request:
                request = request[os.write(self._input, request) :]
        except BrokenPipeError:
            raise WrongAnswer("the server has ended") from None

    def _lines(self) -> list[bytes]:
        data = os.read(self._output, 1 << 20)
        if not data:
            raise WrongAnswer("the server closed its output")
        *lines, self._received = (self._received + data).split(b"\n")
        return [line for line in lines if line.strip()]


@contextlib.contextmanager
def _spawned(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "errors.txt").open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            env=environment_of_servers(),
            preexec_fn=lambda: on_core(core_of_servers()),
        )
    # Kill a server that does not answer, which ends the read.
    watch = threading.Timer(PATIENCE_S, process.kill)
    watch.daemon = True
    watch.start()
    try:
        yield process
    finally:
        watch.cancel()
        end(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _on_pipes(one: Contestant, act: Callable[[Sequence[str], Path], dict[str, Any]]) -> Any:
    """Return what `act` returns for the command; raise `Failed` with the reason otherwise."""
    if one.missing:
        raise Failed(one.missing)
    if one.stdio is None:
        raise Failed("no stdio transport")
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        own = Path(name)
        try:
            return act(one.stdio(own, stack), own)
        except (WrongAnswer, NotStarted, OSError, ValueError) as error:
            lines = (own / "errors.txt").read_text(errors="replace").strip().splitlines()
            raise Failed(f"{error}: {lines[-1][:200]}" if lines else str(error)) from None


def measure_stdio(
    contestants: Sequence[Contestant], workload: Workload, say: Callable[[str], None]
) -> list[Row]:
    """Measure the contestants in turn, with a new process in each round."""

    def act(one: Contestant, command: Sequence[str], own: Path) -> dict[str, dict[str, float]]:
        with _spawned(command, own) as process:
            pipe = Pipe(process)
            most = max(CLIENTS)
            dialogs = [DIALOGS[one.dialog](Frame(), first=at + 1, step=most) for at in range(most)]
            pipe.play([dialogs[0].open()])
            return {case_of(n): _loaded(pipe, process.pid, dialogs[:n], workload) for n in CLIENTS}

    rounds = min(workload.rounds, workload.whole_rounds)
    return _in_rounds("stdio", contestants, rounds, act, say)


def _loaded(
    pipe: Pipe, pid: int, dialogs: Sequence[Dialog], workload: Workload
) -> dict[str, float]:
    def one_task(dialog: Dialog) -> Script[None]:
        task_id = yield from dialog.create()
        yield from dialog.finish(task_id)

    sent, used, begun = pipe.sent, processor_seconds(pid), time.perf_counter()
    until = begun + workload.seconds
    done = sum(
        pipe.play([repeated(partial(one_task, each), until, workload.most) for each in dialogs])
    )
    took = time.perf_counter() - begun
    return {
        "rate": done / took,
        "sent": (pipe.sent - sent) / done,
        "cpu_us": (processor_seconds(pid) - used) / done * 1e6,
    }


def measure_start(
    contestants: Sequence[Contestant], workload: Workload, say: Callable[[str], None]
) -> list[Row]:
    """Measure the time from process start to the first answer, beside a bare Python."""

    def act(one: Contestant, command: Sequence[str], own: Path) -> dict[str, dict[str, float]]:
        begun = time.perf_counter()
        with _spawned(command, own) as process:
            dialog = DIALOGS[one.dialog](Frame())
            Pipe(process).play([dialog.hello()])
            return {FIRST: {"ms": (time.perf_counter() - begun) * 1e3}}

    alone = [_bare_ms() for _ in range(workload.starts)]
    bare = row_of("start", "python -c pass", "", FIRST, [{"ms": ms} for ms in alone])
    return [bare, *_in_rounds("start", contestants, workload.starts, act, say)]


def _bare_ms() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter() - begun) * 1e3


def _in_rounds(
    measure: str,
    contestants: Sequence[Contestant],
    rounds: int,
    act: Callable[[Contestant, Sequence[str], Path], dict[str, dict[str, float]]],
    say: Callable[[str], None],
) -> list[Row]:
    taken: dict[Contestant, list[dict[str, dict[str, float]]]] = {one: [] for one in contestants}
    skipped: dict[Contestant, str] = {}
    for number in range(rounds):
        say(f"{measure}, round {number + 1} of {rounds}")
        for one in contestants:
            if one not in skipped:
                try:
                    taken[one].append(_on_pipes(one, partial(act, one)))
                except Failed as error:
                    skipped[one] = str(error)
    rows = []
    for one, found in taken.items():
        if one in skipped:
            rows.append(Row(measure, one.name, one.revision, "", skipped=skipped[one]))
            continue
        for case in found[0]:
            values = [each[case] for each in found]
            rows.append(row_of(measure, one.name, one.revision, case, values))
    return rows
