"""Load tools by name, as on the command line."""

import importlib
import os
import re
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from operator import attrgetter
from pathlib import Path
from typing import Any

import attrs

from taskmachine.adapters.tools.import_errors import describe
from taskmachine.adapters.tools.registry import Tools
from taskmachine.statemachine import ConfigurationError

__all__ = ["folder_of", "load_tools"]


@attrs.frozen
class _Place:
    """Where tools are: a module in a folder, and the path of an object in it if it was given."""

    folder: Path
    module: str
    object: str | None
    file: Path | None = None


def load_tools(name: str) -> Tools:
    """Return the tools registered under a name, or those of a module or file.

    `demo` and `conformance` are built in; packages register others under the entry point group
    `taskmachine.tools`.  Otherwise the name is `MODULE` or `PATH.py`, with `:OBJECT` if the module
    has several `Tools`.  Modules in the current folder can be imported, as with `python -m`, and
    modules beside the file, as with `python PATH.py`.
    """
    named = {point.name: point.value for point in entry_points(group="taskmachine.tools")}
    place = _place(named.get(name, name), named)
    module = _module(place, name)
    if place.object is None:
        return _only_tools(vars(module), name)
    try:
        tools = attrgetter(place.object)(module)
    except AttributeError as error:
        raise ConfigurationError(f"tools '{name}': {error}{_there(vars(module))}") from None
    if not isinstance(tools, Tools):
        kind = type(tools).__name__
        raise ConfigurationError(
            f"tools '{name}': must be of type Tools, not {kind}{_there(vars(module))}"
        )
    return tools


def folder_of(name: str) -> Path:
    """Return the folder with the code of these tools: that of the file, or the current one."""
    return _place(name, {}).folder


def _place(name: str, named: Mapping[str, str]) -> _Place:
    found = re.fullmatch(r"(.+\.py|[^:]+)(?::(.+))?", name)
    if found is None:
        known = ", ".join(sorted(named, reverse=True))
        raise ConfigurationError(
            f"tools must be {known}, MODULE, PATH.py, MODULE:OBJECT or PATH.py:OBJECT, got '{name}'"
        )
    where, object = found.groups()
    if not where.endswith(".py"):
        return _Place(Path.cwd(), where, object)
    file = Path(where).absolute()
    if not file.is_file():
        raise ConfigurationError(f"tools '{name}': there is no file {file}")
    return _Place(file.parent, file.stem, object, file)


def _module(place: _Place, name: str) -> Any:
    folder = str(place.folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(place.module)
    except (Exception, SystemExit) as error:  # a module may raise anything
        top = place.module.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name in (top, place.module):
            why = f"there is no module '{error.name}' in {folder} or the installed packages"
            raise ConfigurationError(f"tools '{name}': {why}") from None
        raise ConfigurationError(describe(error, f"tools '{name}'")) from error
    found = getattr(module, "__file__", None)
    if place.file is not None and (found is None or not os.path.samefile(found, place.file)):
        raise ConfigurationError(
            f"tools '{name}': Python has another module '{place.module}'; rename the file"
        )
    return module


def _only_tools(names: Mapping[str, Any], name: str) -> Tools:
    different = {id(value): value for value in names.values() if isinstance(value, Tools)}
    if len(different) != 1:
        there = _there(names) or "; it needs one: tools = taskmachine.Tools()"
        number = "several" if different else "no"
        raise ConfigurationError(f"tools '{name}': the module has {number} Tools{there}")
    [tools] = different.values()
    return tools


def _there(names: Mapping[str, Any]) -> str:
    found = [f":{name}" for name, value in names.items() if isinstance(value, Tools)]
    return f"; add {' or '.join(found)}" if found else ""
