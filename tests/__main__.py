"""Everything that must hold, in one command: `python -m tests`.

Style, types, all tests, and the coverage that we promise: every branch of `statemachine` and
`protocol`, nine tenths of the whole (ERL-30, ERL-87).
"""

import os
import subprocess
import sys
from typing import Final

STEPS: Final = [
    ["ruff", "check", "."],
    ["ruff", "format", "--check", "."],
    ["mypy"],
    ["coverage", "run", "-m", "pytest", "--ignore=tests/simulation"],
    ["pytest", "tests/simulation"],  # by itself: watching each line would make it twice as slow
    ["coverage", "report", "--fail-under=100", "--include=*/statemachine/*,*/protocol/*"],
    ["coverage", "report", "--fail-under=90"],
]


def main() -> int:
    """Stop at the first step that fails, with its exit code."""
    environment = {"HYPOTHESIS_PROFILE": "ci", **os.environ}
    for step in STEPS:
        print("$", *step, flush=True)
        code = subprocess.run(
            [sys.executable, "-m", *step], env=environment, check=False
        ).returncode
        if code:
            return code
    return 0


sys.exit(main())
