"""The packages ("rooms") of the code and the imports between them: `python -m tests.architecture`.

`ORDER` is the rule: a room may import the rooms in the rows above its own, but not another room of
its row.  The rooms in `BESIDE` import only those named there.  `python -m tests.update_docs` draws
docs/rooms.svg.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.oracle import REPOSITORY

__all__ = [
    "BESIDE",
    "FRONT_DOOR",
    "ORDER",
    "PORTIONS",
    "edges",
    "imports",
    "modules",
    "name_of",
    "room_of",
    "violations",
]

PORTIONS: Final = ("statemachine", "protocol", "adapters", "specs")

ORDER: Final = (
    ("statemachine",),
    ("protocol",),
    ("rendering", "stores"),
    ("tools",),
    ("runtime",),
    ("engines",),
    ("transports",),
    ("client",),
    ("bridges", "console", "telemetry"),
    ("server", "testing"),
    ("cli",),
    ("namespaces",),
    ("taskmachine",),
)

FRONT_DOOR: Final = ("adapters", "namespaces")
"""This folder is the package `taskmachine` itself; the folders in it are its namespaces."""

BESIDE: Final = {"specs": frozenset[str](), "conformance": frozenset({"specs"})}
"""The oracle, and the tester, which must not share a mistake with the server that it tests."""

REACH_BESIDE: Final = frozenset({"cli", "namespaces", "taskmachine"})
"""The rooms that may import the tester: its command, and the package `taskmachine` itself."""


def modules() -> dict[str, Path]:
    """Return every module of the package by its import name."""
    return {
        name_of(path): path
        for portion in PORTIONS
        for path in sorted((REPOSITORY / portion).rglob("*.py"))
    }


def name_of(path: Path) -> str:
    """Return the import name of a module or folder, by `package-dir` of pyproject.toml."""
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    if parts[:2] == FRONT_DOOR:
        parts = parts[2:]
    return ".".join(("taskmachine", *parts)).removesuffix(".__init__")


def imports(path: Path) -> Iterator[str]:
    """Yield the full names of all imports, also below TYPE_CHECKING and inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str:
    """Return the room of a module."""
    _, *parts = module.split(".")
    if not parts or parts == ["__main__"]:
        return "taskmachine"
    if parts[0] != "adapters":
        return parts[0] if parts[0] in PORTIONS else "namespaces"
    return parts[1] if len(parts) > 1 else "adapters"


def edges() -> "Counter[tuple[str, str]]":
    """Count the imports from each room to another."""
    return Counter((a, b) for a, b, _ in _crossings())


def _crossings() -> Iterator[tuple[str, str, str]]:
    for name, path in modules().items():
        here = room_of(name)
        for used in imports(path):
            if used.partition(".")[0] == "taskmachine" and (there := room_of(used)) != here:
                yield here, there, f"{name} imports {used}"


def violations() -> list[str]:
    """Return a sentence for each import that breaks the order."""
    rank = {room: row for row, rooms in enumerate(ORDER) for room in rooms}
    wrong = []
    for here, there, sentence in _crossings():
        if here in BESIDE:
            is_allowed = there in BESIDE[here]
        elif there in BESIDE:
            is_allowed = here in REACH_BESIDE
        else:
            is_allowed = there in rank and here in rank and rank[there] < rank[here]
        if not is_allowed:
            wrong.append(sentence)
    return sorted(set(wrong))


def main() -> None:
    """Print each room with the rooms that it imports, and the violations."""
    counted, found = edges(), modules()
    sizes = Counter(room_of(name) for name in found)
    for room in [*(room for rooms in ORDER for room in rooms), *BESIDE]:
        used = sorted((there, n) for (here, there), n in counted.items() if here == room)
        print(f"{room:13} {sizes[room]:3} modules  " + ", ".join(f"{r} {n}" for r, n in used))
    for sentence in violations():
        print("Not allowed:", sentence)


if __name__ == "__main__":
    main()
