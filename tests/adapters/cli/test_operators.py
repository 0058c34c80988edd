"""Operator commands on the store of a server, run on real files."""

import asyncio
import json
import os
import pty
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from taskmachine.adapters.cli.main import main
from taskmachine.adapters.rendering.tasks import duration
from taskmachine.adapters.rendering.wording import printable
from taskmachine.adapters.stores import Worker, open_store
from taskmachine.adapters.stores.sqlite.schema import VERSION
from taskmachine.adapters.stores.sqlite.store import open_sqlite
from taskmachine.statemachine import Call, ConfigurationError, Entry, Outcome, State, Task
from tests.adapters.example_store import OTHER, OWNER, RUDE, make
from tests.oracle import REPOSITORY

COMMAND = str(Path(sys.executable).with_name("taskmachine"))
PAGE = (REPOSITORY / "docs" / "reference" / "cli.md").read_text()
UNKNOWN = "task9" + "0" * 27
DASHED = "--state_" + "0" * 24

Run = Callable[..., str]


@pytest.fixture
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Make a store `tasks.db` in the working directory, and return the ids of its tasks by tool."""
    monkeypatch.chdir(tmp_path)
    return asyncio.run(make("sqlite:tasks.db"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(arguments) == code
        out, err = capsys.readouterr()
        assert bool(err) == (code != 0 and not out), err
        return out or err

    return run


def run_json(run: Run, *arguments: str, code: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", code=code))


def everything(url: str) -> dict[str, tuple[Task, list[Entry]]]:
    async def read() -> dict[str, tuple[Task, list[Entry]]]:
        store = await open_store(url)
        try:
            return {task.id: (task, list(entries)) async for task, entries in store.export()}
        finally:
            await store.close()

    return asyncio.run(read())


# --- tasks list ------------------------------------------------------------------------------


def test_a_list_shows_the_newest_first(ids: dict[str, str], run: Run) -> None:
    listed = run_json(run, "tasks", "list", "--store", "sqlite:tasks.db")
    assert [task["tool"] for task in listed] == ["index", "mirror", "deploy", "convert", "greet"]
    lines = run("tasks", "list", "--store", "sqlite:tasks.db").splitlines()
    assert [line.split()[0] for line in lines[2:]] == [task["taskId"] for task in listed]
    assert [line.split()[1] for line in lines[2:]] == [task["state"] for task in listed]
    assert re.search(rf"{ids['mirror']} +working +mirror +bob +\ds +59m +42/1000 copying", lines[3])


@pytest.mark.parametrize(
    ("options", "tools"),
    [
        (["--owner", OWNER], ["deploy", "greet"]),
        (["--owner", OTHER, "--state", "failed"], ["convert"]),
        (["--state", "input_required"], ["deploy"]),
        (["--state", "cancelled"], []),
        (["--owner", "nobody"], []),
        (["--limit", "2"], ["index", "mirror"]),
        (["--limit", "1", "--state", "completed"], ["greet"]),
    ],
)
@pytest.mark.usefixtures("ids")
def test_a_list_can_be_narrowed(options: list[str], tools: list[str], run: Run) -> None:
    arguments = ["tasks", "list", "--store", "sqlite:tasks.db", *options]
    assert [task["tool"] for task in run_json(run, *arguments)] == tools
    if not tools:
        assert run(*arguments) == "There are no such tasks.\n"


def test_tasks_list_continues_beyond_one_page_of_the_store(tmp_path: Path, run: Run) -> None:
    url = f"sqlite:{tmp_path / 'tasks.db'}"
    asyncio.run(make(url))

    async def multiply() -> None:
        store = await open_store(url)
        async for task, _ in store.export():
            call = task.call
        for number in range(250):
            await store.adopt(Task(f"more{number:028}", "eve", call, number, number), ())
        await store.close()

    asyncio.run(multiply())
    assert len(run_json(run, "tasks", "list", "--store", url, "--limit", "1000")) == 255
    shown = run("tasks", "list", "--store", url)
    assert shown.endswith("Showing the newest 50 tasks; use --limit to show more.\n")
    assert (
        len(run_json(run, "tasks", "list", "--store", url, "--owner", "eve", "--limit", "240"))
        == 240
    )


def test_a_tool_error_is_not_shown_as_a_success(tmp_path: Path, run: Run) -> None:
    url = f"sqlite:{tmp_path / 'tasks.db'}"

    async def end() -> None:
        store = await open_store(url)
        outcome = Outcome.of_result(b'{"content":[]}', is_error=True)
        call = Call("tools/call", "fail")
        ended = Task("fails", "eve", call, 0, 0, state=State.COMPLETED, outcome=outcome)
        await store.adopt(ended, ())
        await store.close()

    asyncio.run(end())
    for command in (["list"], ["show", "fails"]):
        shown = run("tasks", *command, "--store", url)
        assert "tool error" in shown
        assert "completed" not in shown


def test_a_store_without_tasks(tmp_path: Path, run: Run) -> None:
    url = f"sqlite:{tmp_path / 'new.db'}"
    asyncio.run(_touch(url))
    assert run("tasks", "list", "--store", url) == "There are no tasks.\n"
    assert run_json(run, "tasks", "list", "--store", url) == []
    assert "tasks     0 " in run("store", "check", url)


async def _touch(url: str) -> None:
    await (await open_store(url)).close()


def test_control_characters_of_a_task_are_escaped_in_the_terminal(tmp_path: Path, run: Run) -> None:
    url = f"sqlite:{tmp_path / 'tasks.db'}"
    ids = asyncio.run(make(url, rude=True))
    for command in (["list"], ["show", ids["shout"]], ["history", ids["shout"]]):
        for options in ([], ["--json"]):
            shown = run("tasks", *command, "--store", url, *options)
            assert all(char.isprintable() or char == "\n" for char in shown)
            assert "owned" in shown or (command[0] != "show" and not options)
    [task] = run_json(run, "tasks", "list", "--store", url, "--owner", RUDE)
    assert task["statusMessage"] == task["outcome"]["message"] == RUDE
    refused = run("tasks", "show", "\x1b[31m", "--store", url, code=1)
    assert refused == "taskmachine: error: no task '\\x1b[31m'\n"


def test_a_terminal_gets_colours_and_its_width(ids: dict[str, str]) -> None:
    for columns in (70, 100, 160):
        shown = in_terminal(columns, "tasks", "list", "--store", "sqlite:tasks.db")
        assert "\x1b[32mcompleted" in shown
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert max(map(len, plain.splitlines())) <= columns
        row = next(line.split() for line in plain.splitlines() if "42/1000" in line)
        assert ids["mirror"].startswith(row[0])
        assert len(row[0]) == (12 if columns < 100 else 32)


def in_terminal(columns: int, *arguments: str) -> str:
    main_end, child_end = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen([COMMAND, *arguments], stdout=child_end, env=environment) as child:
        os.close(child_end)
        shown = b""
        while chunk := _read(main_end):
            shown += chunk
    os.close(main_end)
    assert child.returncode == 0
    return shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how a terminal reports that all writers have closed it
        return b""


# --- one task --------------------------------------------------------------------------------


def test_tasks_show_prints_every_field_of_a_task(ids: dict[str, str], run: Run) -> None:
    shown = run("tasks", "show", ids["deploy"], "--store", "sqlite:tasks.db")
    for words in ('{"version": "1.4"}', "alice", "building", "1/3", "Deploy 1.4 now?", "open"):
        assert words in shown
    assert 'answered: {"action": "accept", "content": {"stage": "live"}}' in shown
    task = run_json(run, "tasks", "show", ids["deploy"], "--store", "sqlite:tasks.db")
    assert task["arguments"] == {"version": "1.4"}
    assert [question["isOpen"] for question in task["questions"]] == [False, True]
    assert task["questions"][0]["answer"]["body"]["content"] == {"stage": "live"}
    assert "Hello, Ada!" in run("tasks", "show", ids["greet"], "--store", "sqlite:tasks.db")
    assert "-32050 page 3 is damaged" in run(
        "tasks", "show", ids["convert"], "--store", "sqlite:tasks.db"
    )


def test_long_values_are_cut(tmp_path: Path, run: Run) -> None:
    url = f"sqlite:{tmp_path / 'tasks.db'}"
    ids = asyncio.run(make(url, name="long " * 10_000))
    shown = run("tasks", "show", ids["greet"], "--store", url)
    assert len(shown.splitlines()) < 40
    assert "…" in shown
    assert len(run("tasks", "show", ids["greet"], "--store", url, "--json")) > 50_000


def test_a_history_has_every_move(ids: dict[str, str], run: Run) -> None:
    arguments = ("tasks", "history", ids["convert"], "--store", "sqlite:tasks.db")
    moves = run_json(run, *arguments)
    events = ["submit", "start", "report", "report", "report", "fail"]
    assert [move["event"] for move in moves] == events
    assert moves[-1]["note"] == "page 3 is damaged"
    lines = run(*arguments).splitlines()[2:]
    assert [line.split()[3] for line in lines] == events


def test_a_cancelled_task_says_why(ids: dict[str, str], run: Run) -> None:
    arguments = ("tasks", "cancel", ids["index"], "--store", "sqlite:tasks.db")
    assert run(*arguments, "--reason", "no space") == f"Task {ids['index']} is cancelled.\n"
    again = run(*arguments, code=1)
    assert again == (
        f"taskmachine: error: task '{ids['index']}' has ended already: it is cancelled\n"
    )
    task, entries = everything("sqlite:tasks.db")[ids["index"]]
    assert task.outcome is not None
    assert (task.outcome.cause, task.outcome.message) == ("cancelled", "no space")
    assert entries[-1].note == "no space"
    cancelled = run_json(run, "tasks", "cancel", ids["deploy"], "--store", "sqlite:tasks.db")
    assert cancelled["outcome"]["message"] == "The task was cancelled by an operator."
    assert not any(question["isOpen"] for question in cancelled["questions"])


def test_an_ended_task_is_run_again_as_a_new_one(ids: dict[str, str], run: Run) -> None:
    arguments = ("tasks", "rerun", ids["convert"], "--store", "sqlite:tasks.db")
    said = run(*arguments)
    again = run_json(run, *arguments, "--keep-steps")
    assert (again["state"], again["rerunOf"]) == ("submitted", ids["convert"])
    [new] = everything("sqlite:tasks.db").keys() - {*ids.values(), again["taskId"]}
    assert said == f"Task {new} runs task {ids['convert']} again.\n"
    shown = run("tasks", "show", new, "--store", "sqlite:tasks.db")
    assert re.search(rf"rerun of +{ids['convert']}\s", shown)
    live = run("tasks", "rerun", ids["deploy"], "--store", "sqlite:tasks.db", code=1)
    assert live == (
        f"taskmachine: error: task '{ids['deploy']}' has not ended: cancel it before it is run"
        " again\n"
    )


def test_purge_all_ended_deletes_only_ended_tasks(ids: dict[str, str], run: Run) -> None:
    assert run("tasks", "purge", "--store", "sqlite:tasks.db") == "0 tasks deleted.\n"
    arguments = ("tasks", "purge", "--all-ended", "--store", "sqlite:tasks.db")
    assert run_json(run, *arguments) == {"purged": 2}
    assert everything("sqlite:tasks.db").keys() == {ids[t] for t in ("index", "mirror", "deploy")}
    assert run(*arguments) == "0 tasks deleted.\n"
    assert "problems  none" in run("store", "check", "sqlite:tasks.db")


def test_purge_deletes_tasks_beyond_their_retention(tmp_path: Path, run: Run) -> None:
    url = f"sqlite:{tmp_path / 'tasks.db'}"
    ids = asyncio.run(make(url, ago_ms=2 * 24 * 3_600_000))
    assert run("tasks", "purge", "--store", url) == "2 tasks deleted.\n"
    assert everything(url).keys() == {ids[tool] for tool in ("index", "mirror", "deploy")}


# --- stores ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("ids")
def test_a_check_counts_and_finds_nothing(run: Run) -> None:
    found = run_json(run, "store", "check", "sqlite:tasks.db")
    states = {"completed": 1, "failed": 1, "input_required": 1, "submitted": 1, "working": 1}
    assert (found["tasks"], found["workers"], found["problems"]) == (states, 0, [])
    assert found["schemaVersion"] >= 1


def spoil(statement: str, task_id: str) -> None:
    with closing(sqlite3.connect("tasks.db", isolation_level=None)) as connection:
        connection.execute(statement, (task_id,))


def test_a_check_finds_damage(ids: dict[str, str], run: Run, tmp_path: Path) -> None:
    spoil("UPDATE tasks SET version = 99 WHERE id = ?", ids["greet"])
    shown = run("store", "check", "sqlite:tasks.db", code=1)
    assert "problems  1" in shown
    assert ids["greet"] in shown
    assert len(run_json(run, "store", "check", "sqlite:tasks.db", code=1)["problems"]) == 1
    spoil("UPDATE tasks SET record = x'00' WHERE id = ?", ids["greet"])
    assert "cannot be read" in run("store", "check", "sqlite:tasks.db", code=1)
    (tmp_path / "torn.db").write_bytes(b"SQLite format 3\0" + b"\1" * 5_000)
    assert "torn.db" in run("store", "check", "sqlite:torn.db", code=1)


@pytest.mark.usefixtures("ids")
def test_a_backup_is_a_store(run: Run) -> None:
    assert run("store", "backup", "sqlite:tasks.db", "copy.db").startswith("Copied to copy.db, ")
    assert everything("sqlite:copy.db") == everything("sqlite:tasks.db")
    assert run("store", "backup", "sqlite:tasks.db", "copy.db", code=2).endswith(
        "copy.db exists: choose another file\n"
    )
    assert run_json(run, "store", "backup", "sqlite:tasks.db", "more.db")["file"] == "more.db"


@pytest.mark.usefixtures("ids")
def test_store_migrate_copies_everything_and_refuses_a_filled_target(run: Run) -> None:
    assert run("store", "migrate", "sqlite:tasks.db", "sqlite:new.db") == "5 tasks copied.\n"
    assert everything("sqlite:new.db") == everything("sqlite:tasks.db")
    refused = run("store", "migrate", "sqlite:tasks.db", "sqlite:new.db", code=1)
    assert refused == "taskmachine: error: sqlite:new.db is not empty\n"
    assert run_json(run, "store", "migrate", "sqlite:tasks.db", "sqlite:b.db") == {"copied": 5}


@pytest.mark.usefixtures("ids")
def test_a_store_in_use_does_not_migrate(run: Run) -> None:
    async def act() -> None:
        store = await open_sqlite("sqlite:tasks.db")
        await store.register_worker(Worker("w", "another machine", 1))
        await store.close()

    asyncio.run(act())
    refused = run("store", "migrate", "sqlite:tasks.db", "sqlite:new.db", code=1)
    assert "stop it first" in refused
    assert not Path("new.db").exists()


@pytest.mark.usefixtures("ids")
def test_before_an_upgrade_one_can_look(run: Run) -> None:
    command = ("store", "migrate", "--check", "sqlite:tasks.db")
    assert run(*command) == f"The schema has version {VERSION} and is up to date.\n"
    assert run_json(run, *command) == {"schemaVersion": VERSION, "knownVersion": VERSION}
    with closing(sqlite3.connect("tasks.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert "has schema version 99" in run(*command, code=2)


# --- the store and the id of a task ----------------------------------------------------------


@pytest.mark.usefixtures("ids")
def test_the_store_is_that_of_serve(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (Path("server.toml")).write_text('store = "sqlite:tasks.db"\nhttp = "127.0.0.1:8000"\n')
    assert len(run_json(run, "tasks", "list", "--config", "server.toml")) == 5
    monkeypatch.setenv("TASKMACHINE_STORE", "sqlite:tasks.db")
    assert len(run_json(run, "tasks", "list")) == 5
    assert "'other.db' does not exist" in run("tasks", "list", "--store", "sqlite:other.db", code=2)
    monkeypatch.delenv("TASKMACHINE_STORE")
    assert "'taskmachine.db' does not exist" in run("tasks", "list", code=2)
    assert not Path("taskmachine.db").exists()
    Path("tasks.db").rename("taskmachine.db")
    assert len(run_json(run, "tasks", "list")) == 5


def test_the_beginning_of_an_id_is_enough_if_only_one_begins_so(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'tasks.db'}"
    ids = ["abcd" + "0" * 28, "abcd" + "1" * 28, "abce" + "0" * 28, *(f"many{n}" for n in range(9))]

    async def fill() -> None:
        store = await open_store(url)
        call = Call("tools/call", "greet", b"{}")
        for number, task_id in enumerate([*ids, "abc"]):
            task = Task(task_id, "eve", call, number, number, state=State.SUBMITTED)
            await store.adopt(task, ())
        await store.close()

    asyncio.run(fill())
    named = ("--store", url)
    assert run_json(run, "tasks", "show", "abce", *named)["taskId"] == ids[2]
    assert run_json(run, "tasks", "show", "abcd0", *named)["taskId"] == ids[0]
    assert run_json(run, "tasks", "show", ids[1], *named)["taskId"] == ids[1]
    assert run_json(run, "tasks", "show", "abc", *named)["taskId"] == "abc", "a whole id, if short"
    error = run("tasks", "cancel", "abcd", *named, code=1)
    assert f"several ids begin with 'abcd': {ids[0]}, {ids[1]}\n" in error
    assert run_json(run, "tasks", "show", ids[0], *named)["state"] == "submitted"
    error = run("tasks", "history", "many", *named, code=1)
    assert error.endswith(": many0, many1, many2, many3, many4 and others\n")
    assert "give at least 4 characters" in run("tasks", "show", "ab", *named, code=1)
    assert run("tasks", "show", "abc%", *named, code=1) == "taskmachine: error: no task 'abc%'\n"
    cancelled = f"Task {ids[2]} is cancelled.\n"
    assert run("tasks", "cancel", "abce", *named) == cancelled


# --- errors ----------------------------------------------------------------------------------

WRONG = [
    (["tasks", "list", "--store", "sqlite:typo.db"], 2, "the file 'typo.db' does not exist"),
    (["tasks", "list", "--store", "memory:"], 2, "'memory:' is in the memory of one server"),
    (
        ["tasks", "list", "--store", "tasks.db"],
        2,
        "no store for 'tasks.db': did you mean sqlite:tasks.db?",
    ),
    (["tasks", "list"], 2, "the file 'taskmachine.db' does not exist: name the store that"),
    (["tasks", "list", "--config", "no.toml"], 2, "cannot read no.toml"),
    (["tasks", "list", "--store", "sqlite:"], 2, "'sqlite:' names no file"),
    (["tasks", "list", "--store", "sqlite:a\0b"], 2, "the file 'a\\x00b' does not exist"),
    (["tasks", "list", "--store", "sqlite:."], 2, ". is not a regular file"),
    (["tasks", "list", "--store", "sqlite:notes.txt"], 2, "notes.txt is not a SQLite database"),
    (["tasks", "show", UNKNOWN, "--store", "sqlite:tasks.db"], 1, f"no task '{UNKNOWN}'"),
    (["tasks", "history", UNKNOWN, "--store", "sqlite:tasks.db"], 1, f"no task '{UNKNOWN}'"),
    (["tasks", "cancel", UNKNOWN, "--store", "sqlite:tasks.db"], 1, f"no task '{UNKNOWN}'"),
    (["tasks", "show", "--store", "sqlite:tasks.db", "--", "-x"], 1, "no task '-x'"),
    (["tasks", "show", DASHED, "--store", "sqlite:tasks.db"], 1, f"no task '{DASHED}'"),
    (["tasks", "cancel", "--store", "sqlite:tasks.db", "--", DASHED], 1, f"no task '{DASHED}'"),
    (["store", "check", "sqlite:typo.db"], 2, "the file 'typo.db' does not exist"),
    (["store", "check", "memory:"], 2, "'memory:' is in the memory of one server"),
    (["store", "backup", "sqlite:tasks.db", "no/folder.db"], 2, "no/folder.db cannot be created"),
    (["store", "migrate", "sqlite:typo.db", "sqlite:b.db"], 2, "the file 'typo.db' does not exist"),
    (["store", "migrate", "sqlite:tasks.db", "memory:"], 2, "'memory:' is in the memory"),
    (
        ["store", "migrate", "sqlite:tasks.db", "sqlite:no/b.db"],
        2,
        "no/b.db cannot be created: the folder",
    ),
    (["store", "migrate", "sqlite:tasks.db"], 2, "'store migrate' takes either TO or --check"),
    (
        ["store", "migrate", "--check", "sqlite:tasks.db", "sqlite:b.db"],
        2,
        "'store migrate' takes either TO or --check",
    ),
    (["store", "migrate", "--check", "sqlite:typo.db"], 2, "the file 'typo.db' does not exist"),
    (["store", "migrate", "--check", "sqlite:notes.txt"], 2, "notes.txt is not a SQLite database"),
    (["store", "migrate", "--check", "memory:"], 2, "'memory:' has no schema to check"),
    (
        ["store", "check", "postgresql://u:hidden@h/db?schema=A"],
        2,
        "the schema of the store must be up to 50 lower-case letters",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG)
@pytest.mark.usefixtures("ids")
def test_operator_commands_report_errors_in_one_sentence_and_create_no_files(
    arguments: list[str], code: int, words: str, run: Run
) -> None:
    Path("notes.txt").write_text("not a database, " * 100)
    before = set(Path().iterdir())
    said = run(*arguments, code=code)
    assert said.startswith(f"taskmachine: error: {words}")
    assert said.count("\n") == 1
    assert set(Path().iterdir()) == before, "nothing was made"


@pytest.mark.parametrize(
    "arguments",
    [
        ["tasks"],
        ["tasks", "list", "--store", "sqlite:x", "--limit", "0"],
        ["tasks", "list", "--store", "sqlite:x", "--limit", "many"],
        ["tasks", "list", "--store", "sqlite:x", "--state", "removed"],
        ["tasks", "show", "--store", "sqlite:x"],
        ["store"],
        ["store", "backup", "sqlite:x"],
    ],
)
def test_usage_errors_leave_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    assert leaving.value.code == 2
    assert capsys.readouterr().err.startswith("taskmachine: error: ")


def test_debug_option_raises_the_original_error() -> None:
    with pytest.raises(ConfigurationError):
        main(["--debug", "tasks", "list", "--store", "memory:"])


def test_unexpected_error_prints_one_line_without_traceback(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    link = locked / "loop"
    link.symlink_to(link)
    done = subprocess.run(
        [COMMAND, "tasks", "list", "--store", f"sqlite:{link / 'tasks.db'}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("taskmachine: ")
    assert done.stderr.count("\n") == 1


# --- words -----------------------------------------------------------------------------------


def test_durations_have_at_most_four_characters() -> None:
    for ms, words in [
        (-1, "0s"), (999, "0s"), (99_999, "99s"), (100_000, "1m"), (5_999_999, "99m"),
        (6_000_000, "1h"), (48 * 3_600_000 - 1, "47h"), (48 * 3_600_000, "2d"),
    ]:  # fmt: skip
        assert duration(ms) == words


def test_text_for_a_terminal_is_only_to_be_seen() -> None:
    assert printable("plain ä 日本 🎉") == "plain ä 日本 🎉"
    assert printable("\x1b[1m\r\n\t\x7f\x9b\u202e\u2028") == r"\x1b[1m\r\n\t\x7f\x9b\u202e\u2028"


# --- the document ----------------------------------------------------------------------------


def examples() -> list[tuple[str, str]]:
    """Return each command in a text block of docs/reference/cli.md with its documented output."""
    blocks = re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [
        (command, output)
        for block in blocks
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def test_operator_commands_print_the_output_of_the_page(ids: dict[str, str], run: Run) -> None:
    shown = examples()
    assert ids
    for command, output in shown:
        program, *arguments = shlex.split(command)
        assert program == "taskmachine"
        assert comparable(run(*arguments)) == comparable(output), command
    said = {tuple(shlex.split(command)[1:3]) for command, _ in shown}
    tasks = {("tasks", verb) for verb in ("list", "show", "history", "cancel", "rerun", "purge")}
    assert said == tasks | {("store", verb) for verb in ("check", "backup", "migrate")}


def comparable(text: str) -> list[str]:
    """Remove what differs from run to run: times and sizes, and the space around them."""
    text = re.sub(r"\d{4}-\d\d-\d\d[ T][\d:.]+( UTC|Z)?", "TIME", text)
    text = re.sub(r"\b\d+([smhd]\b| bytes)|(?<=^schema    version )\d+", "SOME", text, flags=re.M)
    text = re.sub(r"(?<=^Task )\S{32}(?= runs)", "ID", text, flags=re.M)
    return [" ".join(line.split()) for line in text.splitlines()]
