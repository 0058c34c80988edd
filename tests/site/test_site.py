"""The site builds without a warning, needs no other host, and is complete."""

import importlib
import re
from pathlib import Path
from typing import Final

import taskmachine
from tests.architecture import FRONT_DOOR, modules, name_of
from tests.oracle import REPOSITORY
from tests.site.pages import page

_DOOR: Final = REPOSITORY.joinpath(*FRONT_DOOR)
_LOADED: Final = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?(?:https?:)?//"
    r"|<link[^>]*rel=\"?(?:stylesheet|preconnect|preload|icon)[^>]*href=\"?(?:https?:)?//"
    r"|url\(\"?(?:https?:)?//|@import"
)


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    files = [path for kind in ("html", "css", "svg") for path in site.rglob(f"*.{kind}")]
    assert len(files) > 50
    for path in files:
        assert not _LOADED.search(path.read_text()), path.relative_to(site)


def test_no_page_makes_the_theme_fetch_a_script(site: Path) -> None:
    """The theme contacts other hosts only for pages with these marks."""
    for path in site.rglob("*.html"):
        text = path.read_text()
        assert 'class="mermaid"' not in text, path
        assert 'data-md-component="source"' not in text, path


def test_every_link_of_the_site_leads_to_one_of_its_files(site: Path) -> None:
    for path in site.rglob("*.html"):
        if path.name == "404.html":
            continue  # its links are absolute
        for link in re.findall(r'(?:href|src)="([^":#?]+)(?:[#?][^"]*)?"', path.read_text()):
            target = path.parent / link
            assert target.exists(), f"{path.relative_to(site)} has {link}"


def test_the_reference_has_every_public_name(site: Path) -> None:
    built = "".join(path.read_text() for path in (site / "reference").rglob("*.html"))
    pages = "".join(path.read_text() for path in (REPOSITORY / "docs/reference").glob("*.md"))
    asked = re.findall(r"^::: (\S+)$", pages, re.MULTILINE)
    assert {name_of(path.parent) for path in _DOOR.glob("*/__init__.py")} <= set(asked)
    for name in asked:
        assert f'id="{name}"' in built, f"{name} is not shown"
        if name in modules() and not name.endswith("mcp1"):  # cannot be beside `mcp` 2.x
            for public in importlib.import_module(name).__all__:
                assert f'id="{name}.{public}"' in built, f"{name}.{public} is not shown"
    for public in set(taskmachine.__all__) - {"__version__"}:
        assert re.search(rf'id="taskmachine(\.\w+)?\.{public}"', built), f"{public} is not shown"


def test_sources_that_pages_link_to_are_pages(site: Path) -> None:
    shown = (site / "source" / "statemachine" / "table.py" / "index.html").read_text()
    assert "input_required" in shown
    assert "../../tests/chaos/judge.py" in page("docs/explanation/testing.md")
    built = (site / "explanation" / "testing" / "index.html").read_text()
    assert 'href="../../source/tests/chaos/judge.py/"' in built


def test_the_requirements_have_a_filter(site: Path) -> None:
    built = (site / "reference" / "requirements" / "index.html").read_text()
    assert built.count('<details class="requirement"') > 700
    assert "<!-- filter -->" not in built
    [form] = re.findall(r'<form class="requirements-filter".*?</form>', built, re.DOTALL)
    for name in ("revision", "level", "who", "check"):
        [options] = re.findall(rf'<select name="{name}">(.*?)</select>', form)
        offered = re.findall(r'<option(?: value="(.*?)")?>(.*?)</option>', options)
        values = {value or text for value, text in offered if text not in ("any", "both") or value}
        shown = set(re.findall(rf'class="requirement"[^>]* data-{name}="([^"]*)"', built))
        assert shown - {"both"} == values - {"both"}, name
