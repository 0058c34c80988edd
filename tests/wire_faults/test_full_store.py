"""A store that cannot be written causes a clear error and no partial writes.

The tests lower the file size limit of the running process and raise it again.  To SQLite that
looks like a full disk, and it needs no privileges.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.wire_faults.clients import Modern, Session, text_of
from tests.wire_faults.server_process import Server, eventually, serving

linux_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs prlimit, which only Linux has"
)


@contextmanager
def full(server: Server) -> Iterator[None]:
    server.limit_files(0)
    try:
        yield
    finally:
        server.limit_files(-1)


def is_internal_error(response: dict[str, Any]) -> bool:
    error = response["error"]
    return error["code"] == -32603 and "Traceback" not in error["message"]


@linux_only
def test_a_full_disk_creates_no_partial_task_and_space_helps(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        session, modern = Session(server), Modern(server)
        before = session.create("hold", gate=str(tmp_path / "gate"))
        eventually(lambda: (tmp_path / "gate.runs").exists(), "the tool runs")
        logged = len(server.log)
        with full(server):
            params = {"name": "hold", "arguments": {"gate": str(tmp_path / "never")}}
            assert is_internal_error(session.ask("tools/call", {**params, "task": {}}))
            assert is_internal_error(modern.ask("tools/call", params))
            logged_errors = eventually(
                lambda: [line for line in server.log[logged:] if str(server.store) in line],
                "the log names the file",
                3,
            )
            assert all("disk" in line or "cannot be written" in line for line in logged_errors)
            assert session.status(before) == "working", "reads still work"
            with session.wire(session.request("tools/list", {})) as wire:
                assert wire.answer().status == 200
            refused = session.post(
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "initialize",
                    "params": {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {},
                        "clientInfo": {"name": "x", "version": "0"},
                    },
                },
                {},
            )
            assert refused.status == 500, refused
            assert is_internal_error(refused.json)
            assert "mcp-session-id" not in refused.headers
            logged = len(server.log)
            (tmp_path / "gate").touch()  # the tool ends now, and its result cannot be written
            eventually(
                lambda: [line for line in server.log[logged:] if str(server.store) in line],
                "the server tries to write the result",
            )
        try:
            eventually(lambda: session.status(before) == "completed", "the result is written")
        except AssertionError as error:
            raise AssertionError("\n".join(server.log)) from error
        assert (tmp_path / "gate.runs").read_text() == "run\n", "the tool ran once"
        [listed] = session.ask("tasks/list")["result"]["tasks"]
        assert listed["taskId"] == before
        assert not (tmp_path / "never.runs").exists()
        after = modern.create("hold", gate=str(tmp_path / "gate"))
        eventually(lambda: modern.get_task(after)["status"] == "completed", "it works again")
        assert text_of(modern.get_task(after)["result"]) == "opened gate"
        assert Session(server).ask("ping")["result"] == {}
    assert _tasks(server.store) == {before, after}


def test_a_read_only_store_is_refused_at_the_start(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert Session(server).ask("ping")["result"] == {}
    places = (*tmp_path.iterdir(), tmp_path)
    modes = [place.stat().st_mode for place in places]
    for place, mode in zip(places, modes, strict=True):
        place.chmod(mode & ~0o222)
    try:
        if os.access(server.store, os.W_OK):
            pytest.skip("this user can write read-only files")
        with pytest.raises(AssertionError, match=r"tasks\.db cannot be"):
            server.start()
        assert not server.tracebacks()
    finally:
        for place, mode in zip(places, modes, strict=True):
            place.chmod(mode)
        server.kill()


def _tasks(store: Path) -> set[str]:
    connection = sqlite3.connect(store)
    try:
        return {row[0] for row in connection.execute("SELECT id FROM tasks")}
    finally:
        connection.close()
