"""The server that a command connects to, and the options of the connection."""

import argparse
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from taskmachine.adapters.cli.nearest import did_you_mean
from taskmachine.adapters.client.answering import Answer
from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.errors import Refused
from taskmachine.adapters.client.generations import REVISIONS
from taskmachine.adapters.client.session import Session
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = [
    "UnknownTool",
    "add_connection_options",
    "add_server",
    "find_tool",
    "opened",
    "read_file",
    "seconds",
]


def add_server(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the server."""
    parser.add_argument(
        "server", metavar="SERVER", help="its URL, or the quoted command that starts it on stdio"
    )


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the connection."""
    parser.add_argument("--token-file", metavar="FILE", help="file with the bearer token for a URL")
    parser.add_argument(
        "--generation",
        choices=REVISIONS,
        metavar="REV",
        help=f"{' or '.join(REVISIONS)}; default: whichever the server supports",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=60.0,
        metavar="SECONDS",
        help="timeout of each request, including calls without a task; default: %(default)g",
    )


def seconds(text: str) -> float:
    """Parse a duration."""
    number = float(text)
    if not 0 < number < 10_000_000:
        raise ValueError(text)
    return number


seconds.__name__ = "number of seconds"  # argparse says: invalid number of seconds value: '0'


@asynccontextmanager
async def opened(
    options: argparse.Namespace, answer: Answer | None = None
) -> AsyncIterator[Session]:
    """Connect to the server as the options say."""
    token = None if options.token_file is None else read_file(options.token_file).strip()
    try:
        async with connect(
            options.server,
            generation=options.generation,
            token=token,
            answer=answer,
            timeout=options.timeout,
        ) as session:
            yield session
    except Refused as error:
        if error.status == 401:
            raise Refused(401, f"{error}: give a valid token with --token-file FILE") from error
        raise


class UnknownTool(TaskmachineError):
    """The server lists no tool of this name."""


def find_tool(tools: Sequence[JSONObject], name: str, server: str) -> JSONObject:
    """Return the tool of this name."""
    for tool in tools:
        if tool["name"] == name:
            return tool
    hint = did_you_mean(name, (tool["name"] for tool in tools)) or "."
    listing = f"taskmachine tools {shlex.quote(server)}"
    raise UnknownTool(f"the server has no tool '{name}'{hint} To list them: {listing}")


def read_file(path: str) -> str:
    """Return the text of a file that an argument names."""
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise ConfigurationError(f"cannot read {path}: it is not text in UTF-8") from None
