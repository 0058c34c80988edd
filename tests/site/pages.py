"""The blocks of the pages: what readers may copy, and what they are told to expect."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from tests.oracle import REPOSITORY

__all__ = ["PAGES", "Block", "blocks_of", "page"]

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
    """The text of a page."""
    return (Path(REPOSITORY) / path).read_text()


def blocks_of(path: str, language: str | None = None) -> Iterator[Block]:
    """The blocks of a page, from top to bottom; those of one language, if it is given."""
    for match in _FENCE.finditer(page(path)):
        if language in (None, match["language"]):
            yield Block(match["language"], match["text"], match["title"] or "")
