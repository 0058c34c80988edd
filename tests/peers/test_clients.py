"""Official clients run whole tasks on our server, where they can be installed."""

import itertools
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, get_args

import pytest

from tests.peers.client_runs import PEERS, ClientRun, Transport, judge, run_client
from tests.peers.installed import Unavailable

ClientRuns = Mapping[tuple[str, Transport, str], Future[ClientRun]]
WAYS = list(itertools.product(get_args(Transport), ("demo", "sdk")))
"""Transports and servers: our own, or the official SDK's with our tasks."""


@pytest.fixture(scope="module")
def runs() -> Iterator[ClientRuns]:
    """Run all clients concurrently, as they mostly wait, but install them one by one."""
    with ThreadPoolExecutor(4) as pool:
        found: dict[tuple[str, Transport, str], Future[ClientRun]] = {}
        for name, peer in PEERS.items():
            runs = [(name, transport, served) for transport, served in WAYS]
            try:
                peer.command()
            except Unavailable as error:
                failed: Future[ClientRun] = Future()
                failed.set_exception(error)
                found |= dict.fromkeys(runs, failed)
            else:
                found |= {run: pool.submit(run_client, *run) for run in runs}
        yield found


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize(("transport", "served"), WAYS)
@pytest.mark.parametrize("name", PEERS)
def test_third_party_client_gets_answers_that_match_the_specification(
    name: str, transport: Transport, served: str, runs: ClientRuns
) -> None:
    try:
        run = runs[name, transport, served].result()
    except Unavailable as error:
        if name == "mcp_1":  # pip installs taskmachine, too
            raise
        pytest.skip(str(error))
    assert not run.wrong, run.log[-5_000:]


# --- the judge -------------------------------------------------------------------------------

EXT_TASKS = PEERS["ext_tasks_2026_07_28"]

GOOD: list[dict[str, Any]] = [
    {
        "step": "initialize",
        "revision": "2026-07-28",
        "capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    },
    {"step": "tools", "names": ["greet", "count", "deploy"]},
    {"step": "plain", "content": [{"text": "Hello, Ada!"}]},
    {
        "step": "settled",
        "kind": "task",
        "status": "completed",
        "statuses": ["working", "completed"],
        "result": {"structuredContent": {"counted": 3}},
    },
    {
        "step": "answer",
        "asked": [{"kind": "elicitation", "message": "Deploy 1.2?"}],
        "content": [{"text": "1.2 is deployed to live."}],
    },
    {
        "step": "sampling",
        "asked": [{"kind": "sampling", "text": "Write one sentence about tasks."}],
        "content": [{"text": "Tasks take time."}],
    },
    {"step": "failed", "status": "completed", "result": {"isError": True}},
    {"step": "crashed", "status": "failed", "failure": {"code": -32603}},
    {"step": "cancelled", "status": "cancelled"},
    {"step": "snapshot", "status": "cancelled"},
    {"step": "cancel again"},
    {"step": "unknown", "code": -32602},
    {"step": "end"},
]


def test_a_good_life_is_good() -> None:
    assert not judge(EXT_TASKS, GOOD)


@pytest.mark.parametrize("place", range(len(GOOD)))
def test_a_life_in_which_a_step_is_missing_is_not(place: int) -> None:
    assert judge(EXT_TASKS, [*GOOD[:place], *GOOD[place + 1 :]])


@pytest.mark.parametrize(
    ("step", "change"),
    [
        ("initialize", {"revision": "2025-11-25"}),
        ("initialize", {"capabilities": {"tasks": {}}}),
        ("tools", {"names": []}),
        ("plain", {"content": [{"text": "Hello!"}]}),
        ("settled", {"kind": "immediate"}),
        ("settled", {"statuses": ["working", "failed"]}),
        ("settled", {"statuses": ["completed", "working", "completed"]}),
        ("settled", {"result": {}}),
        ("answer", {"asked": []}),
        ("answer", {"asked": [{"kind": "elicitation", "message": "Deploy 1.2?"}] * 2}),
        ("answer", {"content": [{"text": "1.2 was not deployed: not confirmed."}]}),
        ("sampling", {"asked": [{"kind": "sampling", "text": ""}]}),
        ("failed", {"status": "failed"}),
        ("failed", {"result": {"isError": False}}),
        ("crashed", {"status": "completed"}),
        ("crashed", {"failure": {"code": -32000}}),
        ("cancelled", {"status": "completed"}),
        ("snapshot", {"status": "working"}),
        ("cancel again", {"code": -32602}),
        ("unknown", {"code": -32603}),
    ],
)
def test_a_life_in_which_a_step_is_wrong_is_not(step: str, change: dict[str, Any]) -> None:
    run = [{**told, **change} if told["step"] == step else told for told in GOOD]
    [wrong, *_] = judge(EXT_TASKS, run)
    assert wrong.startswith(f"{step}: ")
