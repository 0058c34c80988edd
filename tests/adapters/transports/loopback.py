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
    """The port on which the application answers, until the block ends.

    It listens before it is served, so nobody has to wait for anything.  No `Date`: answers that
    ought to be the same are the same whenever they are asked for.
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
