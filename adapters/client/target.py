"""Read what a user wrote to name a server, and say what to write instead."""

import os
import re
import shlex
import shutil
from typing import Final
from urllib.parse import urlsplit

from taskmachine.adapters.client.errors import BadAnswer, Refused
from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = ["explained", "how_to_start", "likely_url", "read_target"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ADDRESS: Final = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+):\d+(/\S*)?|localhost(/\S*)?", re.I)
_HOST: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}(/\S*)?", re.I)


def read_target(text: str) -> str | list[str]:
    """Return a URL as it is, or the words of the command that starts a server."""
    if text.startswith(("http://", "https://")):
        try:
            is_whole = bool(urlsplit(text).hostname) and urlsplit(text).port != 0
        except ValueError as error:
            raise ConfigurationError(f"'{text}' is not a valid URL: {error}") from None
        if not is_whole:
            raise ConfigurationError(f"'{text}' is not a valid URL: it names no host or port 0")
        return text
    if _SCHEME.match(text):
        raise ConfigurationError(f"'{text}' is not an http:// or https:// URL")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigurationError(f"cannot read the command {text!r}: {error}") from None
    scheme = "http" if _ADDRESS.fullmatch(text) else "https" if _HOST.fullmatch(text) else None
    if scheme is not None and shutil.which(text) is None and not os.path.exists(text):
        url = f"{scheme}://{text}"
        likely = url if urlsplit(url).path.strip("/") else likely_url(url)
        raise ConfigurationError(f"'{text}' has no scheme: did you mean {likely}?")
    return words


def explained(error: TaskmachineError, url: str) -> TaskmachineError:
    """Return the error of a handshake, or a better one if the URL seems to have a wrong path."""
    likely = likely_url(url)
    words = f"no MCP server at {url} ({error}): did you mean {likely}?"
    match error:
        case Refused(status=404 | 405 as status) if likely != url:
            return Refused(status, words)
        case BadAnswer() if likely != url and not isinstance(error, Refused):
            return BadAnswer(words)
        case _:
            return error


def likely_url(url: str) -> str:
    """Return the URL of the same server at which most servers have their endpoint."""
    return urlsplit(url)._replace(path="/mcp", query="", fragment="").geturl()


def how_to_start(url: str) -> str:
    """Return what to do if no server listens at a URL of this machine."""
    parts = urlsplit(url)
    is_here = parts.hostname in ("127.0.0.1", "::1", "localhost")
    return f"; start one with: taskmachine serve --http {parts.netloc}" if is_here else ""
