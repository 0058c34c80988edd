"""An application on a real socket, in the event loop of the test."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

__all__ = ["serving"]


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[int]:
    """Serve the application on a local port until the block ends.

    The socket listens before the server starts, so clients need not wait.  Without `Date`
    headers equal responses are equal bytes.
    """
    config = uvicorn.Config(
        app, lifespan="off", ws="none", log_config=None, access_log=False, date_header=False
    )
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        running = asyncio.create_task(server.serve([listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await running
