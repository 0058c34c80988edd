"""Mistakes of authors and callers: one line that names the place and what to do, no traceback."""

import re
import shlex
import sys
from pathlib import Path
from typing import Final

import pytest

from taskmachine.adapters.cli.main import main
from tests.site.serving import TASKMACHINE

HEAD: Final = """\
import asyncio, contextlib, threading
from collections.abc import Iterator
from typing import Annotated
from pydantic import BaseModel, Field
from taskmachine import *
tools = Tools()
class Inner(BaseModel):
    x: int
class Outer(BaseModel):
    inner: Inner
async def wrong_lifespan(tools):
    yield
"""

PROGRAMS: Final = {
    "@tools.task\ndef f(x: threading.Thread): ...": "parameter 'x': threading.Thread cannot be",
    "@tools.task\ndef f() -> Iterator[int]: ...": "the return type: ",
    "@tools.task\ndef f(x: 'Nowhere'): ...": "define or import it at the top of the module",
    "@tools.task\ndef f(x: Annotated[int, Field(min_length=2)]): ...": "does not fit int",
    "@tools.task\ndef f() -> Annotated[str, Field(ge=2)]: ...": "does not fit str",
    "@tools.task\ndef f(x: Annotated[str, Field(pattern='(')]): ...": "unclosed group",
    "@tools.task\ndef f(x, /): ...": "but arguments are passed by name",
    "@tools.task\ndef f(*x): ...": "but they are passed by name",
    "@tools.task\ndef f(a: Context, b: Context): ...": "takes the context twice: a, b",
    "@tools.task\ndef f():\n    yield": "return a list",
    "@tools.task\nclass F: ...": "is a class; use a function",
    "tools.add(lambda: None)": 'use name="..."',
    "tools.add(5)": "a tool must be a function, got 5",
    "tools.add(print, 'f')\ntools.add(print, 'f')": "",
    "@tools.task('a b')\ndef f(): ...": "use 1 to 128 letters, digits, '_', '-' and '.'",
    "@tools.task(timout=5)\ndef f(): ...": "did you mean 'timeout'?",
    "@tools.task(timeout=0)\ndef f(): ...": "timeout must be from 1 ms to 7 days, got 0 s",
    "@tools.task(timeout='5')\ndef f(): ...": "timeout must be a number of seconds, got str",
    "@tools.task(retries=True)\ndef f(): ...": "retries must be from 0 to 1000, got True",
    "@tools.task(retries=1, backoff=3)\ndef f(): ...": "such as exponential(first=1), got 3",
    "@tools.task(support='maybe')\ndef f(): ...": "must be one of required, optional, forbidden",
    "@tools.task(annotations={'readonlyhint': True})\ndef f(): ...": "did you mean 'readOnlyHint'?",
    "@tools.task(icons=['a.png'])\ndef f(): ...": "icons: must be an object, got str",
    "@tools.task(tags='a')\ndef f(): ...": 'as in ["admin"], got str',
    "@tools.task(schema={'type': 'string'})\ndef f(): ...": 'schema must have the type "object"',
    "Tools(lifespan=wrong_lifespan)": "write @asynccontextmanager above",
    "form('x', Outer)": "forms are flat; move its fields up",
    "choose('x', [])": "needs texts to choose from",
    "tools.run()": 'put it below `if __name__ == "__main__":`',
    "import no_such_module": "No module named 'no_such_module'",
    "def (": "SyntaxError: invalid syntax",
    "1 / 0": "ZeroDivisionError: division by zero",
}
"""The end of a program, and a part of what is said of it."""

SERVER: Final = shlex.join(
    [TASKMACHINE, "serve", "--stdio", "--store", "memory:", "--log-level", "error"]
)

COMMANDS: Final = {
    "serv": "did you mean 'serve'?",
    "serve --stdio no.py": "there is no file ",
    "serve --stdio no_module": "there is no module 'no_module'",
    "serve --stdio empty.py": "it needs one: tools = taskmachine.Tools()",
    "serve --stdio two.py": "add :a or :b",
    "serve --stdio two.py:x": "must be of type Tools, not int; add :a or :b",
    "serve --stdio --store x.db": "did you mean sqlite:x.db?",
    "serve --stdio --store sqlit:x.db": "did you mean sqlite:x.db?",
    "serve --stdio --store sqlite:no/x.db": "the folder no does not exist",
    "serve --stdio --store sqlite:empty.py": "is not a SQLite database",
    "serve --http 8000": "HOST:PORT as in 127.0.0.1:8000",
    "serve --http 0.0.0.0:8000": "configure [auth], or use --insecure",
    "serve --stroe x": "did you mean '--store' or '--stdio'?",
    "serve --config no.toml": "cannot read no.toml: No such file",
    "serve --config typo.toml": "unknown key stor, use one of: ",
    "serve --stdio --engine celery": "must be one of local, procrastinate",
    "tasks list --store sqlite:no.db": "name the store that the server printed at its start",
    "call 127.0.0.1:1 x": "did you mean http://127.0.0.1:1/mcp?",
    "call http://127.0.0.1:1/mcp x": "start one with: taskmachine serve --http 127.0.0.1:1",
    "call ftp://x/mcp x": "is not an http:// or https:// URL",
    "call ./two.py x": "did you mean 'python ./two.py'?",
    "tools no-such-program": "there is no such program",
    f"call {shlex.quote(SERVER)} gret": "did you mean 'greet'?",
    f"call {shlex.quote(SERVER)} greet nam=Ada": "did you mean 'name'?",
    f"call {shlex.quote(SERVER)} greet": "add name=TEXT",
    f"call {shlex.quote(SERVER)} count to=x": "to must be of type integer, got 'x'",
    f"call {shlex.quote(SERVER)} greet Ada": "write KEY=VALUE",
    f"call {shlex.quote(SERVER)} greet --args {{x": "--args is not valid JSON",
    "new json": "choose another name, such as my-json",
    "completion tcsh": "choose from 'bash', 'zsh', 'fish'",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("empty", "two", "shop_of_mistakes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "two.py").write_text(
        "from taskmachine import Tools\na, b, x = Tools(), Tools(), 1\n"
    )
    (tmp_path / "typo.toml").write_text('stor = "memory:"\n')
    return tmp_path


def error_of(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that fails, and return its only line."""
    try:
        code: object = main(arguments)
    except SystemExit as leaving:
        code = leaving.code
    assert code in (1, 2)
    lines = capfd.readouterr().err.splitlines()
    [line] = [line for line in lines if not line.startswith("taskmachine: serving ")]
    assert line.startswith("taskmachine: error: ")
    return line


def test_these_are_many() -> None:
    assert len(PROGRAMS) + len(COMMANDS) >= 40


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_wrong_program_is_named_with_its_line(
    program: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "shop_of_mistakes.py").write_text(HEAD + program + "\n")
    line = error_of(capfd, "serve", "shop_of_mistakes.py", "--stdio", "--store", "memory:")
    assert PROGRAMS[program] in line
    found = re.match(r"taskmachine: error: shop_of_mistakes.py:(\d+): ", line)
    assert found is not None, line
    first = HEAD.count("\n") + (-1 if "lifespan" in program else 1)  # its function is above
    assert first <= int(found[1]) <= first + program.count("\n")


@pytest.mark.parametrize("command", COMMANDS, ids=range(len(COMMANDS)))
def test_a_wrong_command_says_what_to_type(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert COMMANDS[command] in error_of(capfd, *shlex.split(command))
