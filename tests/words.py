"""Count idioms that readers stumble over: `python -m tests.words [-v] [PATH ...]`.

Reports a figure for each kind of text and is not a gate; `-v` lists every place.
"""

import argparse
import ast
import io
import re
import subprocess
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.oracle import REPOSITORY

IDIOMS: Final = {
    "impersonal agent": r"\b(?:whoever|whomever|nobody|somebody|someone|no one|of others|"
    r"who(?= (?:is|are|has|wants|waits|asks|looks|comes|reads|calls|writes|begins|did|does)\b))\b",
    "what-clause": r"(?:^|[,;:.(] |\b(?:of|by|as|to|in|and|with|for|from|than|that) )"
    r"what (?:is|was|are|were|has|had|it|they|we|one|a|an|the|came|comes|happens|happened|"
    r"remains|does|did|must|can|may|no)\b(?![^.]*\?)",
    "genitive fragment": r"^(?:of|by|to be|as it|as they|with which|from which|in which)\b",
    "telling objects": r"\b(?:told|tells|tell|hears|heard|anew|in vain|goes on|went on)\b",
    "false friend": r"\bis no (?!longer|more|such|need)\w+|\bour own affair|\bdid not come to|"
    r"\breckon|\blives? (?:(?:well )?with|on)\b|\b(?:is|are|was|were) over\b|\ball the same\b",
}
"""What house style asks writers to avoid, as patterns for one sentence or one docstring."""

_PATTERNS: Final = {name: re.compile(text, re.IGNORECASE) for name, text in IDIOMS.items()}
_SUFFIXES: Final = {".py", ".md", ".toml", ".html"}


class Text(NamedTuple):
    """A piece of prose and where it stands."""

    kind: str
    path: Path
    line: int
    words: str


def texts(path: Path) -> Iterator[Text]:
    """Read the docstrings, comments, messages or paragraphs of a file."""
    source = path.read_text()
    if path.suffix == ".py":
        yield from _python(path, source)
    elif path.suffix == ".toml":
        for words in _strings(tomllib.loads(source)):
            yield Text("specifications", path, 0, words)
    else:
        prose = re.sub(r"^```.*?^```", "", source, flags=re.DOTALL | re.MULTILINE)
        for words in prose.splitlines():
            yield Text("documents", path, 0, words)


def _python(path: Path, source: str) -> Iterator[Text]:
    docstrings: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                docstrings.add(node.value)
                yield Text("docstrings", path, node.lineno, " ".join(node.value.value.split()))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value
            and node not in docstrings
        ):
            yield Text("messages", path, node.lineno, " ".join(node.value.split()))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text("comments", path, token.start[0], token.string.lstrip("# "))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)


def idioms_of(words: str) -> list[str]:
    """Name the idioms in a text; quoted code does not count."""
    plain = re.sub(r"`[^`]*`", "x", words)
    return [name for name, pattern in _PATTERNS.items() if pattern.search(plain)]


def _files(paths: list[str]) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    found = sorted({REPOSITORY / name for name in listed.stdout.splitlines()})
    return [path for path in found if path.suffix in _SUFFIXES and path.exists()]


def main() -> None:
    """Print a table: kinds of text down, idioms across."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="list every place")
    parser.add_argument("paths", nargs="*", default=["."], help="files or folders")
    arguments = parser.parse_args()
    total: Counter[str] = Counter()
    marked: Counter[str] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    for path in _files(arguments.paths):
        if path == Path(__file__).resolve():
            continue
        for text in texts(path):
            total[text.kind] += 1
            found = idioms_of(text.words)
            marked[text.kind] += bool(found)
            counts.update((text.kind, name) for name in found)
            if found and arguments.verbose:
                place = f"{text.path.relative_to(REPOSITORY)}:{text.line}"
                print(f"{place}: {text.kind}: {', '.join(found)}: {text.words[:200]}")
    print(f"{'':15}{'texts':>8}{'marked':>8}{'share':>8}", *(f"{name:>18}" for name in IDIOMS))
    for kind in sorted(total):
        share = f"{marked[kind] / total[kind]:8.1%}"
        row = (f"{counts[kind, name]:>18}" for name in IDIOMS)
        print(f"{kind:15}{total[kind]:>8}{marked[kind]:>8}{share}", *row)


if __name__ == "__main__":
    main()
