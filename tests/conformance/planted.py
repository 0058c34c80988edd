"""Load all bugs and variations."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from tests.conformance import bugs
from tests.conformance.planting import BUGS, Bug, Planted
from tests.conformance.variations import VARIATIONS

__all__ = ["all_bugs", "made", "planted"]


@cache
def all_bugs() -> Mapping[str, Planted]:
    """Return all bugs by name, in a stable order."""
    for module in pkgutil.walk_packages(bugs.__path__, f"{bugs.__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(BUGS.items()))


def planted(name: str) -> Planted:
    """Return the bug or the variation of that name."""
    return VARIATIONS[name] if name in VARIATIONS else all_bugs()[name]


def made(name: str) -> Bug:
    """Make the bug or the variation of that name."""
    return planted(name).make()
