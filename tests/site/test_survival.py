"""Each row of docs/reference/survival.md names tests that pytest collects."""

import os
import re
import subprocess
import sys
from typing import Final

from tests.oracle import REPOSITORY
from tests.site.pages import page

PAGE: Final = "docs/reference/survival.md"
_TEST: Final = re.compile(r'\]\(\.\./\.\./(tests/\S+\.py) "(test_\w+)"\)')


def test_each_row_names_tests_that_pytest_collects() -> None:
    rows = re.findall(r"^\|(?! event)(?!---).*", page(PAGE), re.MULTILINE)
    assert len(rows) > 30
    for row in rows:
        assert row.count("|") == 6, row
        assert _TEST.search(row), row
    named = set(_TEST.findall(page(PAGE)))
    options = ["-q", "--collect-only", "-p", "no:cacheprovider", "-m", "slow or not slow"]
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *sorted({path for path, _ in named})],
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        capture_output=True,
        text=True,
    ).stdout
    nodes = {tuple(node.split("::")) for node in re.findall(r"^(\S+?::\w+)", collected, re.M)}
    assert named <= nodes, named - nodes
