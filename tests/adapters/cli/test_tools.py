"""`taskmachine tools`, and arguments of `call`, against a real server over HTTP and stdio."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskmachine.adapters.cli.main import main
from tests.site.serving import TASKMACHINE, served

STDIO = shlex.join([TASKMACHINE, "serve", "--stdio", "--store", "memory:", "--log-level", "error"])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("server"), "--store", "memory:") as address:
        yield address


@pytest.fixture
def url(address: str) -> str:
    return f"http://{address}/mcp"


def said(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Return the output of a command, or its only line of error."""
    assert main(arguments) == code
    out, err = capfd.readouterr()
    assert "Traceback" not in err
    assert code == 0 or err.count("\n") == 1
    return err if code else out


def test_a_table_has_every_tool_with_its_arguments(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = said(capfd, "tools", url).splitlines()
    assert lines[0].split() == ["tool", "arguments", "description"]
    rows = {line.split()[0]: line for line in lines[2:] if line[0] != " "}
    assert rows.keys() == {"greet", "count", "deploy", "sample", "fail", "crash"}
    assert "  [to] [pause_ms]  Count slowly" in rows["count"]
    assert "  version  " in rows["deploy"]
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("width", [80, 100])
def test_every_word_fits_the_terminal(
    width: int, url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskmachine.adapters.cli.main.PAGE_WIDTH", width)
    for arguments in ([], ["count"], ["deploy"]):
        lines = said(capfd, "tools", url, *arguments).splitlines()
        assert max(map(len, lines)) <= width
        assert "…" not in "".join(lines)


def test_a_server_of_2025_says_which_calls_can_be_tasks(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    old = ("--generation", "2025-11-25")
    lines = said(capfd, "tools", url, *old).splitlines()
    support = {line.split()[0]: line.split() for line in lines[2:] if line[0] != " "}
    assert support["greet"][2] == "no"
    assert support["deploy"][2] == "optional"
    assert "task\n  optional\n" in said(capfd, "tools", url, "deploy", *old)


def test_one_tool_shows_its_schemas_and_how_to_call_it(capfd: pytest.CaptureFixture[str]) -> None:
    shown = [line.rstrip() for line in said(capfd, "tools", STDIO, "deploy").splitlines()]
    assert shown[0] == "deploy"
    assert "  version  string, required  as in 1.4.2; length 1 to 40" in shown
    assert shown[-1] == f"  taskmachine call {shlex.quote(STDIO)} deploy version=..."
    counted = said(capfd, "tools", STDIO, "count")
    assert "result\n  object of integer\n" in counted
    assert "the last number; 1 to 100000; default 10" in counted


def test_programs_get_the_tools_as_the_server_sent_them(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    tools = {tool["name"]: tool for tool in json.loads(said(capfd, "tools", url, "--json"))}
    assert len(tools) == 6
    assert json.loads(said(capfd, "tools", url, "count", "--json")) == tools["count"]
    assert tools["count"]["inputSchema"]["properties"]["to"]["maximum"] == 100_000


def test_a_call_takes_options_between_its_arguments(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["to=2", "--json", "pause_ms:=1", "--timeout", "50"]
    result = json.loads(said(capfd, "call", url, "count", *words))
    assert result["structuredContent"] == {"counted": 2}


def test_arguments_override_those_of_a_file(
    url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "all.json").write_text('{"to": 9, "pause_ms": 1}')
    assert said(capfd, "call", url, "count", "to=3", "--args", f"@{tmp_path}/all.json") == (
        '{"counted":3}\n'
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["tools", "{url}", "gret"], 1, "no tool 'gret': did you mean 'greet'? To list them:"),
        (["call", "{url}", "gret"], 1, "To list them: taskmachine tools http://127.0.0.1:"),
        (["call", "{url}", "zzz"], 1, "the server has no tool 'zzz'. To list them:"),
        (["call", "{url}", "greet"], 2, "greet needs name: add name=TEXT"),
        (["call", "{url}", "greet", "nam=A"], 2, "no argument 'nam': did you mean 'name'?"),
        (["call", "{url}", "fail", "x=1"], 2, "fail has no argument 'x': it takes none"),
        (["call", "{url}", "count", "to=x"], 2, "to must be of type integer, got 'x'"),
        (["tools", "http://{address}"], 1, "did you mean http://{address}/mcp?"),
        (["tools", "http://{address}/console"], 1, "HTTP 405 Method Not Allowed): did you mean"),
        (["call", "http://{address}/", "greet"], 1, "no MCP server at http://{address}/ ("),
        (["tools", "{address}/mcp"], 2, "has no scheme: did you mean http://{address}/mcp?"),
        (["tools", "{address}"], 2, "has no scheme: did you mean http://{address}/mcp?"),
        (["tools", "http://127.0.0.1:1/mcp"], 1, "taskmachine serve --http 127.0.0.1:1"),
        (["tools", "no-such-program"], 2, "cannot start 'no-such-program': there is no such"),
        (["tools", "http://[::1"], 2, "is not a valid URL"),
        (["tools", "http:///mcp"], 2, "is not a valid URL"),
        (["tools", "sftp://host/mcp"], 2, "is not an http:// or https:// URL"),
        (["check", "http://{address}/"], 2, "did you mean http://{address}/mcp?"),
        (["check", "{address}/mcp"], 2, "has no scheme: did you mean http://{address}/mcp?"),
        (["check", "http://127.0.0.1:1/mcp"], 2, "taskmachine serve --http 127.0.0.1:1"),
        (["check", "--replay", "pyproject.toml"], 2, "not a replay file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_that_says_what_to_type(
    arguments: list[str], code: int, words: str, address: str, capfd: pytest.CaptureFixture[str]
) -> None:
    names = {"address": address, "url": f"http://{address}/mcp"}
    given = [word.format(**names) for word in arguments]
    assert words.format(**names) in said(capfd, *given, code=code)


def test_a_token_that_is_missing_is_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tokens.toml").write_text(f'ci = "{"0" * 64}"\n')
    (tmp_path / "tokens.toml").chmod(0o600)
    (tmp_path / "auth.toml").write_text('[auth]\nkind = "tokens"\ntokens = "tokens.toml"\n')
    options = ("--store", "memory:", "--config", "auth.toml")
    with served(tmp_path, *options) as address:
        error = said(capfd, "tools", f"http://{address}/mcp", code=1)
    assert "HTTP 401" in error
    assert "--token-file FILE" in error


def test_a_missing_package_is_named_with_its_extra() -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "from taskmachine.adapters.cli.main import main\n"
        "sys.exit(main(['tools', 'http://127.0.0.1:1/mcp']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr == (
        "taskmachine: error: a URL needs the package httpx: pip install 'taskmachine[server]'\n"
    )
