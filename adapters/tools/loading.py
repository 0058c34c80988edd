"""Load tools by name, as on the command line."""

import importlib
import os
import sys
from importlib.metadata import entry_points
from operator import attrgetter

from taskmachine.adapters.tools.registry import Tools
from taskmachine.statemachine import ConfigurationError

__all__ = ["load_tools"]


def load_tools(name: str) -> Tools:
    """Return the tools registered under a name, or the `Tools` at `MODULE:OBJECT`.

    `demo` and `conformance` are built in; packages register others under the entry point group
    `taskmachine.tools`.  Modules in the current directory can be imported, as with `python -m`.
    """
    named = {point.name: point.value for point in entry_points(group="taskmachine.tools")}
    module_name, colon, path = named.get(name, name).partition(":")
    if not (module_name and colon and path):
        known = ", ".join(sorted(named, reverse=True))
        raise ConfigurationError(f"tools must be {known} or MODULE:OBJECT, got '{name}'")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a module may raise anything
        words = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"tools '{name}': the import failed with {words}") from error
    try:
        tools = attrgetter(path)(module)
    except AttributeError as error:
        raise ConfigurationError(f"tools '{name}': {error}") from None
    if not isinstance(tools, Tools):
        kind = type(tools).__name__
        raise ConfigurationError(f"tools '{name}': must be of type Tools, not {kind}")
    return tools
