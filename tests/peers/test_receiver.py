"""A third-party server sends requests as tasks: the asynchronous tools of the reference server."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.receiving import Receiver, Receiving
from taskmachine.protocol.jsonrpc import Message, Request
from tests.adapters.memory_service import run
from tests.oracle import REPOSITORY
from tests.peers.checked import SERVERS
from tests.peers.installed import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.peers]

ELICITATION: Final = "trigger-elicitation-request-async"
SAMPLING: Final = "trigger-sampling-request-async"
PROMPT: Final = {"prompt": "What is the answer?", "maxTokens": 10}
RELATED: Final = "io.modelcontextprotocol/related-task"
EXAMPLE: Final = str(REPOSITORY / "docs/examples/receiver.py")
PATIENCE_S: Final = 60


@pytest.fixture(scope="module")
def everything() -> Sequence[str]:
    try:
        return [*SERVERS["everything"].command(), *SERVERS["everything"].arguments]
    except Unavailable as error:
        pytest.skip(str(error))


Called = Callable[[str, dict[str, Any], Any], str]


@pytest.fixture
def called(everything: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> Called:
    """Return the final text of a tool; the user answers at the second poll."""
    looks = asyncio.Semaphore(0)

    def receive(receiving: Receiving, message: Message) -> None:
        if isinstance(message, Request) and message.method == "tasks/get":
            looks.release()
        plainly(receiving, message)

    plainly = Receiving.receive
    monkeypatch.setattr(Receiving, "receive", receive)

    async def answer_with(said: Any) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            await looks.acquire()
            await looks.acquire()
        return said

    async def main(tool: str, arguments: dict[str, Any], said: Any) -> str:
        async with connect(
            everything, answer=lambda _: answer_with(said), sampling=True, receive=Receiver()
        ) as session:
            result = await (await session.call(tool, arguments)).result()
            return "\n".join(block["text"] for block in result["content"])

    return lambda tool, arguments, said: run(main(tool, arguments, said))


def _result(text: str) -> Any:
    """Return the result of the task as the server shows it at the end."""
    return json.loads(text[text.index("\n{" if "**Result" in text else "{") :])


def test_third_party_server_elicits_by_a_task_and_gets_the_user_input(
    called: Called,
) -> None:
    content = {"name": "Ada", "favoriteColor": "Blue", "agreeToTerms": True}
    accepted = {"action": "accept", "content": content}
    text = called(ELICITATION, {}, accepted)
    assert "[COMPLETED] User provided the requested information!" in text
    assert "- Favorite Color: Blue" in text
    assert "Poll 1: working - Waiting for the user to answer." in text
    result = _result(text)
    task_id = result.pop("_meta")[RELATED]["taskId"]
    assert result == accepted
    assert f"Task created: {task_id}" in text


def test_third_party_server_samples_by_a_task_and_gets_the_model_output(
    called: Called,
) -> None:
    said = {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "deep"}
    text = called(SAMPLING, PROMPT, said)
    assert "[COMPLETED] Async sampling completed!" in text
    assert "Poll 1: working - Waiting for the user" in text
    result = _result(text)
    assert result.pop("_meta")[RELATED]["taskId"] in text
    assert result == said


def test_third_party_server_understands_a_declining_user(everything: Sequence[str]) -> None:
    ended = subprocess.run(
        [
            *(sys.executable, EXAMPLE, "--no", "--call", ELICITATION),
            *("--call", f"{SAMPLING}={json.dumps(PROMPT)}", "--", *everything),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, ended.stderr
    assert "[DECLINED] User declined to provide the requested information." in ended.stdout
    assert "[FAILED] User declined sampling request" in ended.stdout
