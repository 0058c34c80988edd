"""`tools.run()`: a file with tools is a server."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from taskmachine import ConfigurationError, Tools, connect, serve
from tests.adapters.cli.programs import COMMAND, ORDER, Program, ended
from tests.adapters.transports.pipes import HELLO


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(ORDER)
    return tmp_path


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Program]:
    program = Program([sys.executable, "shop.py", *arguments], folder)
    try:
        yield program
        assert program.end(signal.SIGTERM) == 0
    finally:
        program.process.kill()
        program.process.wait()


def failure(folder: Path, *arguments: str) -> str:
    """Run the program, which must exit with 2 and one line (after what the module printed)."""
    done = ended(sys.executable, "shop.py", *arguments, folder=folder)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    [line] = done.stderr.removeprefix("from the module\n").splitlines()
    return line


async def test_the_official_client_calls_its_tools_over_stdio(folder: Path) -> None:
    server = StdioServerParameters(command=sys.executable, args=["shop.py"], cwd=folder)
    async with Client(server) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {
            "greet",
            "order",
            "pack",
        }
        [block] = (await client.call_tool("greet", {"name": "Ada"})).content
        assert isinstance(block, TextContent)
        assert block.text == "Hello, Ada!"
    assert (folder / "taskmachine.db").exists()


def test_standard_output_has_messages_only(folder: Path) -> None:
    """The output of the module is still in Python's buffer when the server begins."""
    call = {"method": "tools/call", "params": {"name": "greet", "arguments": {"name": "Ada"}}}
    hello = {"method": "initialize", "params": HELLO}
    requests = [{"jsonrpc": "2.0", "id": id, **ask} for id, ask in enumerate([hello, call])]
    with subprocess.Popen(
        [sys.executable, "shop.py", "--store", "memory:"], cwd=folder, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        for request in requests:
            process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answers: list[dict[str, Any]] = []
        while not any(answer.get("id") == 1 for answer in answers):
            answers.append(json.loads(process.stdout.readline()))
        rest, log = process.communicate()
    assert rest == ""
    assert process.returncode == 0
    for place in ("the module", "the tool", "a process"):
        assert f"from {place}\n" in log


async def test_open_question_survives_a_kill(folder: Path) -> None:
    """Over HTTP, on the address of a settings file."""
    asked, answered = asyncio.Event(), asyncio.Event()

    async def answer(question: Any) -> Any:
        asked.set()
        await answered.wait()
        return question.accept()

    config = folder / "server.toml"
    config.write_text('http = "127.0.0.1:0"\nstore = "sqlite:shop.db"\n')
    with serving(folder, "--config", "server.toml") as first:
        url = first.until_logged(r"serving 3 tools on (\S+), tasks in sqlite:shop\.db")
        async with connect(url, answer=answer) as session:
            task = await session.call("order", {"item": "tea"})
            await asked.wait()
            first.end(signal.SIGKILL)
            first.end = lambda number: 0  # type: ignore[method-assign]
            with serving(folder, "--http", url[7:-4], "--store", "sqlite:shop.db") as second:
                second.until_logged("serving 3 tools")
                answered.set()
                assert (await task.result())["content"][0]["text"] == "Ordered tea: accept."


def test_help_has_the_options_of_serve_and_names_the_program(folder: Path) -> None:
    helps = {
        program: ended(*command, "--help", folder=folder).stdout
        for program, command in {
            "shop.py": [sys.executable, "shop.py"],
            "taskmachine serve": [*COMMAND, "serve"],
        }.items()
    }
    words = {program: set(text.split()) for program, text in helps.items()}
    assert helps["shop.py"].startswith("from the module\nusage: shop.py [-h]")
    options = {word for word in words["taskmachine serve"] if word.startswith("--")}
    assert options - words["shop.py"] == {"--tools"}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("tools.run()", "tools.run(); tools.run()", "no store for 'paper:'"),
        ("tools.run()", "import asyncio\n    async def f(): tools.run()\n    asyncio.run(f())",
         "a server runs its own event loop: start it outside of async functions"),
        ("name: str", "name: type", "shop.py:11: tool 'greet': parameter 'name': type cannot"),
        ('if __name__ == "__main__":\n', "if False: ...\nelse:\n", "no store for 'paper:'"),
    ],
)  # fmt: skip
def test_errors_are_one_line(folder: Path, old: str, new: str, says: str) -> None:
    assert old in ORDER
    (folder / "shop.py").write_text(ORDER.replace(old, new))
    assert failure(folder, "--store", "paper:").startswith(f"shop.py: error: {says}")


def test_debug_shows_the_traceback_of_an_error(folder: Path) -> None:
    for source in (ORDER, ORDER.replace("name: str", "name: type")):
        (folder / "shop.py").write_text(source)
        said = ended(sys.executable, "shop.py", "--store", "paper:", "--debug", folder=folder)
        assert "Traceback" in said.stderr


def test_an_import_cannot_start_a_server(folder: Path) -> None:
    (folder / "shop.py").write_text(ORDER.replace('__name__ == "__main__"', "True"))
    (folder / "tests.py").write_text("import shop\n")
    said = ended(sys.executable, "tests.py", folder=folder).stderr
    assert said.startswith("tests.py: error: shop.py:34: tools.run() would start a second server: ")


async def test_serve_refuses_a_running_event_loop() -> None:
    with pytest.raises(ConfigurationError, match="outside of async functions"):
        serve(Tools())
