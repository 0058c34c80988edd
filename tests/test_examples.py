"""The examples are started as their page says, and do what it says."""

import ast
import asyncio
import importlib.util
import itertools
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import tomllib
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from taskmachine.adapters.stores import Conflict, Store, StoreError
from taskmachine.adapters.stores.testing.contract import (
    NewPlace,
    PersistentStoreContract,
    StoreContract,
)
from taskmachine.adapters.stores.testing.scenes import (
    created,
    ended,
    moved,
    started,
    state_of,
)
from tests.oracle import REPOSITORY
from tests.ports import free_port

EXAMPLES: Final = REPOSITORY / "docs" / "examples"
PAGE: Final = (EXAMPLES / "README.md").read_text()
NAMES: Final = sorted(path.name for path in EXAMPLES.glob("*.py"))

TASKMACHINE: Final = str(Path(sys.executable).with_name("taskmachine"))

PATIENCE_S: Final = 30.0
"""For the output of a program: usually a few tenths of a second, but machines may be busy."""


def command(name: str) -> list[str]:
    """Return the command of the page for an example, with this interpreter."""
    [shown] = re.findall(rf"`(python docs/examples/{re.escape(name)}[^`]*)`", PAGE)
    _, _, *arguments = shlex.split(shown)
    return [sys.executable, str(EXAMPLES / name), *arguments]


# --- the folder -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_example_has_a_command_on_the_page(name: str) -> None:
    assert f"[{name}]({name})" in PAGE
    assert command(name)


def test_the_page_lists_nothing_that_is_not_there() -> None:
    assert sorted(re.findall(r"^\| \[(\w+\.py)\]", PAGE, re.MULTILINE)) == NAMES


def test_every_example_is_used_by_a_test() -> None:
    used = set().union(*map(_names, (REPOSITORY / "tests").rglob("*.py")))
    assert set(NAMES) - used == set(), "no test starts these"


def _names(path: Path) -> set[str]:
    """Return the last parts of all paths that a module quotes."""
    nodes = ast.walk(ast.parse(path.read_text()))
    quoted = (node.value for node in nodes if isinstance(node, ast.Constant))
    return {text.rpartition("/")[2] for text in quoted if isinstance(text, str)}


# --- server and client ------------------------------------------------------------------------


async def start(place: Path, arguments: list[str]) -> Process:
    return await asyncio.create_subprocess_exec(
        *arguments, cwd=place, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )


async def output_until(program: Process, words: str) -> list[str]:
    """Return the output of the program, up to the line with these words."""
    assert program.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while not lines or words not in lines[-1]:
            line = await program.stdout.readline()
            assert line, f"it ended without '{words}': {lines}"
            lines.append(line.decode())
    return lines


async def rest(program: Process, typed: str = "") -> list[str]:
    """Type, and return the remaining output; the program must end without an error."""
    async with asyncio.timeout(PATIENCE_S):
        out, err = await program.communicate(typed.encode())
    assert (program.returncode, err.decode()) == (0, "")
    return out.decode().splitlines()


def run(act: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await act()

    asyncio.run(main())


def test_example_client_shows_live_progress_and_asks_the_user(tmp_path: Path) -> None:
    async def act() -> None:
        client = await start(tmp_path, command("questions.py"))
        before = await output_until(client, "asked:")
        assert before[-1] == "asked: Where does it go?\n"
        shown = [line for line in before if "packed" in line]
        assert shown[-1].endswith(": 3 of 3 packed\n"), "it is packed before the question"
        assert len(shown) > 1, "and shows progress before the end"
        assert shown == sorted(shown, key=lambda line: line.split(": ")[1])
        after = await rest(client, "\nAda\nperhaps\nyes\n")
        assert [line.strip() for line in after if "needed" in line or "must be" in line]
        assert after[-1] == "Sent 3 items to Ada, as a gift."

    run(act)


def test_the_end_of_the_input_declines(tmp_path: Path) -> None:
    async def act() -> None:
        client = await start(tmp_path, command("questions.py"))
        assert (await rest(client))[-1] == "Nothing was sent."

    run(act)


def test_server_killed_during_a_question_does_not_ask_twice(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    *server_command, shown_address = command("plain_server.py")
    assert shown_address == "127.0.0.1:8000", "and another one here, which is free"
    client_command = [*command("questions.py"), f"http://{address}/mcp"]

    async def act() -> None:
        server = await start(tmp_path, [*server_command, address])
        client = None
        try:
            assert await output_until(server, "serving") == [f"serving on http://{address}/mcp\n"]
            client = await start(tmp_path, client_command)
            await output_until(client, "asked:")
            server.kill()
            await server.communicate()
            server = await start(tmp_path, [*server_command, address])
            await output_until(server, "serving")
            after = await rest(client, "Ada\nno\n")
            assert after[-1] == "Sent 3 items to Ada."
            assert not [line for line in after if "asked:" in line], "the user is not asked twice"
            server.send_signal(signal.SIGINT)
            assert await rest(server) == []
        finally:
            for program in (server, client):
                if program is not None and program.returncode is None:
                    program.kill()
                    await program.communicate()

    run(act)


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("plain_server.py", ["256.0.0.1:80"], "cannot listen on 256.0.0.1:80"),
        ("questions.py", ["http://127.0.0.1:9/mcp"], "127.0.0.1:9"),
        ("small_store.py", ["no/such/folder/notes.journal", "x"], "cannot be opened"),
    ],
)
def test_examples_report_errors_in_one_line(
    name: str, arguments: list[str], why: str, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    [said] = ended.stderr.splitlines()
    assert why in said
    assert (ended.returncode, ended.stdout) == (1, "")


# --- the store --------------------------------------------------------------------------------


def _open_journal() -> Callable[[str], Awaitable[Store]]:
    spec = importlib.util.spec_from_file_location("small_store", EXAMPLES / "small_store.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    opener: Callable[[str], Awaitable[Store]] = module.open_journal
    return opener


open_journal: Final = _open_journal()


class TestSmallStore(StoreContract):
    """Closed and opened again; it refuses two processes at once."""

    persists = True
    test_acknowledged_writes_survive_closing_and_reopening_the_store = (
        PersistentStoreContract.test_acknowledged_writes_survive_closing_and_reopening_the_store
    )
    test_sessions_stay_when_the_store_is_opened_again = (
        PersistentStoreContract.test_sessions_stay_when_the_store_is_opened_again
    )

    @pytest.fixture
    def new_place(self, tmp_path: Path) -> NewPlace:
        numbers = itertools.count()

        def new_place() -> Callable[[], Awaitable[Store]]:
            path = tmp_path / str(next(numbers))
            return lambda: open_journal(f"journal:{path}")

        return new_place


def test_the_notes_of_an_earlier_run_are_there(tmp_path: Path) -> None:
    *begin, text = command("small_store.py")
    for texts in ([text], ["walk", text]):
        ended = subprocess.run(
            [*begin, texts[0]], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        expected = [f'completed {{"text":"{noted}"}}' for noted in texts]
        assert ended.stdout.splitlines() == expected


def test_the_store_is_found_by_the_entry_point_of_the_guide(tmp_path: Path) -> None:
    guide = (REPOSITORY / "docs" / "howto" / "adapters.md").read_text()
    [shown] = re.findall(r"^```toml\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    points = tomllib.loads(shown)["project"]["entry-points"]["taskmachine.stores"]
    installed = tmp_path / "small_store-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: small_store\nVersion: 1\n")
    lines = [f"{scheme} = {function}" for scheme, function in points.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[taskmachine.stores]", *lines]))
    [serve] = re.findall(r"`taskmachine (serve --store journal:\S+)`", guide)
    server = shlex.join([TASKMACHINE, *serve.split(), "--stdio", "--log-level", "error"])
    for _ in range(2):
        called = subprocess.run(
            [TASKMACHINE, "call", server, "count", "--args", '{"to": 1, "pause_ms": 0}'],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(EXAMPLES)])},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert (called.returncode, called.stdout.strip()) == (0, '{"counted":1}'), called.stderr
    assert (tmp_path / "tasks.journal").read_bytes().count(b'["adopt",') == 2


async def _two_tasks(url: str) -> tuple[object, ...]:
    """Return the state after creating a task, ending another one, and a refused transition."""
    store = await open_journal(url)
    await created(store, "t1")
    task = await created(store, "t2")
    await moved(store, ended(await moved(store, started(task))))
    with pytest.raises(Conflict):
        await moved(store, started(task))
    state = await state_of(store)
    await store.close()
    return state


def test_a_line_without_an_end_is_dropped_and_no_other(tmp_path: Path) -> None:
    journal = tmp_path / "journal"

    async def act() -> None:
        before = await _two_tasks(f"journal:{journal}")
        whole = journal.read_bytes()
        with journal.open("ab") as file:
            file.write(whole.splitlines()[1][:-1])  # a process was killed while it wrote this
        for _ in range(2):
            store = await open_journal(f"journal:{journal}")
            assert await state_of(store) == before
            assert journal.read_bytes() == whole
            await created(store, "t3")  # continues after the last whole line
            await store.close()
            store = await open_journal(f"journal:{journal}")
            task = await store.load("t3")
            assert task is not None
            await store.close()
            journal.write_bytes(whole)

    run(act)


@pytest.mark.parametrize(
    "content",
    [
        b"other",
        b"[1,2]\n",
        b'["adopt_secret",["no base64!"]]\n',
        b'["adopt_secret",["AAAA"]]\n["load",["t1"]]\n',
        b'["adopt_secret",["AAAA"]]\n["close",[]]\n',
        b'["adopt_secret",["AAAA"]]\n["create",[{}]]\n',
        b'["adopt_secret",["AAAA"]]\nhalf\n["beat",["w1"]]\n',
    ],
)
def test_file_that_is_not_a_journal_is_refused_and_left_unchanged(
    content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(StoreError, match="no journal, or damaged"):
        asyncio.run(_two_tasks(f"journal:{file}"))
    assert file.read_bytes() == content


def test_a_journal_is_for_one_at_a_time(tmp_path: Path) -> None:
    url = f"journal:{tmp_path / 'journal'}"

    async def act() -> None:
        first = await open_journal(url)
        with pytest.raises(StoreError, match="used by another process"):
            await open_journal(url)
        await first.close()
        await (await open_journal(url)).close()

    run(act)


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """Limit the size of files, like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_failed_journal_write_changes_nothing_and_blocks_later_writes(tmp_path: Path) -> None:
    journal = tmp_path / "journal"

    async def act() -> None:
        before = await _two_tasks(f"journal:{journal}")
        store = await open_journal(f"journal:{journal}")
        with files_no_longer_than(journal.stat().st_size + 20), pytest.raises(StoreError):
            await created(store, "t3")
        with pytest.raises(StoreError):
            await created(store, "t4")
        assert await state_of(store) == before, "it can still be read"
        await store.close()
        store = await open_journal(f"journal:{journal}")
        assert await state_of(store) == before
        await store.close()

    run(act)
