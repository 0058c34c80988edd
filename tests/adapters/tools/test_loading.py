"""Tools by name, module and file, and the errors of users' modules."""

import sys
from pathlib import Path
from typing import Final

import pytest

from taskmachine.adapters.tools.loading import folder_of, load_tools
from taskmachine.statemachine import ConfigurationError

IMPORT: Final = "from taskmachine import Tools\n"
MODULES: Final = {
    "shop": f"{IMPORT}class Shop:\n    tools = Tools()\n"
    "@Shop.tools.task()\ndef buy() -> None: ...\n",
    "one": f"{IMPORT}tools = Tools()\nalias = tools\n\n@tools.task()\ndef buy() -> None: ...\n",
    "pair": f"{IMPORT}first = Tools()\nsecond = Tools()\n",
    "none": "x = 1\n",
    "bad_syntax": "x = 1\ndef\n",
    "bad_start": "\n1 / 0\n",
    "bad_exit": "raise SystemExit(3)\n",
    "bad_name": "def f():\n    return ctx\n\nf()\n",
    "bad_import": "import no_such_package\n",
    "bad_words": "raise ValueError('one\\n  two')\n",
    "bad_tool": f"{IMPORT}tools = Tools()\n\n@tools.task(timeout=-1)\ndef f() -> None: ...\n",
    "bad_call": "import json\n\njson.loads('{')\n",
    "placed": "from taskmachine import ConfigurationError\n"
    "raise ConfigurationError('other.py:7: wrong')\n",
    "unguarded": f"{IMPORT}tools = Tools()\ntools.run()\n",
    "calendar": f"{IMPORT}tools = Tools()\n",
    "folder/inner": f"{IMPORT}import beside\ntools = Tools()\n",
    "folder/beside": "x = 1\n",
}
FORMS: Final = "demo, conformance, MODULE, PATH.py, MODULE:OBJECT or PATH.py:OBJECT"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.chdir(tmp_path)
    for name, source in MODULES.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["shop:Shop.tools", "one", "one:tools", "one.py", "./one.py:tools"]
)
def test_tools_of_a_module_or_file_are_found(name: str) -> None:
    assert list(load_tools(name)) == ["buy"]


def test_tools_are_found_by_a_registered_name() -> None:
    assert "greet" in load_tools("demo")
    assert len(load_tools("conformance")) > 0


def test_a_file_imports_modules_beside_it(folder: Path) -> None:
    assert len(load_tools("folder/inner.py")) == 0
    assert folder_of("folder/inner.py:tools") == folder / "folder"
    assert folder_of("one") == folder_of("one.py") == folder


@pytest.mark.parametrize(
    ("name", "says"),
    [
        *((name, f"tools must be {FORMS}, got '{name}'") for name in ("", ":x", "x:", "x.py:")),
        ("no_such:x", "tools 'no_such:x': there is no module 'no_such' in {folder} or the "),
        ("no_such.py", "tools 'no_such.py': there is no file {folder}/no_such.py"),
        ("folder", "tools 'folder': the module has no Tools; it needs one: tools = taskmachine."),
        ("none.py", "tools 'none.py': the module has no Tools; it needs one: tools = taskmachine."),
        ("pair", "tools 'pair': the module has several Tools; add :first or :second"),
        ("pair:third", "tools 'pair:third': module 'pair' has no attribute 'third'; add :first"),
        ("json:nope", "tools 'json:nope': module 'json' has no attribute 'nope'"),
        ("json:loads", "tools 'json:loads': must be of type Tools, not function"),
        ("calendar.py", "tools 'calendar.py': Python has another module 'calendar'; rename the "),
        ("bad_syntax", "bad_syntax.py:2: SyntaxError: invalid syntax, in: def"),
        ("bad_start.py", "bad_start.py:2: ZeroDivisionError: division by zero, in: 1 / 0"),
        ("bad_exit:x", "bad_exit.py:1: SystemExit: 3, in: raise SystemExit(3)"),
        ("bad_name", "bad_name.py:2: NameError: name 'ctx' is not defined, in: return ctx"),
        ("bad_import", "bad_import.py:1: ModuleNotFoundError: No module named 'no_such_package',"),
        ("bad_words", "bad_words.py:1: ValueError: one two, in: raise ValueError("),
        ("bad_tool", "bad_tool.py:4: tool 'f': timeout must be from 1 ms to 7 days, got -1 s"),
        ("bad_call", "bad_call.py:3: JSONDecodeError: Expecting property name enclosed in "),
        ("placed", "other.py:7: wrong"),
        ("unguarded", "unguarded.py:3: tools.run() would start a second server: put it below `if"),
        ("..x:y", "tools '..x:y': TypeError: "),
    ],
)
def test_invalid_tools_are_refused(name: str, says: str, folder: Path) -> None:
    import calendar  # noqa: F401  as a program that serves does

    with pytest.raises(ConfigurationError) as error:
        load_tools(name)
    assert str(error.value).startswith(says.format(folder=folder))
