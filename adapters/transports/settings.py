"""What a server can be told: from a file, then the environment, then the command line.

The later one wins, key by key.  Whatever is wrong is a `ConfigurationError` that names the
place, and what would be allowed there.
"""

import ipaddress
import re
import tomllib
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import attrs

from taskmachine.adapters.runtime.engine import MakeEngine
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.observer import Observer
from taskmachine.adapters.runtime.runtime import RuntimeConfig
from taskmachine.protocol.jsonrpc import json_type
from taskmachine.protocol.jsonvalue import MAX_BYTES, JSONObject
from taskmachine.protocol.shapes import MAX_SAFE_INTEGER, Shapes
from taskmachine.statemachine import ConfigurationError, State, Times

__all__ = ["CONSOLE", "Settings", "Transport", "load_settings"]

PREFIX: Final = "TASKMACHINE_"

CONSOLE: Final = "/console"
"""Where the console is."""

OF_KUBERNETES: Final = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT.*)|PORT(_.*)?)")
"""What it sets in every pod if a service is called `taskmachine`: not meant for us."""


@attrs.frozen
class Transport:
    """How long HTTP clients may take, and how much they may use up."""

    body_s: float = 30
    """For the whole body of a request."""
    header_s: float = 10
    stall_s: float = 60
    """Until a client that does not read is gone."""
    keep_alive_s: float = 15
    """Between two comments on a stream on which nothing happens."""
    idle_s: float = 75
    """Until a connection without requests is closed."""
    body_bytes: int = MAX_BYTES
    sessions: int = 10_000
    session_idle_s: float = 86_400
    """Until a session that nobody uses is forgotten."""
    lookups_per_second: int = 1_000
    """Of tasks, by one caller, in the long run."""
    lookups_burst: int = 2_000
    waiters_per_task: int = 100
    max_connections: int = 10_000


@attrs.frozen
class Settings:
    """All of it.  The defaults serve the demo tools to whoever runs the command."""

    store: str = "sqlite:taskmachine.db"
    engine: str = "local"
    """Who runs the tasks: `local`, `procrastinate`, or one that is installed."""
    tools: str = "demo"
    """`demo`, `conformance` or `MODULE:OBJECT`."""
    http: str | None = None
    """`HOST:PORT`; see `address`."""
    path: str = "/mcp"
    dialect: Literal["erlmcp"] | None = None
    """The only one to speak; else both generations of MCP."""
    origins: list[str] = attrs.field(factory=list)
    """Web origins that may call, beyond those of this machine."""
    public_url: str | None = None
    """Where clients find the server, if a proxy stands before it."""
    console: bool = True
    """Whether there is a console at `/console`, where one is allowed: see docs/howto/watch.md."""
    insecure: bool = False
    """Whether everybody in reach of a public address may call without authentication."""
    otel: bool = False
    """Whether spans and metrics go where the variables `OTEL_*` say."""
    metrics: bool = False
    """Whether Prometheus can read `/metrics`."""
    times: Times = attrs.field(factory=Times)
    limits: Limits = attrs.field(factory=Limits)
    transport: Transport = attrs.field(factory=Transport)
    auth: JSONObject = attrs.field(factory=dict, repr=False)  # there are secrets in it
    """As it is: `authentication` knows what may be in it."""

    def runtime_config(
        self, observer: Observer | None = None, engine: MakeEngine | None = None
    ) -> RuntimeConfig:
        """The part that concerns the runtime."""
        return RuntimeConfig(self.times, self.limits, engine or self.engine, observer)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        assert self.http is not None, "only asked for by whoever serves HTTP"
        return _address(self.http)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect to the address."""
        host, _ = self.address
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


def load_settings(
    file: str | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Settings:
    """The settings of a TOML file, of variables `TASKMACHINE_*`, and of the command line."""
    tree = attrs.asdict(Settings())
    tree["times"]["retention_ms"] = {str(k): ms for k, ms in Times().retention_ms.items()}
    if file is not None:
        tree = _merged(tree, _read(file), file)
    for name, text in sorted(environment.items()):
        if name.startswith(PREFIX) and not OF_KUBERNETES.fullmatch(name):
            keys = name.removeprefix(PREFIX).lower().split("__")
            tree = _merged(tree, _branch(keys, _from_text(tree, keys, text)), name)
    tree = _merged(tree, flags, "command line")
    return _consistent(_settings(tree, "settings"))


def _read(file: str) -> JSONObject:
    try:
        return tomllib.loads(Path(file).read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{file} is no TOML: {error}") from None


# --- one tree out of three -------------------------------------------------------------------


def _merged(tree: JSONObject, given: Mapping[str, Any], source: str) -> JSONObject:
    """The tree with what a source says; it is blamed for what is wrong then."""
    merged = _overlaid(tree, given, source, "")
    _settings(merged, source)
    return merged


def _overlaid(tree: JSONObject, given: Mapping[str, Any], source: str, above: str) -> JSONObject:
    overlaid = dict(tree)
    for key, value in given.items():
        place = f"{above}{key}"
        if key not in tree:
            known = ", ".join(sorted(tree))
            raise ConfigurationError(f"{source}: there is no key {place}, known are: {known}")
        if not isinstance(tree[key], dict):
            overlaid[key] = value
        elif not isinstance(value, dict):
            raise ConfigurationError(f"{source}: {place} must be a table, got {json_type(value)}")
        elif place == "auth":
            overlaid[key] = _grown(tree[key], value)
        else:
            overlaid[key] = _overlaid(tree[key], value, source, f"{place}.")
    return overlaid


def _grown(tree: JSONObject, given: JSONObject) -> JSONObject:
    """Below `auth` any key may be new: whoever reads it knows them."""
    grown = dict(tree)
    for key, value in given.items():
        both = isinstance(value, dict) and isinstance(tree.get(key), dict)
        grown[key] = _grown(tree[key], value) if both else value
    return grown


def _branch(keys: Sequence[str], value: Any) -> JSONObject:
    for key in reversed(keys):
        value = {key: value}
    branch: JSONObject = value
    return branch


def _from_text(tree: JSONObject, keys: Sequence[str], text: str) -> Any:
    """What a variable means: text, unless its place wants something else.

    Then it is written as in a file, but several texts may be separated by commas.
    """
    there: Any = tree
    for key in keys:
        there = there.get(key) if isinstance(there, dict) else None
    if keys[0] != "auth" and (there is None or isinstance(there, str)):
        return text
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        value = text
    if isinstance(there, list) and isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


# --- what is allowed -------------------------------------------------------------------------

_SHAPES: Final = Shapes()


def _settings(tree: JSONObject, source: str) -> Settings:
    try:
        settings: Settings = _SHAPES.decode(tree, Settings, "settings")
        _check_numbers(settings, "")
        _check(settings)
        kept = {State(name): ms for name, ms in settings.times.retention_ms.items()}
    except ValueError as error:
        raise ConfigurationError(f"{source}: {str(error).removeprefix('settings.')}") from None
    return attrs.evolve(settings, times=attrs.evolve(settings.times, retention_ms=kept))


MAY_BE_ZERO: Final = frozenset({"times.grace_ms", "times.retention_ms"})
MOST: Final = {"transport.body_bytes": MAX_BYTES}  # more is no message
LONGEST_S: Final = 366 * 86_400


def _check_numbers(settings: Any, above: str) -> None:
    for field in attrs.fields(type(settings)):
        place, value = f"{above}{field.name}", getattr(settings, field.name)
        if attrs.has(type(value)):
            _check_numbers(value, f"{place}.")
        elif field.type is float:
            if not 0.001 <= value <= LONGEST_S:  # nor is NaN
                raise ValueError(f"{place} must be from 0.001 to {LONGEST_S} seconds, got {value}")
        elif field.name == "retention_ms":
            for state, duration in value.items():
                _check_integer(f"{place}.{state}", duration, least=0)
        elif field.type is int:
            _check_integer(place, value, least=0 if place in MAY_BE_ZERO else 1)


def _check_integer(place: str, value: int, least: int) -> None:
    most = MOST.get(place, MAX_SAFE_INTEGER)
    if not least <= value <= most:
        raise ValueError(f"{place} must be from {least} to {most}, got {value}")


def _check(settings: Settings) -> None:
    if settings.http is not None:
        _address(settings.http)
    if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", settings.path):
        raise ValueError(f"path must be like /mcp, got {settings.path!r}")
    for origin in settings.origins:
        if not _is_web_address(origin, with_path=False):
            raise ValueError(f"origins must be like https://app.example, got {origin!r}")
    if settings.public_url is not None and not _is_web_address(settings.public_url, with_path=True):
        raise ValueError(
            f"public_url must be like https://tasks.example/mcp, got {settings.public_url!r}"
        )


def _consistent(settings: Settings) -> Settings:
    """Only when all have spoken: one source may raise what another one has to fit below."""
    for less, more in (
        ("times.default_ttl_ms", "times.max_ttl_ms"),
        ("limits.page", "limits.max_page"),
    ):
        least, most = attrgetter(less)(settings), attrgetter(more)(settings)
        if least > most:
            raise ConfigurationError(f"{less} must be at most {more}, got {least} and {most}")
    if settings.console and f"{settings.path}/".startswith(f"{CONSOLE}/"):
        raise ConfigurationError(f"path must not be below {CONSOLE}, or console must be false")
    return settings


def _is_web_address(text: str, *, with_path: bool) -> bool:
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    rest = (parts.query, parts.fragment, "" if with_path else parts.path)
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and "@" not in parts.netloc
        and has_port
        and not any(rest)
        and text.isprintable()
        and " " not in text
    )


def _address(http: str) -> tuple[str, int]:
    """`HOST:PORT`; port 0 is one that is free."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})", http)
    if found is None or int(found[3]) > 65_535:
        raise ValueError(f"http must be HOST:PORT as in 127.0.0.1:8000 or [::1]:8000, got {http!r}")
    return found[1] or found[2], int(found[3])
