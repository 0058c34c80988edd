"""Imports load only the necessary modules, as seen in a new interpreter."""

import json
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture import imports, modules
from tests.oracle import REPOSITORY

PROJECT: Final = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

PURE: Final = [
    name for name in modules() if name.split(".")[1:2] in (["statemachine"], ["protocol"])
]

CORE: Final = [
    "taskmachine.client",
    "taskmachine.engines",
    "taskmachine.stores",
    "taskmachine.statemachine",
    "taskmachine.protocol",
    "taskmachine.adapters.cli.main",
    "taskmachine.adapters.client.connect",
    "taskmachine.adapters.runtime.runtime",
    "taskmachine.adapters.bridges.required",
    "taskmachine.adapters.transports.stdio.server",
    "taskmachine.adapters.stores.memory",
    "taskmachine.adapters.stores.postgresql.opening",
    "taskmachine.adapters.stores.sqlite.store",
]

FOREIGN: Final = {"fastmcp", "mcp", "mcp_types"}
FOR_TOOLS: Final = {"docstring_parser", "pydantic", "pydantic_core"}
FOR_CHECKS: Final = {"hypothesis", "jsonschema_rs", "pytest"}
FOR_TELEMETRY: Final = {"opentelemetry", "prometheus_client"}
FOR_SERVERS: Final = {"httptools", "httpx", "jinja2", "jwt", "starlette", "uvicorn", "uvloop"}

PROBE: Final = """
import json, sys
before = set(sys.modules)
{code}
print(json.dumps(sorted(set(sys.modules) - before)))
"""

USE: Final = """
import asyncio, contextlib, io
from taskmachine import *
from taskmachine.adapters.cli.main import main
with contextlib.redirect_stdout(io.StringIO()) as table:
    assert main(["table"]) == 0
assert table.getvalue()
tools = Tools()
@tools.task()
async def greet(name: str) -> str:
    return f"Hello, {name}!"
async def work(url: str) -> None:
    async with open_runtime(url, tools) as runtime:
        call = Call("tools/call", "greet", b'{"name": "Ada"}')
        task = await runtime.create("alice", Create(call))
        assert (await runtime.service.collect("alice", task.id)).outcome.result
for url in ("memory:", "sqlite:tasks.db"):
    asyncio.run(work(url))
"""


def pulled_in(code: str, place: Path) -> set[str]:
    """Return the third-party packages that a new interpreter imports for this code."""
    tops = {name.partition(".")[0] for name in _imported(code, place)}
    return tops - {"taskmachine"} - sys.stdlib_module_names


def own_modules(code: str, place: Path) -> set[str]:
    """Return the modules of this package that a new interpreter imports for this code."""
    return {name for name in _imported(code, place) if name.startswith("taskmachine.")}


def _imported(code: str, place: Path) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", PROBE.format(code=code)],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    names: list[str] = json.loads(ended.stdout)
    return names


def importing(*modules: str) -> str:
    return "\n".join(f"import {module}" for module in modules)


def installed_with(wanted: list[str]) -> set[str]:
    """Return the distributions that pip installs for these requirements, from their metadata."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in wanted]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        try:
            waiting += map(Requirement, requires(name) or ())
        except PackageNotFoundError:
            pytest.fail(f"{name} is required but not installed")
        found.add(name)
    return found


def strangers(names: set[str], wanted: list[str]) -> dict[str, set[str]]:
    """Return the modules of packages that pip would not install, with these packages.

    Modules that a compiled module creates at run time belong to no package.
    """
    by_name, installed = packages_distributions(), installed_with(wanted)
    owners = {name: {*map(str, map(canonicalize_name, by_name.get(name, ())))} for name in names}
    return {name: of for name, of in owners.items() if of and installed.isdisjoint(of)}


@pytest.mark.parametrize(
    "code",
    [*map(importing, CORE), importing(*PURE), USE],
    ids=[*CORE, "every module of the pure packages", "a command and two runtimes"],
)
def test_core_imports_only_required_dependencies(code: str, tmp_path: Path) -> None:
    found = pulled_in(code, tmp_path)
    assert found.isdisjoint(FOREIGN | FOR_CHECKS | FOR_SERVERS | FOR_TELEMETRY)
    assert ("pydantic" in found) == (code == USE), "only a tool needs it, and it starts slowly"
    assert strangers(found, PROJECT["dependencies"]) == {}


def test_the_front_door_pulls_in_nothing_by_itself(tmp_path: Path) -> None:
    """Names are imported on first use."""
    assert own_modules("import taskmachine", tmp_path) == set()
    assert pulled_in("import taskmachine", tmp_path) == set()
    machine = own_modules("import taskmachine.statemachine", tmp_path)
    assert own_modules("from taskmachine import State", tmp_path) == machine


def test_a_server_imports_only_the_dialects_that_it_speaks(tmp_path: Path) -> None:
    """The classes of a dialect take time to make, and `serve --stdio` is started by each host."""
    ours = own_modules(importing("taskmachine.adapters.transports.stdio.server"), tmp_path)
    assert "taskmachine.protocol.dialects.mcp_2025_11_25.receiver" in ours
    assert not {name for name in ours if "erlmcp" in name or name.endswith(".requestor")} - {
        "taskmachine.protocol.dialects.requestor"
    }


@pytest.mark.parametrize(
    "module",
    [
        "taskmachine.server",
        "taskmachine.adapters.transports.http.application",
        "taskmachine.adapters.client.http.transport",
    ],
)
def test_http_pulls_in_no_sdk_and_no_tester(module: str, tmp_path: Path) -> None:
    found = pulled_in(importing(module), tmp_path)
    assert found & FOR_SERVERS, "otherwise this tests the wrong module"
    assert found.isdisjoint(FOREIGN | FOR_TOOLS | FOR_CHECKS | FOR_TELEMETRY)


def test_the_tester_pulls_in_no_sdk(tmp_path: Path) -> None:
    found = pulled_in(importing("taskmachine.adapters.conformance.command"), tmp_path)
    assert found.isdisjoint(FOREIGN | FOR_TOOLS)
    ours = pulled_in(importing("taskmachine.adapters.conformance.run"), tmp_path)
    assert ours.isdisjoint(FOREIGN | FOR_TOOLS)
    assert "hypothesis" in ours, "otherwise this tests the wrong module"


@pytest.mark.parametrize("bridge", ["mcp", "fastmcp"])
def test_bridge_imports_only_packages_of_its_extra(bridge: str, tmp_path: Path) -> None:
    """The SDK itself may import further packages if they are installed."""
    ours = own_modules(importing(f"taskmachine.{bridge}"), tmp_path)
    assert f"taskmachine.adapters.bridges.{bridge}" in ours
    named = {name.partition(".")[0] for module in ours for name in imports(modules()[module])}
    assert bridge in named
    with_extra = PROJECT["dependencies"] + PROJECT["optional-dependencies"][bridge]
    assert strangers(named - {"taskmachine"}, with_extra) == {}


def test_a_forbidden_import_would_be_found(tmp_path: Path) -> None:
    """With the official models the check above would fail."""
    found = pulled_in(importing("taskmachine.statemachine", "mcp_types"), tmp_path)
    assert {"mcp_types", "pydantic"} <= found
    assert "mcp_types" in strangers(found, PROJECT["dependencies"])


def test_the_forbidden_names_exist() -> None:
    """A name that no package has would never be found."""
    names = FOREIGN | FOR_TOOLS | FOR_CHECKS | FOR_SERVERS | FOR_TELEMETRY
    assert packages_distributions().keys() >= names
