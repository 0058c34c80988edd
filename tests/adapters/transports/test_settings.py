"""Settings, and errors for wrong ones."""

import tomllib
from pathlib import Path
from typing import Any

import attrs
import pytest

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.stores import Caps
from taskmachine.adapters.transports.settings import Settings, Transport, load_settings
from taskmachine.statemachine import ConfigurationError, State, Times
from tests.oracle import REPOSITORY

# The documented defaults, written by hand and not taken from the classes.
DEFAULTS: dict[str, Any] = {
    "store": "sqlite:taskmachine.db",
    "tools": "demo",
    "http": None,
    "path": "/mcp",
    "dialect": None,
    "origins": [],
    "public_url": None,
    "insecure": False,
    "auth": {},
}
TRANSPORT = {
    "body_s": 30,
    "header_s": 10,
    "stall_s": 60,
    "keep_alive_s": 15,
    "idle_s": 75,
    "body_bytes": 4_194_304,
    "sessions": 10_000,
    "session_idle_s": 86_400,
    "lookups_per_second": 1_000,
    "lookups_burst": 2_000,
    "waiters_per_task": 100,
    "max_connections": 10_000,
}


def from_file(folder: Path, text: str, **environment: str) -> Settings:
    (folder / "s.toml").write_text(text)
    return load_settings(str(folder / "s.toml"), environment, {})


def refusal(folder: Path, text: str, **environment: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        from_file(folder, text, **environment)
    return str(error.value).replace(str(folder / "s.toml"), "FILE")


def test_every_setting_has_its_documented_default() -> None:
    settings = load_settings(None, {}, {})
    for name, value in DEFAULTS.items():
        assert getattr(settings, name) == value
    assert attrs.asdict(settings.transport) == TRANSPORT
    assert settings.times == Times()
    assert settings.limits == Limits()


def test_a_file_can_set_every_key(tmp_path: Path) -> None:
    settings = from_file(
        tmp_path,
        """
        store = "memory:"
        tools = "shop:TOOLS"
        http = "[::1]:8080"
        path = "/a/b"
        dialect = "erlmcp"
        origins = ["https://app.example", "http://localhost:3000"]
        public_url = "https://tasks.example/mcp"
        insecure = true
        [times]
        default_ttl_ms = 1
        max_ttl_ms = 2
        grace_ms = 0
        timeout_ms = 4
        retention_ms = { cancelled = 0 }
        [limits]
        concurrency = 5
        idle_s = 1.5
        caps = { live = 7 }
        [transport]
        body_s = 0.5
        [auth]
        kind = "jwt"
        scopes = ["a"]
        """,
    )
    kept = {**Times().retention_ms, State.CANCELLED: 0}
    assert settings == Settings(
        store="memory:",
        tools="shop:TOOLS",
        http="[::1]:8080",
        path="/a/b",
        dialect="erlmcp",
        origins=["https://app.example", "http://localhost:3000"],
        public_url="https://tasks.example/mcp",
        insecure=True,
        times=Times(1, 2, 0, 4, kept),
        limits=Limits(Caps(live=7), concurrency=5, idle_s=1.5),
        transport=Transport(body_s=0.5),
        auth={"kind": "jwt", "scopes": ["a"]},
    )
    assert settings.times.retention_ms[State.CANCELLED] == 0
    assert settings.address == ("::1", 8080)
    assert settings.is_local


def test_a_later_source_overrides_key_by_key(tmp_path: Path) -> None:
    text = 'store = "memory:"\ntools = "a:b"\npath = "/file"\n[limits]\npage = 7\nwatched = 8\n'
    (tmp_path / "s.toml").write_text(text + '[auth]\nkind = "jwt"\nissuer = "https://a"\n')
    environment = {
        "TASKMACHINE_TOOLS": "c:d",
        "TASKMACHINE_PATH": "/environment",
        "TASKMACHINE_LIMITS__PAGE": "9",
        "TASKMACHINE_AUTH__ISSUER": "https://b",
    }
    settings = load_settings(str(tmp_path / "s.toml"), environment, {"path": "/flag"})
    assert (settings.store, settings.tools, settings.path) == ("memory:", "c:d", "/flag")
    assert (settings.limits.page, settings.limits.watched) == (9, 8)
    assert settings.auth == {"kind": "jwt", "issuer": "https://b"}


@pytest.mark.parametrize(
    ("name", "text", "place", "value"),
    [
        ("STORE", "memory:", "store", "memory:"),
        ("TOOLS", "7", "tools", "7"),
        ("HTTP", "127.0.0.1:8000", "http", "127.0.0.1:8000"),
        ("DIALECT", "erlmcp", "dialect", "erlmcp"),
        ("INSECURE", "true", "insecure", True),
        ("ORIGINS", "https://a.example, https://b.example", "origins[1]", "https://b.example"),
        ("ORIGINS", '["https://a.example"]', "origins[0]", "https://a.example"),
        ("ORIGINS", "", "origins", []),
        ("TIMES__DEFAULT_TTL_MS", "60_000", "times.default_ttl_ms", 60_000),
        ("TIMES__RETENTION_MS__FAILED", "5", "times.retention_ms", 5),
        ("LIMITS__CAPS__LIVE", "5", "limits.caps.live", 5),
        ("TRANSPORT__BODY_S", "0.25", "transport.body_s", 0.25),
        ("AUTH__ISSUER", "https://a.example", "auth", {"issuer": "https://a.example"}),
        ("AUTH__SCOPES", '["a", "b"]', "auth", {"scopes": ["a", "b"]}),
        ("AUTH__A__B", "12", "auth", {"a": {"b": 12}}),
        ("AUTH__A__B", '"12"', "auth", {"a": {"b": "12"}}),
    ],
)
def test_a_variable_is_read_by_the_type_of_its_key(
    name: str, text: str, place: str, value: Any
) -> None:
    found: Any = load_settings(None, {f"TASKMACHINE_{name}": text}, {})
    for part in place.replace("[", ".").replace("]", "").split("."):
        found = found[int(part)] if part.isdigit() else getattr(found, part)
    assert (found[State.FAILED] if "retention" in place else found) == value


def test_other_variables_are_ignored() -> None:
    others = {
        "PATH": "/bin",
        "TASKMACHINE": "x",
        # Variables in a pod if a service of the cluster has this name.
        "TASKMACHINE_SERVICE_HOST": "10.0.0.1",
        "TASKMACHINE_SERVICE_PORT_HTTP": "80",
        "TASKMACHINE_PORT": "tcp://10.0.0.1:80",
        "TASKMACHINE_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert load_settings(None, others, {}) == Settings()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("store", "FILE is not valid TOML: "),
        ("\x00", "FILE is not valid TOML: "),
        ("stor = 1", "FILE: unknown key stor, use one of: auth, console, dialect, engine, http, "),
        ("limits.pages = 1", "FILE: unknown key limits.pages, use one of: blocked_calls, "),
        ("limits.caps.x = 1", "FILE: unknown key limits.caps.x, use one of: live, "),
        (
            "times.retention_ms.working = 1",
            "FILE: unknown key times.retention_ms.working, "
            "use one of: cancelled, completed, failed",
        ),
        ("store = 7", "FILE: store must be a string, got number"),
        ("insecure = 1", "FILE: insecure must be a boolean, got number"),
        ("limits = 7", "FILE: limits must be a table, got number"),
        ("auth = 'jwt'", "FILE: auth must be a table, got string"),
        ("[store]", "FILE: store must be a string, got object"),
        ("limits.page = '7'", "FILE: limits.page must be an integer, got string"),
        ("limits.page = 0.5", "FILE: limits.page must be an integer, got number"),
        ("limits.page = true", "FILE: limits.page must be an integer, got boolean"),
        ("limits.page = 0", "FILE: limits.page must be from 1 to 9007199254740991, got 0"),
        ("limits.caps.live = -1", "FILE: limits.caps.live must be from 1 to "),
        ("times.grace_ms = -1", "FILE: times.grace_ms must be from 0 to "),
        ("times.retention_ms.failed = -1", "FILE: times.retention_ms.failed must be from 0 to "),
        (
            "transport.body_bytes = 4194305",
            "FILE: transport.body_bytes must be from 1 to 4194304, got 4194305",
        ),
        ("transport.body_s = 0", "FILE: transport.body_s must be from 0.001 to 31622400 seconds"),
        ("transport.body_s = nan", "FILE: transport.body_s must be from 0.001 to "),
        ("transport.body_s = inf", "FILE: transport.body_s must be from 0.001 to "),
        ("limits.idle_s = -1.0", "FILE: limits.idle_s must be from 0.001 to "),
        ("origins = 'https://a.example'", "FILE: origins must be an array, got string"),
        ("origins = [1]", "FILE: origins[0] must be a string, got number"),
        ("origins = ['a.example']", "FILE: origins must be like https://app.example, got "),
        ("origins = ['https://a.example/']", "FILE: origins must be like https://app.example"),
        ("origins = ['https://u@a.example']", "FILE: origins must be like https://app.example"),
        ("origins = ['https://a.example:x']", "FILE: origins must be like https://app.example"),
        ("origins = ['*']", "FILE: origins must be like https://app.example, got '*'"),
        ("public_url = 'ftp://a'", "FILE: public_url must be like https://tasks.example/mcp"),
        ("public_url = 'https://a/#b'", "FILE: public_url must be like "),
        ("http = '8000'", "FILE: http must be HOST:PORT as in 127.0.0.1:8000 or [::1]:8000, got"),
        ("http = ':8000'", "FILE: http must be HOST:PORT as in "),
        ("http = '::1:8000'", "FILE: http must be HOST:PORT as in "),
        ("http = '127.0.0.1:65536'", "FILE: http must be HOST:PORT as in "),
        ("http = '127.0.0.1:٣'", "FILE: http must be HOST:PORT as in "),
        ("path = 'mcp'", "FILE: path must be like /mcp, got 'mcp'"),
        ("path = '/'", "FILE: path must be like /mcp, got '/'"),
        ("path = '/a b'", "FILE: path must be like /mcp, got '/a b'"),
        ("dialect = 'x'", "FILE: dialect must be 'erlmcp', got 'x'"),
        (
            "times.default_ttl_ms = 2\ntimes.max_ttl_ms = 1",
            "times.default_ttl_ms must be at most times.max_ttl_ms, got 2 and 1",
        ),
        ("limits.page = 201", "limits.page must be at most limits.max_page, got 201 and 200"),
    ],
)
def test_an_error_names_the_wrong_value(tmp_path: Path, text: str, says: str) -> None:
    assert refusal(tmp_path, text).startswith(says)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("STOR", "x", "TASKMACHINE_STOR: unknown key stor, use one of: "),
        ("LIMITS__PAGE", "x", "TASKMACHINE_LIMITS__PAGE: limits.page must be an integer, got "),
        ("LIMITS", "x", "TASKMACHINE_LIMITS: limits must be a table, got string"),
        ("STORE__X", "x", "TASKMACHINE_STORE__X: store must be a string, got object"),
        ("", "x", "TASKMACHINE_: unknown key , use one of: "),
        ("AUTH", "x", "TASKMACHINE_AUTH: auth must be a table, got string"),
        ("HTTP", "x", "TASKMACHINE_HTTP: http must be HOST:PORT as in "),
    ],
)
def test_an_error_names_the_variable(tmp_path: Path, name: str, text: str, says: str) -> None:
    assert refusal(tmp_path, "", **{f"TASKMACHINE_{name}": text}).startswith(says)


def test_an_error_names_the_command_line() -> None:
    with pytest.raises(ConfigurationError, match=r"^command line: http must be HOST:PORT"):
        load_settings(None, {"TASKMACHINE_HTTP": "127.0.0.1:1"}, {"http": "x"})


def test_keys_are_compared_after_all_sources_are_merged(tmp_path: Path) -> None:
    day = 86_400_000
    settings = from_file(
        tmp_path, f"times.default_ttl_ms = {8 * day}", TASKMACHINE_TIMES__MAX_TTL_MS=str(9 * day)
    )
    assert settings.times.default_ttl_ms == 8 * day


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "no", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigurationError, match=f"^cannot read {path}: {why}$"):
            load_settings(str(path), {}, {})
    (tmp_path / "latin").write_bytes(b"# \xe9")
    with pytest.raises(ConfigurationError, match="is not valid TOML"):
        load_settings(str(tmp_path / "latin"), {}, {})


@pytest.mark.parametrize(
    ("http", "address", "is_local"),
    [
        ("127.0.0.1:8000", ("127.0.0.1", 8000), True),
        ("127.8.9.10:0", ("127.8.9.10", 0), True),
        ("localhost:1", ("localhost", 1), True),
        ("[::1]:65535", ("::1", 65535), True),
        ("0.0.0.0:80", ("0.0.0.0", 80), False),
        ("[::]:80", ("::", 80), False),
        ("192.168.0.1:80", ("192.168.0.1", 80), False),
        ("tasks.example:80", ("tasks.example", 80), False),
        ("localhost.example:80", ("localhost.example", 80), False),
    ],
)
def test_addresses(http: str, address: tuple[str, int], is_local: bool) -> None:
    settings = load_settings(None, {}, {"http": http})
    assert (settings.address, settings.is_local) == (address, is_local)


def test_secrets_are_not_shown() -> None:
    settings = load_settings(None, {"TASKMACHINE_AUTH__SECRET": "hunter2"}, {})
    assert "hunter2" not in repr(settings)


def test_the_page_shows_every_key_with_its_default(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "reference" / "settings.md").read_text()
    [example] = [part.partition("```")[0] for part in page.split("```toml\n")[1:]]
    assert from_file(tmp_path, example) == attrs.evolve(Settings(), http="127.0.0.1:8000")
    shown = tomllib.loads(example)
    for part in (Transport, Times, Limits, Caps):
        name = part.__name__.lower()
        table = shown["limits"]["caps"] if part is Caps else shown[name]
        assert table.keys() == {field.name for field in attrs.fields(part)}
