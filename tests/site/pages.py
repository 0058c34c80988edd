"""The fenced blocks of the pages."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import attrs

from tests.oracle import REPOSITORY

__all__ = ["PAGES", "Block", "blocks_of", "example_of", "examples_of", "page"]

PAGES: Final = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for path in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
)
"""Every page of the repository, as a path."""

_FENCE: Final = re.compile(
    r'^(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]*)")?\n'
    r"(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)


@attrs.frozen
class Block:
    """Text between fences."""

    language: str
    text: str
    title: str = ""


def page(path: str) -> str:
    """Read a page."""
    return (Path(REPOSITORY) / path).read_text()


def blocks_of(path: str, language: str | None = None, title: str | None = None) -> Iterator[Block]:
    """Yield the blocks of a page, optionally of one language or with one title."""
    for match in _FENCE.finditer(page(path)):
        block = Block(match["language"], match["text"], match["title"] or "")
        if language in (None, block.language) and title in (None, block.title):
            yield block


def examples_of(path: str) -> Iterator[tuple[Block, str]]:
    """Yield each program of a page that is followed by a block with its output."""
    blocks = list(blocks_of(path))
    for program, output in pairwise(blocks):
        if program.language in ("python", "py") and output.language == "text":
            yield program, output.text


def example_of(path: str, title: str = "") -> tuple[str, str]:
    """Return the program with this title, and its output."""
    [found] = [(block.text, text) for block, text in examples_of(path) if block.title == title]
    return found
