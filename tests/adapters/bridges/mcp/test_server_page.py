"""The code on the page about SDK servers runs."""

import contextlib
import io
import re
from pathlib import Path
from typing import Final

import pytest

from tests.oracle import REPOSITORY

PAGE: Final = (REPOSITORY / "docs" / "howto" / "mcp-sdk.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_page_programs_print_the_documented_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for program in blocks("python"):
            exec(compile(program, "mcp-sdk.md", "exec"), {"__name__": "page"})
    assert printed.getvalue() == "".join(blocks("text"))
