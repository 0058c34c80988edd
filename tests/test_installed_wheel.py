"""What is shipped: a wheel that lives beside others and has all its data."""

import json
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

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


Run = Callable[..., str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since building leaves things behind."""
    folder = tmp_path_factory.mktemp("wheel")
    leftovers = shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "*.egg-info")
    shutil.copytree(REPOSITORY, folder / "source", ignore=leftovers)
    build = ["pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(folder / "source")]
    subprocess.run([sys.executable, "-m", *build], check=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def run(wheel: Path) -> Run:
    """Runs a program of an environment with our wheel and the owner of the bare name."""
    programs = wheel.parent / "env" / "bin"
    venv.create(programs.parent, with_pip=True)

    def run(program: str, *arguments: str) -> str:
        command = [str(programs / program), *arguments]
        return subprocess.run(
            command, cwd=wheel.parent, check=True, capture_output=True, text=True
        ).stdout

    run("pip", "install", "-q", "python-statemachine", str(wheel))
    return run


def test_the_wheel_and_python_statemachine_leave_each_other_alone(run: Run) -> None:
    sizes, has_class = json.loads(run("python", "-c", READ_ALL))
    assert has_class, "the other package is still itself"
    assert sizes == {name: (REPOSITORY / name).stat().st_size for name in DATA}
    assert len(DATA) >= 3


def test_the_command_runs_from_the_wheel(run: Run) -> None:
    assert len(json.loads(run("taskmachine", "table", "--format", "json"))["rows"]) == 26


def test_the_wheel_has_types_and_nothing_but_the_four_portions(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"taskmachine"}
    for portion in ("statemachine", "protocol", "adapters", "specs"):
        assert f"taskmachine/{portion}/py.typed" in names
