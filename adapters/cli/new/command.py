"""`taskmachine new`: write a project with three tools and a test."""

import argparse
import keyword
import re
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

from taskmachine.statemachine import ConfigurationError

__all__ = ["add_to"]

FILES: Final = {
    "$module.py": "module.txt",
    "test_$module.py": "test.txt",
    "pyproject.toml": "pyproject.txt",
    "README.md": "readme.txt",
    ".gitignore": "gitignore.txt",
}
"""The files of a project and their templates."""

RESERVED: Final = sys.stdlib_module_names | {"pytest", "taskmachine", *keyword.kwlist}


def add_to(commands: Any, _: Callable[[], Any]) -> None:
    """Add the command to a parser."""
    does = "write a project with three tools and a test"
    new = commands.add_parser("new", help=does, description=f"W{does[1:]}.")
    new.add_argument("name", metavar="NAME", help="name of the project and its new folder")
    new.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    name: str = options.name
    module = name.replace("-", "_").lower()
    if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?", name):
        raise ConfigurationError(
            f"NAME must have letters, digits, - and _ only, as in my-shop, got '{name}'"
        )
    if module in RESERVED:
        raise ConfigurationError(
            f"Python has a module '{module}' already: choose another name, such as my-{name}"
        )
    folder = Path(name)
    try:
        folder.mkdir()
        _write(folder, {"name": name, "module": module})
    except FileExistsError:
        raise ConfigurationError(f"{name} exists already: choose another name") from None
    except OSError as error:
        raise ConfigurationError(f"cannot write {error.filename}: {error.strerror}") from None
    print(f"Wrote {name}. Serve its tools, and reload them when you change them:\n")
    print(f"  cd {name}\n  taskmachine dev {module}.py\n")
    print(f"{name}/README.md has the other commands.")
    return 0


def _write(folder: Path, names: dict[str, str]) -> None:
    templates = files(__package__).joinpath("template")
    for name, template in FILES.items():
        text = Template(templates.joinpath(template).read_text("utf-8")).substitute(names)
        folder.joinpath(Template(name).substitute(names)).write_text(text, "utf-8")
