"""A bridge without its SDK reports the missing package with a pip command."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import taskmachine.adapters.bridges
from taskmachine.adapters.bridges.required import require
from tests.oracle import REPOSITORY

EXTRAS: Final[dict[str, list[str]]] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())[
    "project"
]["optional-dependencies"]

BRIDGES: Final = sorted(
    path.parent.name for path in (REPOSITORY / "adapters" / "bridges").glob("*/__init__.py")
)

INSTALLED: Final = str(Path(taskmachine.adapters.bridges.__path__[0]).parents[2])
"""The folder that contains `taskmachine`, the only one given to the interpreter."""

TRY: Final = """
import importlib, json, sys
bridge, *worlds = sys.argv[1:]
said = []
for world in worlds:
    sys.path.insert(0, world)
    try:
        importlib.import_module("taskmachine." + bridge)
    except ImportError as error:
        said.append(str(error))
    else:
        said.append("imported")
    for name in [name for name in sys.modules if name.startswith("taskmachine.")]:
        del sys.modules[name]
    sys.path.remove(world)
print(json.dumps(said))
"""


@pytest.fixture
def world(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Return a function that makes a folder with metadata of installed releases."""

    def world(versions: dict[str, str]) -> Path:
        name = "+".join(f"{name}-{version}" for name, version in versions.items())
        folder = tmp_path / (name or "nothing")
        for name, version in versions.items():
            metadata = folder / f"{name}-{version}.dist-info" / "METADATA"
            metadata.parent.mkdir(parents=True, exist_ok=True)
            metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        folder.mkdir(exist_ok=True)
        return folder

    return world


def said_by(bridge: str, worlds: Iterable[Path]) -> list[str]:
    """Return the errors of importing a bridge in each world, with only the standard library."""
    code = f"import sys; sys.path.insert(0, {INSTALLED!r})\n{TRY}"
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, bridge, *map(str, worlds)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    said: list[str] = json.loads(ended.stdout)
    return said


def test_there_are_bridges() -> None:
    assert {"mcp", "mcp1"} <= set(BRIDGES)


@pytest.mark.parametrize(
    ("namespace", "extra"),
    [*zip(BRIDGES, BRIDGES, strict=True), ("server", "server"), ("telemetry", "otel")],
)
def test_an_absent_extra_is_one_sentence_with_the_command(
    namespace: str, extra: str, world: Callable[[dict[str, str]], Path]
) -> None:
    [said] = said_by(namespace, [world({})])
    assert "\n" not in said
    package = said.removeprefix("this module needs ").partition(" ")[0]
    assert package in {Requirement(text).name for text in EXTRAS[extra]}
    assert said.endswith(f", which is not installed: pip install 'taskmachine[{extra}]'")


def around(requirement: Requirement) -> list[str]:
    """Return releases on both sides of each bound, near and far."""
    assert requirement.specifier, "bounds are the point"
    releases = ["0.9"]
    for bound in requirement.specifier:
        major, minor = (*Version(bound.version).release, 0)[:2]
        before = f"{major}.{minor - 1}.9" if minor else f"{major - 1}.99.9"
        releases += [before, f"{major}.{minor}", f"{major}.{minor}.1", f"{major}.{minor + 10}"]
        releases += [f"{major}.{minor}.0.post1", f"{major + 1}.0", f"{major + 10}.0.0"]
    return sorted(set(releases))


@pytest.mark.parametrize("bridge", BRIDGES)
def test_bridge_accepts_exactly_the_releases_allowed_by_its_extra(
    bridge: str, world: Callable[[dict[str, str]], Path]
) -> None:
    requirements = [Requirement(text) for text in EXTRAS[bridge]]
    good = {
        requirement.name: next(filter(requirement.specifier.contains, around(requirement)))
        for requirement in requirements
    }
    for requirement in requirements:
        releases = around(requirement)
        said = said_by(bridge, [world({**good, requirement.name: each}) for each in releases])
        for release, sentence in zip(releases, said, strict=True):
            is_refused = "pip install 'taskmachine[" in sentence
            is_wanted = requirement.specifier.contains(release)
            assert is_refused != is_wanted, f"{requirement} and {release}: {sentence}"
            if is_refused:
                assert sentence.startswith(f"this module needs {requirement.name} ")
                assert f", and found {release}: pip install" in sentence
                assert "\n" not in sentence


def test_the_sentence_has_the_bounds(
    world: Callable[[dict[str, str]], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(world({"somesdk": "2.0.1"}))
    require("somesdk", "some", "2.0")
    require("somesdk", "some", "1.26", below="2.1")
    with pytest.raises(ImportError) as error:
        require("somesdk", "some", "1.26", below="2.0")
    assert str(error.value) == (
        "this module needs somesdk 1.26 or later, but below 2.0, and found 2.0.1: "
        "pip install 'taskmachine[some]'"
    )
    with pytest.raises(ImportError) as error:
        require("no-sdk", "none", "2.3")
    assert str(error.value) == (
        "this module needs no-sdk 2.3 or later, which is not installed: "
        "pip install 'taskmachine[none]'"
    )
