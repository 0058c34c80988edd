"""Tools by their name on the command line."""

import importlib
import os
import sys
from operator import attrgetter
from typing import Final

from taskmachine.adapters.tools import Tools
from taskmachine.statemachine import ConfigurationError

__all__ = ["load_tools"]

OURS: Final = {
    "demo": "taskmachine.adapters.server.demo_tools:TOOLS",
    "conformance": "taskmachine.adapters.server.conformance_tools:TOOLS",
}


def load_tools(name: str) -> Tools:
    """`demo`, `conformance`, or the `Tools` at `MODULE:OBJECT`.

    The current directory can be imported from, as it is with `python -m`.
    """
    module_name, colon, path = OURS.get(name, name).partition(":")
    if not (module_name and colon and path):
        known = ", ".join(OURS)
        raise ConfigurationError(f"tools must be {known} or MODULE:OBJECT, got '{name}'")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever its author does there
        words = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"tools '{name}': the import failed with {words}") from error
    try:
        tools = attrgetter(path)(module)
    except AttributeError as error:
        raise ConfigurationError(f"tools '{name}': {error}") from None
    if not isinstance(tools, Tools):
        kind = type(tools).__name__
        raise ConfigurationError(f"tools '{name}': this is no Tools, but of type {kind}")
    return tools
