"""The correct server on HTTP, on a loopback port, with a bug around its application."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn

from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.transports.http.application import Application
from taskmachine.adapters.transports.settings import Settings
from tests.conformance.planting import Bug
from tests.conformance.proxy.between import Between, ErrorLog
from tests.conformance.proxy.http import BrokenApplication

__all__ = ["serve_http"]


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def drop(self) -> None:
        """Close every connection without a word."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


@asynccontextmanager
async def serve_http(
    runtime: Runtime, bug: Bug, errors: ErrorLog, tokens: Sequence[str], address: str
) -> AsyncIterator[str]:
    """Serve over HTTP in the running event loop; yield the URL."""
    auth = {"kind": "tokens", "tokens": str(_token_file(errors, tokens))} if tokens else {}
    settings = Settings(http=address, auth=auth)
    application = Application(settings)
    broken = BrokenApplication(application, Between(bug, errors), lambda: server.drop())
    server = _Server(
        uvicorn.Config(
            broken, lifespan="off", ws="none", log_config=None, access_log=False,
            server_header=False, timeout_graceful_shutdown=1, log_level="critical",
            timeout_keep_alive=round(settings.transport.idle_s),
        )
    )  # fmt: skip
    async with application.serving(runtime):
        # With the protocol: without it asyncio does not send small pieces at once.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
            listener.bind(settings.address)
            listener.listen(100)
            running = asyncio.create_task(server.serve([listener]))
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}{settings.path}"
            finally:
                await application.end_streams()
                server.drop()
                server.should_exit = True
                await running


def _token_file(errors: ErrorLog, tokens: Sequence[str]) -> Path:
    file = errors.path.with_name(f"{errors.path.name}-tokens.toml")
    file.touch(0o600)
    named = zip("AB", tokens, strict=True)
    file.write_text("".join(f'{name} = "{token}"\n' for name, token in named))
    return file
