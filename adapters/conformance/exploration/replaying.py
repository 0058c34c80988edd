"""Replays: moves that showed a fault, written to a file and repeated."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from taskmachine.adapters.conformance.catalogue import requirements_of_servers
from taskmachine.adapters.conformance.discovery import list_tools
from taskmachine.adapters.conformance.errors import CannotCheck
from taskmachine.adapters.conformance.exploration.exploring import run_moves
from taskmachine.adapters.conformance.exploration.moves import Move
from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.profile import Profile, Role, ToolCall
from taskmachine.adapters.conformance.recorder import Recorder
from taskmachine.adapters.conformance.report import Finding, Report, judge_all
from taskmachine.adapters.conformance.run import Options
from taskmachine.adapters.conformance.target import Revision, Target
from taskmachine.adapters.conformance.transcripts import lines, pasteable
from taskmachine.adapters.conformance.wire.caller import TargetLost

__all__ = ["Replay", "read_replay", "replay", "write_replays"]


@attrs.frozen
class Replay:
    """A fault found by exploration."""

    revision: Revision
    id: str
    moves: tuple[Move, ...]
    calls: Mapping[Role, ToolCall]


def read_replay(text: str) -> Replay:
    """Parse a file that `write_replays` wrote. Raise CannotCheck if it is not one."""
    try:
        read = json.loads(text)
        calls = {Role(role): ToolCall(**call) for role, call in read["calls"].items()}
        if read["id"] not in requirements_of_servers(read["revision"]):
            raise ValueError(f"unknown requirement {read['id']!r}")
        return Replay(read["revision"], read["id"], tuple(read["moves"]), calls)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise CannotCheck(f"not a replay file: {error!r}") from None


async def replay(target: Target, again: Replay, options: Options) -> Finding:
    """Repeat the moves, and judge the requirement that they violated."""
    recorder = Recorder(lambda: time.monotonic() * 1_000)
    profile = Profile(again.calls)
    harness = Harness(target, again.revision, recorder, seed=options.seed, profile=profile)
    try:
        await list_tools(await harness.caller())
        await run_moves(harness, options, again.moves)
    except TargetLost as error:
        raise CannotCheck(f"cannot connect to the target: {error}") from None
    finally:
        await harness.close()
    requirements = requirements_of_servers(again.revision)
    (finding,) = judge_all(harness.history(), requirements, frozenset({again.id}))
    return finding


def write_replays(report: Report, folder: Path) -> None:
    """Write a replay for each fault of exploration, and the requests of every violation."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for run in report.runs:
            for id, fault in run.replays.items():
                document = {
                    "revision": run.revision,
                    "id": id,
                    "words": fault.words,
                    "seed": report.seed,
                    "moves": list(fault.moves),
                    "calls": {role: _call(call) for role, call in run.profile.calls.items()},
                }
                path = folder / f"{_name(id)}.replay.json"
                path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")
            url = report.target if run.transport == "http" else None
            for finding in run.broken:
                text = [f"# {finding.id}: {finding.words}", *pasteable(finding.transcript, url)]
                text += ["", *(f"# {line}" for line in lines(finding.transcript))]
                path = folder / f"{_name(finding.id)}.{run.revision}.requests.txt"
                path.write_text("\n".join(text) + "\n", "utf-8")
    except OSError as error:
        raise CannotCheck(f"cannot write to {folder}: {error}") from None


def _name(id: str) -> str:
    return id.replace(":", "-")


def _call(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "arguments": dict(call.arguments)}
