"""Settings from a file, then the environment, then the command line.

A later source overrides an earlier one, key by key.  A `ConfigurationError` names the wrong key,
its source, and the allowed values.
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
"""The path of the console."""

OF_KUBERNETES: Final = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT.*)|PORT(_.*)?)")
"""Variables that Kubernetes sets in every pod if a service is named `taskmachine`."""


@attrs.frozen
class Transport:
    """Time and resource limits for HTTP clients."""

    body_s: float = 30
    """Timeout for the whole body of a request."""
    header_s: float = 10
    stall_s: float = 60
    """Time after which the connection of a client that does not read is closed."""
    keep_alive_s: float = 15
    """Time between two comments on an idle stream."""
    idle_s: float = 75
    """Time after which a connection without requests is closed."""
    body_bytes: int = MAX_BYTES
    sessions: int = 10_000
    session_idle_s: float = 86_400
    """Time after which an unused session is deleted."""
    lookups_per_second: int = 1_000
    """Sustained rate of task lookups for each caller."""
    lookups_burst: int = 2_000
    waiters_per_task: int = 100
    max_connections: int = 10_000


@attrs.frozen
class Settings:
    """All settings of a server.  The defaults serve the demo tools."""

    store: str = "sqlite:taskmachine.db"
    engine: str = "local"
    """The task engine: `local`, `procrastinate`, or the name of an installed one."""
    tools: str = "demo"
    """`demo`, `conformance`, `PATH.py` or `MODULE`, with `:OBJECT` if it has several `Tools`."""
    http: str | None = None
    """`HOST:PORT`; see `address`."""
    path: str = "/mcp"
    dialect: Literal["erlmcp"] | None = None
    """The only dialect to serve; None serves both MCP revisions."""
    origins: list[str] = attrs.field(factory=list)
    """Allowed web origins besides those of this machine."""
    public_url: str | None = None
    """The URL by which clients reach the server through a proxy."""
    console: bool = True
    """Whether to serve the console at `/console` if that is safe; see docs/howto/watch.md."""
    insecure: bool = False
    """Whether to serve a public address without authentication."""
    otel: bool = False
    """Whether to export spans and metrics as the variables `OTEL_*` configure."""
    metrics: bool = False
    """Whether to serve `/metrics` for Prometheus."""
    times: Times = attrs.field(factory=Times)
    limits: Limits = attrs.field(factory=Limits)
    transport: Transport = attrs.field(factory=Transport)
    auth: JSONObject = attrs.field(factory=dict, repr=False)  # contains secrets
    """Unchecked here: see `authentication.authenticator_from`."""

    def runtime_config(
        self, observer: Observer | None = None, engine: MakeEngine | None = None
    ) -> RuntimeConfig:
        """Return the configuration of the runtime."""
        return RuntimeConfig(self.times, self.limits, engine or self.engine, observer)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        assert self.http is not None, "only used to serve HTTP"
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
    """Load the settings from a TOML file, variables `TASKMACHINE_*`, and the command line."""
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
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}") from None


# --- merging the sources ---------------------------------------------------------------------


def _merged(tree: JSONObject, given: Mapping[str, Any], source: str) -> JSONObject:
    """Return the tree with the values of a source; errors name that source."""
    merged = _overlaid(tree, given, source, "")
    _settings(merged, source)
    return merged


def _overlaid(tree: JSONObject, given: Mapping[str, Any], source: str, above: str) -> JSONObject:
    overlaid = dict(tree)
    for key, value in given.items():
        place = f"{above}{key}"
        if key not in tree:
            known = ", ".join(sorted(tree))
            raise ConfigurationError(f"{source}: unknown key {place}, use one of: {known}")
        if not isinstance(tree[key], dict):
            overlaid[key] = value
        elif not isinstance(value, dict):
            raise ConfigurationError(f"{source}: {place} must be a table, got {json_type(value)}")
        elif place == "auth":
            overlaid[key] = _extended(tree[key], value)
        else:
            overlaid[key] = _overlaid(tree[key], value, source, f"{place}.")
    return overlaid


def _extended(tree: JSONObject, given: JSONObject) -> JSONObject:
    """Merge without checking keys: those of `auth` are checked when it is used."""
    extended = dict(tree)
    for key, value in given.items():
        both = isinstance(value, dict) and isinstance(tree.get(key), dict)
        extended[key] = _extended(tree[key], value) if both else value
    return extended


def _branch(keys: Sequence[str], value: Any) -> JSONObject:
    for key in reversed(keys):
        value = {key: value}
    branch: JSONObject = value
    return branch


def _from_text(tree: JSONObject, keys: Sequence[str], text: str) -> Any:
    """Parse a variable: as text where text is expected, else as TOML.

    A list of texts may also be separated by commas.
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


# --- validation ------------------------------------------------------------------------------

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
MOST: Final = {"transport.body_bytes": MAX_BYTES}  # the limit of a message
LONGEST_S: Final = 366 * 86_400


def _check_numbers(settings: Any, above: str) -> None:
    for field in attrs.fields(type(settings)):
        place, value = f"{above}{field.name}", getattr(settings, field.name)
        if attrs.has(type(value)):
            _check_numbers(value, f"{place}.")
        elif field.type is float:
            if not 0.001 <= value <= LONGEST_S:  # false for NaN, too
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
    """Check keys against each other, after all sources are merged."""
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
    """Parse `HOST:PORT`; port 0 selects a free one."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})", http)
    if found is None or int(found[3]) > 65_535:
        raise ValueError(f"http must be HOST:PORT as in 127.0.0.1:8000 or [::1]:8000, got {http!r}")
    return found[1] or found[2], int(found[3])
