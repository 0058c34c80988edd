"""The wheel, built from the tree and from the sdist: complete, and compatible with others."""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.architecture import FRONT_DOOR, modules
from tests.oracle import REPOSITORY

DATA = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for path in (REPOSITORY / "specs").rglob("*")
    if path.suffix in (".toml", ".json")
)

READ_ALL = f"""
import json, statemachine, taskmachine.statemachine
from importlib.resources import files
from taskmachine.specs import load_lifecycle, load_schema
sizes = {{}}
for name in {DATA!r}:
    portion, _, path = name.partition("/")
    sizes[name] = len(files("taskmachine." + portion).joinpath(path).read_bytes())
assert load_lifecycle()["table"] and load_schema("2025-11-25")["$defs"]
assert "taskmachine" not in statemachine.__file__
print(json.dumps([sizes, hasattr(statemachine, "StateMachine")]))
"""


LEFTOVERS: Final = shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "*.egg-info")

USE = """
import json, taskmachine
from taskmachine import *
from taskmachine import client, engines, stores
said = []
for name in ("conformance", "server", "mcp"):
    try:
        __import__(f"taskmachine.{name}")
    except ImportError as error:
        said.append(str(error).rpartition(": ")[2])
print(json.dumps([taskmachine.__file__, taskmachine.__version__, said]))
"""

SDIST = "import sys, setuptools.build_meta as build; build.build_sdist(sys.argv[1])"

Run = Callable[..., str]


def built(source: Path, place: Path) -> Path:
    """Build the wheel of a source tree; the build leaves files in the tree."""
    place.mkdir()
    build = ["pip", "wheel", "-q", "--no-deps", "-w", str(place), str(source)]
    subprocess.run([sys.executable, "-m", *build], check=True)
    [wheel] = place.glob("*.whl")
    return wheel


def contents(wheel: Path) -> dict[str, str]:
    """Return the digest of each file except RECORD."""
    with zipfile.ZipFile(wheel) as files:
        names = (name for name in files.namelist() if not name.endswith("/RECORD"))
        return {name: hashlib.sha256(files.read(name)).hexdigest() for name in names}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("installed")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    shutil.copytree(REPOSITORY, folder / "tree", ignore=LEFTOVERS)
    return built(folder / "tree", folder / "wheel")


def environment(place: Path, *packages: str) -> Run:
    """Create an environment with these packages; return a function that runs its programs."""
    venv.create(place, with_pip=True)

    def run(program: str, *arguments: str) -> str:
        return subprocess.run(
            [str(place / "bin" / program), *arguments],
            cwd=place.parent,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    run("pip", "install", "-q", *packages)
    return run


@pytest.fixture(scope="module")
def run(folder: Path, wheel: Path) -> Run:
    """An environment that also has python-statemachine, which owns the name `statemachine`."""
    return environment(folder / "env", "python-statemachine", "setuptools>=80", str(wheel))


def test_the_wheel_does_not_conflict_with_python_statemachine(run: Run) -> None:
    sizes, has_class = json.loads(run("python", "-c", READ_ALL))
    assert has_class, "the other package is unchanged"
    assert sizes == {name: (REPOSITORY / name).stat().st_size for name in DATA}
    assert len(DATA) >= 3


def test_the_command_runs_from_the_wheel(run: Run) -> None:
    for command in (["taskmachine"], ["python", "-m", "taskmachine"]):
        assert len(json.loads(run(*command, "table", "--format", "json"))["rows"]) == 26


def test_the_wheel_has_every_module_its_types_and_nothing_else(wheel: Path) -> None:
    names = {name for name in contents(wheel) if ".dist-info/" not in name}
    assert {name for name in names if name.endswith(".py")} == {
        f"{name.replace('.', '/')}{'/__init__.py' if path.stem == '__init__' else '.py'}"
        for name, path in modules().items()
    }
    assert {name.split("/")[0] for name in names} == {"taskmachine"}
    assert "taskmachine/py.typed" in names


def test_the_source_distribution_builds_the_same_wheel(folder: Path, wheel: Path, run: Run) -> None:
    source = folder / "source"
    shutil.copytree(REPOSITORY, source, ignore=LEFTOVERS)
    subprocess.run(
        [str(folder / "env" / "bin" / "python"), "-c", SDIST, str(folder)], cwd=source, check=True
    )
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        # Python 3.11.0 to 3.11.3 have no filters.
        filtered: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        files.extractall(folder / "unpacked", **filtered)
    [unpacked] = (folder / "unpacked").iterdir()
    assert (unpacked / "tests" / "test_installed_wheel.py").exists(), "the sdist contains the tests"
    assert contents(built(unpacked, folder / "again")) == contents(wheel)


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_the_package_can_be_imported(folder: Path, wheel: Path, run: Run, kind: str) -> None:
    """Also beside a checkout folder of the same name, as in the tutorial."""
    if kind == "editable":
        shutil.copytree(REPOSITORY, folder / "taskmachine", ignore=LEFTOVERS)
        run = environment(folder / "editable", "-e", str(folder / "taskmachine"))
    place, version, said = json.loads(run("python", "-c", USE))
    root = folder / ("env" if kind == "wheel" else "taskmachine/build")
    assert Path(place).is_relative_to(root)
    assert version == "0.1.0"
    assert said == [f"pip install 'taskmachine[{extra}]'" for extra in ("check", "server", "mcp")]
    if kind == "editable":
        assert Path(place).samefile(folder.joinpath("taskmachine", *FRONT_DOOR, "__init__.py"))
        assert len(json.loads(run("taskmachine", "table", "--format", "json"))["rows"]) == 26
