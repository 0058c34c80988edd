"""Run official clients through whole tasks on our server, and judge what they receive.

A client is a script in `clients/`, run with the packages of that peer; it prints a JSON object
for each step.  The rules follow the specification and are the same for all clients.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from tests.peers.installed import node_folder, python_of
from tests.peers.serving import command, serving

__all__ = ["PEERS", "ClientRun", "Peer", "Transport", "judge", "run_client"]

Transport = Literal["stdio", "http"]
Step = Mapping[str, Any]
Rules = Mapping[str, Mapping[str, Callable[[Step], bool]]]

_SCRIPTS: Final = Path(__file__).parent / "clients"
_PATIENCE_S: Final = 60
_COUNTED: Final = {"counted": 3}
_RELATED: Final = "io.modelcontextprotocol/related-task"
_TASKS: Final = "io.modelcontextprotocol/tasks"


@attrs.frozen
class ClientRun:
    """The output of a client, and the violations in it."""

    steps: Sequence[Step]
    wrong: Sequence[str]
    log: str


def _says(text: str) -> Callable[[Step], bool]:
    return lambda step: [block["text"] for block in step["content"]] == [text]


def _is_path(statuses: Sequence[str]) -> bool:
    """Return whether a client that polls may see these statuses."""
    return {*statuses[:-1]} <= {"working", "input_required"} and statuses[-1] == "completed"


def _was_asked(kind: str, message: str) -> Callable[[Step], bool]:
    def rule(step: Step) -> bool:
        [asked] = step["asked"]
        return asked["kind"] == kind and message in json.dumps(asked)

    return rule


def _is_related(step: Step, carrier: Step) -> bool:
    return bool(carrier["_meta"][_RELATED] == {"taskId": step["task"]})


def _has(**expected: Any) -> Callable[[Step], bool]:
    return lambda step: all(step.get(name) == value for name, value in expected.items())


def _is_notified(step: Step) -> bool:
    """Return whether all statuses are of known tasks, and none follows a final one."""
    ended = set()
    for status in step["statuses"]:
        if status["taskId"] in ended or status["taskId"] not in step["tasks"]:
            return False
        if status["status"] in ("completed", "failed", "cancelled"):
            ended.add(status["taskId"])
    return True


_ANSWERS: Final[Rules] = {
    "answer": {
        "the person was asked once": lambda s: len(s["asked"]) == 1,
        "the person saw the question": lambda s: _was_asked(s["asked"][0]["kind"], "Deploy 1.2?")(
            s
        ),
        "the answer made the result": _says("1.2 is deployed to live."),
    },
    "sampling": {
        "the model was asked": _was_asked("sampling", "one sentence about tasks"),
        "its text is the result": _says("Tasks take time."),
    },
    "plain": {"a plain call has its result": _says("Hello, Ada!")},
    "unknown": {"an unknown id is -32602": _has(code=-32602)},
}

# Messages about questions and results of a task name it (2025-11-25:related-task).
RULES_2025_11_25: Final[Rules] = {
    **_ANSWERS,
    "initialize": {
        "the revision is agreed on": _has(revision="2025-11-25"),
        "tasks are declared": lambda s: "call" in s["capabilities"]["tasks"]["requests"]["tools"],
    },
    "tools": {
        "the tools say what they support": lambda s: "names" in s or (
            s["support"]["count"] == "optional" and s["support"]["greet"] in ("forbidden", None)
        ),
    },
    "create": {
        "a task begins as working": lambda s: s["task"]["status"] == "working",
        "it has an id": lambda s: len(s["task"]["taskId"]) > 0,
        "it has a ttl": lambda s: s["task"]["ttl"] >= 90_000,
        "it has times": lambda s: s["task"]["createdAt"] <= s["task"]["lastUpdatedAt"],
    },
    "poll": {
        "it ends as completed": lambda s: _is_path(s["statuses"]),
        "it is the same task": lambda s: s["last"]["taskId"] == s["task"],
    },
    "result": {"the result is what was counted": _has(structuredContent=_COUNTED)},
    "progress": {
        "progress arrived": lambda s: [p["progress"] for p in s["heard"]] == [1, 2, 3],
        "progress names the task": lambda s: all(_is_related(s, p) for p in s["heard"]),
    },
    "question": {"it waits for input": lambda s: "input_required" in s["seen"]},
    "fail": {
        "a result that is an error fails the task": _has(status="failed", isError=True),
        "its text is there": lambda s: "always fails" in s["content"][0]["text"],
    },
    "crash": {"a crash is an internal error": _has(status="failed", code=-32603)},
    "cancel": {"a cancelled task is cancelled at once": _has(status="cancelled")},
    "cancel again": {"an ended task cannot be cancelled": _has(code=-32602)},
    "cancelled": {"it stays cancelled": _has(status="cancelled")},
    "result of cancelled": {"it has no result": lambda s: isinstance(s["code"], int)},
    "list": {
        "all tasks are listed, each once": lambda s: sorted(s["listed"]) == sorted(s["made"]),
    },
    "forbidden": {"a forbidden task is -32601": _has(code=-32601)},
    "notified": {"no status follows the last one": _is_notified},
    "settled": {
        "it became a task": _has(kind="task"),
        "it ends as completed": lambda s: _is_path(s["statuses"]),
        "the result is what was counted": lambda s: s["result"]["structuredContent"] == _COUNTED,
    },
    "failed": {"a result that is an error fails the task": _has(status="failed")},
    "crashed": {"a crash fails the task": _has(status="failed")},
    "snapshot": {"it stays cancelled": _has(status="cancelled")},
}  # fmt: skip

RULES_2026_07_28: Final[Rules] = {
    **_ANSWERS,
    "initialize": {
        "the revision is agreed on": _has(revision="2026-07-28"),
        "the extension is declared": lambda s: s["capabilities"]["extensions"][_TASKS] == {},
        "the older capability is not": lambda s: "tasks" not in s["capabilities"],
    },
    "tools": {"there are tools": lambda s: {"greet", "count", "deploy"} <= set(s["names"])},
    "create": {
        "the server made a task": _has(resultType="task", status="working"),
        "it has an id and a ttl": lambda s: bool(s["taskId"]) and s["ttlMs"] > 0,
    },
    "poll": {
        "it ends as completed": lambda s: _is_path(s["statuses"]),
        "the answer is complete": lambda s: s["last"]["resultType"] == "complete",
        "the result is inside": lambda s: s["last"]["result"]["structuredContent"] == _COUNTED,
    },
    "result": {"the result is what was counted": _has(structuredContent=_COUNTED)},
    "question": {
        "it waits for input": _has(status="input_required"),
        "the question is shown": lambda s: [
            asked["method"] for asked in s["inputRequests"].values()
        ] == ["elicitation/create"],
    },
    "answer unseen": {"a call that asks needs no code": _says("1.3 is deployed to live.")},
    "fail": {
        "a result that is an error completes the task": _has(status="completed", isError=True),
    },
    "crash": {"a crash fails the task": _has(status="failed")},
    "cancel": {"a cancelled task is cancelled in the end": _has(status="cancelled")},
    "cancel again": {"that is acknowledged again": lambda s: "code" not in s},
    "settled": {
        "it became a task": _has(kind="task", status="completed"),
        "it ends as completed": lambda s: _is_path(s["statuses"]),
        "the result is what was counted": lambda s: s["result"]["structuredContent"] == _COUNTED,
    },
    "failed": {
        "a result that is an error completes the task": _has(status="completed"),
        "it says so": lambda s: s["result"]["isError"] is True,
    },
    "crashed": {
        "a crash fails the task": _has(status="failed"),
        "it is an internal error": lambda s: s["failure"]["code"] == -32603,
    },
    "cancelled": {"it is cancelled": _has(status="cancelled")},
    "snapshot": {"it stays cancelled": _has(status="cancelled")},
}  # fmt: skip


@attrs.frozen
class Peer:
    """One client in one revision."""

    packages: str
    script: str
    rules: Rules
    steps: str
    """The expected steps in order, separated by commas."""
    arguments: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """Return the command of the script; raise `Unavailable` without its packages."""
        script = _SCRIPTS / self.script
        if script.suffix == ".py":
            return [str(python_of(self.packages)), "-W", "ignore", str(script), *self.arguments]
        folder = node_folder(self.packages)  # where node resolves the imports of a script
        copy = folder / self.script
        if not copy.exists() or copy.read_bytes() != script.read_bytes():  # may be in use
            shutil.copy(script, copy)
        node = folder / "node_modules" / ".bin" / "node"
        return [str(node), str(copy), *self.arguments]


_ENDS: Final = "fail, crash, cancel, cancel again"
_STEPS: Final = (
    "initialize, tools, plain, create, poll, result, progress, question, answer, sampling, "
    f"{_ENDS}, cancelled, result of cancelled, list, unknown"
)
_EXT_TASKS: Final = (
    "initialize, tools, plain, settled, answer, sampling, failed, crashed, cancelled, snapshot, "
    "cancel again, unknown"
)

PEERS: Final[Mapping[str, Peer]] = {
    "mcp_1": Peer("mcp_1", "mcp_1.py", RULES_2025_11_25, f"{_STEPS}, forbidden, notified"),
    "fastmcp_3": Peer("fastmcp_3", "fastmcp_3.py", RULES_2025_11_25, _STEPS),
    "fastmcp_4": Peer(
        "fastmcp_4",
        "fastmcp_4.py",
        RULES_2026_07_28,
        "initialize, tools, plain, create, poll, result, question, answer, answer unseen, "
        f"{_ENDS}, unknown",
    ),
    "sdk_1": Peer("typescript", "sdk_1.mjs", RULES_2025_11_25, f"{_STEPS}, notified"),
    "ext_tasks_2025_11_25": Peer(
        "typescript", "ext_tasks.mjs", RULES_2025_11_25, f"{_EXT_TASKS}, list", ("2025-11-25",)
    ),
    "ext_tasks_2026_07_28": Peer(
        "typescript", "ext_tasks.mjs", RULES_2026_07_28, _EXT_TASKS, ("2026-07-28",)
    ),
}


def run_client(name: str, transport: Transport, served: str = "demo") -> ClientRun:
    """Run a client with a server of its own: see `serving`."""
    peer = PEERS[name]
    client = peer.command()
    if transport == "stdio":
        return _judged(peer, [*client, *command(served, "--stdio")])
    with tempfile.TemporaryDirectory() as folder, serving(served, Path(folder)) as server:
        run = _judged(peer, [*client, server.url])
        is_up = "greet" in server.names()
        log = run.log + server.log.read_text()
        return attrs.evolve(
            run, wrong=[*run.wrong, *([] if is_up else ["the server is not up"])], log=log
        )


def _judged(peer: Peer, client: Sequence[str]) -> ClientRun:
    try:
        done = subprocess.run(client, capture_output=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as error:
        said, heard = (error.stdout or b"").decode(), (error.stderr or b"").decode()
        return ClientRun([], [f"not at an end after {_PATIENCE_S} s"], said + heard)
    lines = [line for line in done.stdout.decode().splitlines() if line.startswith("{")]
    steps: list[Step] = [json.loads(line) for line in lines]
    wrong = list(judge(peer, steps))
    if done.returncode:
        wrong.append(f"the client left with {done.returncode}")
    return ClientRun(steps, wrong, done.stdout.decode() + done.stderr.decode())


def judge(peer: Peer, steps: Sequence[Step]) -> Sequence[str]:
    """Return the violations in the output of a client."""
    wanted = [*peer.steps.split(", "), "end"]
    told = [step["step"] for step in steps]
    if told != wanted:
        return [f"the steps are not {wanted}, but {told}"]
    wrong = []
    for step in steps[:-1]:
        for name, rule in peer.rules[step["step"]].items():
            try:
                holds = rule(step)
            except (KeyError, IndexError, TypeError, ValueError):  # missing members
                holds = False
            if not holds:
                wrong.append(f"{step['step']}: not true that {name}: {json.dumps(step)[:600]}")
    return wrong
