"""The command `taskmachine serve`: errors, log and exit."""

import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from taskmachine.adapters.cli.main import main
from tests.adapters.transports.conftest import Start
from tests.adapters.transports.pipes import COMMAND, DEADLINE_S, HELLO, MISBEHAVING, PipeReader
from tests.oracle import REPOSITORY

FAILING: Final = "tests.adapters.transports.failing_tools:TOOLS"
SHOP: Final = (
    "from taskmachine import Tools\ntools = Tools()\n@tools.task()\nasync def buy() -> None: ...\n"
)
HEADERS: Final = {"accept": "application/json, text/event-stream"}


@pytest.fixture(autouse=True)
def _same_log_level() -> Iterator[None]:
    log = logging.getLogger("taskmachine")
    level = log.level
    yield
    log.setLevel(level)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the command, which must exit with 2, and return its error."""
    assert main(["serve", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("taskmachine: error: ")
    assert err.count("\n") == 1
    return err.removeprefix("taskmachine: error: ").strip()


@contextmanager
def serving(folder: Path, *arguments: str, **environment: str) -> Iterator[str]:
    """Run a server over HTTP until a signal ends it, and return its log."""
    process = subprocess.Popen(
        [COMMAND, "serve", *arguments], stderr=subprocess.PIPE, cwd=folder,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert process.stderr is not None
    log = PipeReader(process.stderr)
    try:
        assert log.until(lambda: b"serving" in b"".join(log.lines)), log.lines
        [line] = [line for line in log.lines if b"serving" in line]
        yield line.decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()
        log.close()
    assert b"Traceback" not in b"".join(log.lines)


# --- where -----------------------------------------------------------------------------------


def test_a_transport_must_be_selected(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys) == "no transport selected: use --http HOST:PORT or --stdio"
    with pytest.raises(SystemExit) as leaving:
        main(["serve", "--stdio", "--http", "127.0.0.1:0"])
    assert leaving.value.code == 2


def test_http_from_the_command_line(tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0") as line:
        found = re.fullmatch(
            r"taskmachine: serving 6 tools on (http://127\.0\.0\.1:\d+/mcp), "
            r"tasks in sqlite:taskmachine\.db\n",
            line,
        )
        assert found is not None, line
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
        answer = httpx.post(found[1], json=hello, headers=HEADERS)
        assert answer.status_code == 200
        assert "2025-11-25" in answer.text
    assert (tmp_path / "taskmachine.db").exists()


def test_http_from_a_file_and_the_environment(tmp_path: Path) -> None:
    config = 'http = "127.0.0.1:1"\nstore = "sqlite:other.db"\npath = "/tools/mcp"\n'
    (tmp_path / "server.toml").write_text(config)
    with serving(tmp_path, "--config", "server.toml", TASKMACHINE_HTTP="127.0.0.1:0") as line:
        assert re.search(r"on http://127\.0\.0\.1:\d\d+/tools/mcp, tasks in sqlite:other\.db", line)


def test_stdio_wins_over_an_address_in_a_file(start: Start, tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text('http = "127.0.0.1:1"\n')
    client = start("--config", str(tmp_path / "server.toml"))
    assert "result" in client.introduce()


@pytest.mark.parametrize("address", ["0.0.0.0:8000", "[::]:8000", "tasks.example:80"])
def test_a_public_address_without_authentication_is_refused(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # With tools that do not exist, a failure of this test serves nothing.
    error = refused(capsys, "--http", address, "--store", "memory:", "--tools", "none")
    assert error == (
        f"anyone who can connect to {address} could call the tools: "
        "configure [auth], or use --insecure to allow this"
    )


def test_insecure_allows_a_public_address(capsys: pytest.CaptureFixture[str]) -> None:
    # An address reserved for documentation.
    arguments = ["--http", "192.0.2.1:8000", "--store", "memory:"]
    assert "--insecure" in refused(capsys, *arguments)
    assert "192.0.2.1:8000" in refused(capsys, *arguments, "--insecure")
    assert "cannot listen on" in refused(capsys, *arguments, "--insecure")


def test_an_address_in_use_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        error = refused(capsys, "--http", address, "--store", "memory:")
    assert error.startswith(f"cannot listen on {address}: Address already in use")


WITHOUT: Final = """
import sys
missing = sys.argv.pop(1).split()
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from taskmachine.adapters.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def run_without(packages: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, packages, *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=DEADLINE_S,
    )  # fmt: skip


def test_the_rest_works_without_the_packages_for_http() -> None:
    extra = "starlette uvicorn httptools uvloop httpx jwt"
    done = run_without(extra, "serve", "--http", "127.0.0.1:0", "--store", "memory:")
    assert done.returncode == 2
    assert done.stderr.endswith(": pip install 'taskmachine[server]'\n")
    assert done.stderr.startswith("taskmachine: error: HTTP needs the package ")
    assert run_without(extra, "table").returncode == 0
    assert run_without(extra, "serve", "--stdio", "--store", "memory:").returncode == 0


def test_http_works_without_the_fast_loop() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run_without("uvloop", "serve", "--http", address, "--store", "memory:")
    assert done.returncode == 2
    assert "cannot listen on" in done.stderr, "the packages were imported"


# --- with what -------------------------------------------------------------------------------


def test_tools_are_named_once_as_an_argument_or_an_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    for tools in (["shop.py"], ["--tools", "shop.py"]):
        with serving(tmp_path, "--http", "127.0.0.1:0", *tools) as line:
            assert line.startswith("taskmachine: serving 1 tool on ")
    with pytest.raises(SystemExit) as leaving:
        main(["serve", "--stdio", "shop.py", "--tools", "shop.py"])
    assert leaving.value.code == 2
    assert "--tools: not allowed with argument TOOLS" in capsys.readouterr().err


def test_server_without_tools_says_how_to_register_one(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP.partition("@")[0])
    done = subprocess.run(
        [COMMAND, "serve", "--stdio", "--store", "memory:", "shop.py"], cwd=tmp_path,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=DEADLINE_S,
    )  # fmt: skip
    assert " WARNING no tool is registered: put @tools.task() above a function\n" in done.stderr


def test_command_reports_configuration_errors_in_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = ("--http", "127.0.0.1:0")
    assert refused(capsys, *here, "--tools", "json:loads").startswith("tools 'json:loads': ")
    assert refused(capsys, *here, "--store", "paper:x").startswith("no store for 'paper:x'")
    assert refused(capsys, *here, "--dialect", "2024-11-05") == (
        "command line: dialect must be 'erlmcp', got '2024-11-05'"
    )
    assert refused(capsys, *here, "--config", "no-such.toml") == (
        "cannot read no-such.toml: No such file or directory"
    )
    monkeypatch.setenv("TASKMACHINE_LIMITS__PAGE", "many")
    assert refused(capsys, *here) == (
        "TASKMACHINE_LIMITS__PAGE: limits.page must be an integer, got string"
    )


# --- what it says, and how it ends -----------------------------------------------------------


@pytest.mark.parametrize("where", [["--stdio"], ["--http", "127.0.0.1:0"]])
def test_a_server_whose_background_work_failed_leaves_with_an_error(where: list[str]) -> None:
    """Its input stays open, so only the failure ends it."""
    process = subprocess.Popen(
        [COMMAND, "serve", *where, "--store", "memory:", "--tools", FAILING],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY,
    )  # fmt: skip
    try:
        assert process.wait(DEADLINE_S) == 1
    finally:
        process.kill()
        error = process.communicate()[1].decode()
    assert error.endswith("taskmachine: sweep failed too often: the disk is gone\n")
    assert "Traceback" not in error


def test_log_lines_cannot_be_forged(start: Start) -> None:
    client = start(tools=MISBEHAVING)
    client.introduce()
    client.ask("tools/call", {"name": "forge"})
    client.until_logged("tool 'forge' raised")
    assert client.end() == 0
    assert "\x1b" not in client.stderr
    assert not re.search(r"^INFO", client.stderr, re.MULTILINE), "the message is indented"
    assert r"\x1b[2J" in client.stderr


def test_the_log_has_a_level(start: Start) -> None:
    client = start("--log-level", "error")
    client.introduce()
    client.ask("tools/call", {"name": "count", "arguments": {"to": 1, "pause_ms": 0}, "task": {}})
    assert client.end() == 0
    assert len(client.stderr.splitlines()) == 1, "only the start"


def test_the_store_is_named_without_its_password(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}//ada:secret@tasks.db"
    done = subprocess.run(
        [COMMAND, "serve", "--stdio", "--store", store],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=DEADLINE_S,
    )  # fmt: skip
    assert f"tasks in sqlite:{tmp_path}//tasks.db\n" in done.stderr
    assert "secret" not in done.stderr
