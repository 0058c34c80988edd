"""Mutation testing, to check that tests notice small code changes: `python -m tests.mutation`.

Not part of the usual checks; docs/explanation/testing.md has its needs and findings.  Arguments
are packages or modules, such as `statemachine` or `protocol.jsonrpc`.

mutmut needs files in the folders of their import names, so it works on a copy in build/mutation in
which `statemachine/` is `taskmachine/statemachine/`.  It is fast because it forks after all
imports and runs only the tests that call the mutated function.  Code that runs on import, or once
per class, would never run mutated in that way.  Therefore two modules, and all survivors of the
others, are tested in a new process with the tests of both packages.
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parent.parent
TREE: Final = REPOSITORY / "build" / "mutation"
PORTIONS: Final = ("statemachine", "protocol", "adapters", "specs")
MUTATED: Final = ("statemachine", "protocol")
LIFECYCLE: Final = (
    "table", "lifecycle", "times", "invariants", "model", "generations", "dialects",
)  # fmt: skip
"""Tests in tests/lifecycle that need only the mutated packages."""
TESTS: Final = [*(f"tests/lifecycle/test_{name}.py" for name in LIFECYCLE), "tests/protocol"]
ONCE: Final = ("statemachine.machine", "protocol.shapes")
"""Modules whose functions mostly run once per process."""
SLOW: Final = ("test_model", "test_generations", "test_messages", "test_dialects")
WORKERS: Final = os.cpu_count() or 1
TIMEOUT_S: Final = 120

CONFIGURATION: Final = f"""
[tool.mutmut]
source_paths = ["taskmachine"]
only_mutate = {[f"taskmachine/{portion}/*" for portion in MUTATED]}
also_copy = ["taskmachine"]
pytest_add_cli_args_test_selection = {TESTS}
timeout_multiplier = 5.0
timeout_constant = 2.0
track_dependencies = false
use_git_change_detection = false
"""


def copy_tree() -> None:
    """Copy the repository into the layout that mutmut needs."""
    shutil.rmtree(TREE, ignore_errors=True)
    no_bytecode = shutil.ignore_patterns("__pycache__")
    for portion in PORTIONS:
        shutil.copytree(REPOSITORY / portion, TREE / "taskmachine" / portion, ignore=no_bytecode)
    shutil.copytree(REPOSITORY / "tests", TREE / "tests", ignore=no_bytecode)
    ours = (REPOSITORY / "pyproject.toml").read_text()
    (TREE / "pyproject.toml").write_text(ours + CONFIGURATION)


def verdicts(wanted: list[str]) -> Iterator[tuple[str, str, int | None]]:
    """Yield portion, mutant and exit code from mutmut's records."""
    for portion in MUTATED:
        for path in sorted((TREE / "mutants" / "taskmachine" / portion).glob("*.meta")):
            for mutant, code in json.loads(path.read_text())["exit_code_by_key"].items():
                if is_wanted(mutant.removeprefix("taskmachine."), wanted):
                    yield portion, mutant, code


def is_wanted(name: str, wanted: list[str]) -> bool:
    """Return whether a module or a mutant is below one of these names."""
    return any(f"{name}.".startswith(f"{prefix}.") for prefix in wanted)


def patterns(wanted: list[str]) -> list[str]:
    """Return mutmut's patterns for the modules that it can test."""
    names = [
        f"{portion}.{path.stem}" if path.stem != "__init__" else portion
        for portion in MUTATED
        for path in sorted((REPOSITORY / portion).glob("*.py"))
    ]
    names = [name for name in names if is_wanted(name, wanted) and name not in ONCE]
    names.append("statemachine.table")  # one mutant, as mutmut refuses to run none
    return [f"taskmachine.{name}.x*" for name in names]


def rounds(mutant: str) -> Iterator[list[str]]:
    """Yield groups of test modules, fast ones close to the mutant first; omit the fuzz tests."""
    paths = [TREE / test for test in TESTS if test.endswith(".py")]
    paths += sorted((TREE / "tests" / "protocol").glob("test_*.py"))
    paths = [path for path in paths if path.stem != "test_fuzz"]
    for slow, far in ((False, False), (False, True), (True, False), (True, True)):
        yield [
            str(path.relative_to(TREE))
            for path in paths
            if (path.stem in SLOW) == slow
            and ((path.parent.name == "protocol") != (".protocol." in mutant)) == far
        ]


def retest(mutant: str) -> str:
    """Test a mutant in new processes and return the outcome."""
    environment = {**os.environ, "MUTANT_UNDER_TEST": mutant, "PYTHONDONTWRITEBYTECODE": "1"}
    for tests in rounds(mutant):
        try:
            code = subprocess.run(
                [sys.executable, "-m", "pytest", "-x", "-q", *tests],
                cwd=TREE / "mutants",
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=TIMEOUT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return "timed out"
        if code != 0:
            return "killed"
    return "survived"


def main(wanted: list[str]) -> int:
    """Print a diff of each survivor, then the figures."""
    os.environ.setdefault("HYPOTHESIS_PROFILE", "mutation")
    mutmut = [sys.executable, "-m", "mutmut"]
    copy_tree()
    run = [*mutmut, "run", "--max-children", str(WORKERS), *patterns(wanted)]
    if failed := subprocess.run(run, cwd=TREE, check=False).returncode:
        return failed
    if retest("taskmachine.protocol.nothing") != "survived":
        print("The tests fail without a mutation; run pytest to see why.")
        return 1
    first = list(verdicts(wanted))
    alive = [mutant for _, mutant, code in first if code not in (1, 3)]
    with ThreadPoolExecutor(WORKERS) as pool:
        outcomes = dict(zip(alive, pool.map(retest, alive), strict=True))
    figures = {portion: Counter[str]() for portion in MUTATED}
    for portion, mutant, _ in first:
        outcome = outcomes.get(mutant, "killed")
        figures[portion][outcome] += 1
        if outcome == "survived":
            subprocess.run([*mutmut, "show", mutant], cwd=TREE, check=False)
    for portion, counts in figures.items():
        print(f"{portion}: {counts.total()} mutants", dict(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(MUTATED)))
