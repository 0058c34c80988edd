"""The operator commands: `taskmachine tasks ...` and `taskmachine store ...`."""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from rich.console import Console

from taskmachine.adapters.cli import operator_actions as operators
from taskmachine.adapters.rendering.documents import as_json, entry_document, task_document
from taskmachine.adapters.rendering.recorded import read_record
from taskmachine.adapters.rendering.tasks import print_history, print_pairs, print_task, print_tasks
from taskmachine.adapters.rendering.wording import counted, printable
from taskmachine.adapters.runtime.runtime import new_id, system_clock
from taskmachine.adapters.stores import Store, without_password
from taskmachine.adapters.transports.settings import load_settings
from taskmachine.statemachine import DUTIES, ConfigurationError, State

__all__ = ["add_to", "with_ids_last"]

STATES: Final = [state.value for state in DUTIES]

_Console = Callable[[], Console]
_Run = Callable[[argparse.Namespace, _Console], Coroutine[Any, Any, int]]


def add_to(commands: Any, console: _Console) -> None:
    """Add the commands to a parser."""
    tasks = _group(commands, "tasks", "list, inspect, cancel and purge the tasks in a store")
    listing = _on_tasks(tasks, "list", "show tasks, newest first", _list, console)
    listing.add_argument("--owner", help="only tasks of this owner")
    listing.add_argument(
        "--state", choices=STATES, metavar="STATE", help=f"one of {', '.join(STATES)}"
    )
    listing.add_argument(
        "--limit", type=_count, default=50, metavar="N", help="maximum number; default: %(default)s"
    )
    _on_task(tasks, "show", "show the details of a task", _show, console)
    _on_task(tasks, "history", "show the history of a task", _history, console)
    stopping = _on_task(tasks, "cancel", "cancel a task and stop its tool", _cancel, console)
    stopping.add_argument(
        "--reason",
        default=operators.REASON,
        metavar="TEXT",
        help="status message that the client receives",
    )
    again = _on_task(
        tasks, "rerun", "run the call of an ended task again, as a new task", _rerun, console
    )
    again.add_argument(
        "--keep-steps",
        action="store_true",
        help="continue with its recorded steps and answers instead of from the start",
    )
    purging = _on_tasks(tasks, "purge", "delete ended tasks whose TTL has expired", _purge, console)
    purging.add_argument("--all-ended", action="store_true", help="delete all ended tasks")

    store = _group(commands, "store", "check, back up or migrate a store")
    checking = _command(store, "check", "check a store for damage", _check, console)
    checking.add_argument("store", metavar="URL", help="e.g. sqlite:tasks.db")
    copying = _command(
        store, "backup", "copy a store, also while servers use it", _back_up, console
    )
    copying.add_argument("store", metavar="URL", help="e.g. sqlite:tasks.db")
    copying.add_argument("file", metavar="FILE", help="file to create; must not exist")
    moving = _command(store, "migrate", "copy all tasks to an empty store", _migrate, console)
    moving.add_argument("store", metavar="FROM", help="store to copy; no server may be using it")
    moving.add_argument(
        "target", metavar="TO", nargs="?", help="store to fill; must be empty; files are created"
    )
    moving.add_argument(
        "--check",
        action="store_true",
        help="copy nothing; report whether opening FROM would upgrade its schema",
    )


def with_ids_last(arguments: Sequence[str]) -> list[str]:
    """Move task ids that begin with a dash, as one in 64 does, behind a `--`."""
    is_id = re.compile(rf"-[\w-]{{{len(new_id()) - 1}}}", re.ASCII).fullmatch
    ids = [] if "--" in arguments else [word for word in arguments if is_id(word)]
    return [*(word for word in arguments if word not in ids), *(["--", *ids] if ids else [])]


def _group(commands: Any, name: str, does: str) -> Any:
    group = commands.add_parser(name, help=does, description=f"{does[0].upper()}{does[1:]}.")
    return group.add_subparsers(required=True, metavar="COMMAND")


def _command(
    group: Any, name: str, does: str, run: _Run, console: _Console
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = group.add_parser(
        name, help=does, description=f"{does[0].upper()}{does[1:]}."
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=lambda options: asyncio.run(run(options, console)))
    return command


def _on_tasks(
    group: Any, name: str, does: str, run: _Run, console: _Console
) -> argparse.ArgumentParser:
    command = _command(group, name, does, run, console)
    command.add_argument(
        "--store", metavar="URL", help="store of the server; default: the one that serve uses here"
    )
    command.add_argument("--config", metavar="FILE", help="settings of the server, a TOML file")
    return command


def _on_task(
    group: Any, name: str, does: str, run: _Run, console: _Console
) -> argparse.ArgumentParser:
    command = _on_tasks(group, name, does, run, console)
    command.add_argument("task_id", metavar="ID", help="id of the task, or its first characters")
    return command


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


_count.__name__ = "number of tasks"  # argparse says: invalid number of tasks value: '0'


# --- tasks -----------------------------------------------------------------------------------


def _store(options: argparse.Namespace) -> AbstractAsyncContextManager[Store]:
    """Open the store that the settings name, as for `taskmachine serve`."""
    flags = {} if options.store is None else {"store": options.store}
    return operators.existing_store(load_settings(options.config, os.environ, flags).store)


async def _list(options: argparse.Namespace, console: _Console) -> int:
    state = None if options.state is None else State(options.state)
    async with _store(options) as store:
        # One more than is shown, to find out whether there are more.
        tasks = await operators.newest(store, options.limit + 1, owner=options.owner, state=state)
    shown = tasks[: options.limit]
    if options.json:
        sys.stdout.write(as_json([task_document(task) for task in shown]))
    elif not shown:
        print("There are no such tasks." if state or options.owner else "There are no tasks.")
    else:
        print_tasks(console(), shown, system_clock(), with_owner=options.owner is None)
        if len(tasks) > len(shown):
            print(f"Showing the newest {len(shown)} tasks; use --limit to show more.")
    return 0


async def _show(options: argparse.Namespace, console: _Console) -> int:
    async with _store(options) as store:
        task = await operators.find(store, options.task_id)
        entries = await store.history(task.id) if task.recorded else ()
    if options.json:
        records = [read_record(entry.data).document for entry in entries if entry.data is not None]
        sys.stdout.write(as_json({**task_document(task), "recorded": records}))
    else:
        print_task(console(), task, system_clock(), entries)
    return 0


async def _history(options: argparse.Namespace, console: _Console) -> int:
    async with _store(options) as store:
        entries = await operators.history(store, options.task_id)
    if options.json:
        sys.stdout.write(as_json([entry_document(entry) for entry in entries]))
    else:
        print_history(console(), entries)
    return 0


async def _cancel(options: argparse.Namespace, console: _Console) -> int:
    async with _store(options) as store:
        task = await operators.cancel(store, options.task_id, options.reason)
    if options.json:
        sys.stdout.write(as_json(task_document(task)))
    else:
        print(f"Task {printable(task.id)} is {task.state}.")
    return 0


async def _rerun(options: argparse.Namespace, console: _Console) -> int:
    async with _store(options) as store:
        task = await operators.run_again(store, options.task_id, keep_steps=options.keep_steps)
    if options.json:
        sys.stdout.write(as_json(task_document(task)))
    else:
        print(f"Task {printable(task.id)} runs task {printable(str(task.rerun_of))} again.")
    return 0


async def _purge(options: argparse.Namespace, console: _Console) -> int:
    async with _store(options) as store:
        count = await operators.purge(store, all_ended=options.all_ended)
    if options.json:
        sys.stdout.write(as_json({"purged": count}))
    else:
        print(f"{counted(count, 'task')} deleted.")
    return 0


# --- stores ----------------------------------------------------------------------------------


async def _check(options: argparse.Namespace, console: _Console) -> int:
    async with operators.existing_store(options.store) as store:
        found = await operators.check(store, options.store)
    if options.json:
        document = {
            "schemaVersion": found.schema_version,
            "tasks": {state: found.states[state] for state in sorted(found.states)},
            "workers": found.workers,
            "problems": found.problems,
        }
        sys.stdout.write(as_json(document))
    else:
        states = ", ".join(f"{found.states[state]} {state}" for state in sorted(found.states))
        total = str(found.states.total())
        print_pairs(
            console(),
            [
                ("schema", f"version {found.schema_version}"),
                ("tasks", f"{total}: {states}" if states else total),
                ("workers", str(found.workers)),
                ("problems", str(len(found.problems) or "none")),
            ],
        )
        for problem in found.problems:
            print(printable(problem))
    return 1 if found.problems else 0


async def _back_up(options: argparse.Namespace, console: _Console) -> int:
    async with operators.existing_store(options.store) as store:
        size = await operators.back_up(store, options.store, options.file)
    if options.json:
        sys.stdout.write(as_json({"file": options.file, "bytes": size}))
    else:
        print(f"Copied to {printable(options.file)}, {size} bytes.")
    return 0


async def _migrate(options: argparse.Namespace, console: _Console) -> int:
    if options.check is (options.target is not None):
        raise ConfigurationError("'store migrate' takes either TO or --check")
    if options.check:
        return await _check_schema(options)
    async with operators.existing_store(options.store) as source:
        count = await operators.migrate(source, options.target)
    if options.json:
        sys.stdout.write(as_json({"copied": count}))
    else:
        print(f"{counted(count, 'task')} copied.")
    return 0


async def _check_schema(options: argparse.Namespace) -> int:
    """Return 1 if opening the store would upgrade its schema irreversibly."""
    schema = await operators.existing_schema(options.store)
    if schema is None:
        raise ConfigurationError(f"'{without_password(options.store)}' has no schema to check")
    is_current = schema.found == schema.known
    if options.json:
        document = {"schemaVersion": schema.found, "knownVersion": schema.known}
        sys.stdout.write(as_json(document))
    elif is_current:
        print(f"The schema has version {schema.found} and is up to date.")
    else:
        print(
            f"The schema has version {schema.found}. Opening the store with this program upgrades"
            f" it to version {schema.known}, which cannot be undone."
        )
    return 0 if is_current else 1
