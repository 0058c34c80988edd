"""The forms in which a user may name a server."""

from pathlib import Path

import pytest

from taskmachine.adapters.client.errors import BadAnswer, CallFailed, ConnectionLost, Refused
from taskmachine.adapters.client.target import explained, how_to_start, read_target
from taskmachine.statemachine import ConfigurationError, TaskmachineError


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://127.0.0.1:8000/mcp", "http://127.0.0.1:8000/mcp"),
        ("https://[::1]:1/", "https://[::1]:1/"),
        ("python server.py --name 'two words'", ["python", "server.py", "--name", "two words"]),
        ("python", ["python"]),
        ("server:8000 --stdio", ["server:8000", "--stdio"]),
        ("no-such-program", ["no-such-program"]),
        ("x" * 5_000, ["x" * 5_000]),
        ("./tools.example", ["./tools.example"]),
        ("", []),
    ],
)
def test_a_target_is_a_url_or_a_command(text: str, target: str | list[str]) -> None:
    assert read_target(text) == target


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("127.0.0.1:8000/mcp", "http://127.0.0.1:8000/mcp"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/mcp"),
        ("localhost:8000/", "http://localhost:8000/mcp"),
        ("localhost/api", "http://localhost/api"),
        ("[::1]:8000", "http://[::1]:8000/mcp"),
        ("tools.example/mcp", "https://tools.example/mcp"),
        ("tools.example", "https://tools.example/mcp"),
    ],
)
def test_a_url_without_a_scheme_is_recognised(text: str, meant: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_target(text)
    assert str(caught.value) == f"'{text}' has no scheme: did you mean {meant}?"


def test_a_file_is_a_command_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.example").touch()
    assert read_target("tools.example") == ["tools.example"]


@pytest.mark.parametrize(
    ("error", "is_about_the_path"),
    [
        (Refused(404, "HTTP 404"), True),
        (Refused(405, "HTTP 405"), True),
        (BadAnswer("text/html"), True),
        (Refused(401, "HTTP 401"), False),
        (Refused(503, "HTTP 503"), False),
        (CallFailed(-32603, "the database is down"), False),
        (ConnectionLost("no answer"), False),
    ],
)
def test_only_an_answer_of_another_page_is_about_the_path(
    error: TaskmachineError, is_about_the_path: bool
) -> None:
    better = explained(error, "http://h:1/api?x=1")
    assert ("did you mean http://h:1/mcp?" in str(better)) == is_about_the_path
    assert str(error) in str(better)
    assert explained(error, "http://h:1/mcp") is error


def test_only_this_machine_can_start_a_server() -> None:
    assert how_to_start("http://localhost:80/x").endswith("taskmachine serve --http localhost:80")
    assert how_to_start("http://tools.example/mcp") == ""
