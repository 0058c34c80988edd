"""Add linked files outside of this folder to the site, and the filter to the requirements.

Pages are written for the repository: `[the judge](../tests/chaos/judge.py)` leads to a file there.
The site has a page with the text of each such file, so the same link works in both, and the site
needs no address of a repository.
"""

import ast
import posixpath
import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY: Final = Path(__file__).parents[2]

_FILTER: Final = Path(__file__).with_name("filter.html")
_LINK: Final = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#\s])")
_FENCED: Final = re.compile(r"^(`{3,}).*?^\1$", re.DOTALL | re.MULTILINE)
_PICTURES: Final = (".svg", ".png")
_LANGUAGES: Final = {".py": "python", ".mjs": "js", ".toml": "toml", ".json": "json"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the linked files that the folder does not have, and the files that those link to."""
    asked = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    while asked:
        place, text = asked.pop()
        for target in _targets(place, text):
            made = _place_of(target)
            if files.get_file_from_path(made) is None and (REPOSITORY / target).exists():
                content = _text_of(target)
                files.append(File.generated(config, made, content=content))
                asked.append((made, content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page for the site."""
    here = page.file.src_uri
    begin = posixpath.dirname(here)

    def moved(link: re.Match[str]) -> str:
        return posixpath.relpath(_place_of(_target(here, link[1])), begin or ".")

    parts = _FENCED.split(markdown)
    blocks = [match[0] for match in _FENCED.finditer(markdown)]
    prose = [_LINK.sub(moved, part) for part in parts[::2]]
    return "".join(text for pair in zip(prose, [*blocks, ""], strict=True) for text in pair)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the filter in place of its mark."""
    return html.replace("<!-- filter -->", _FILTER.read_text())


def _targets(place: str, text: str) -> list[str]:
    return [_target(place, link) for link in _LINK.findall(_FENCED.sub("", text))]


def _target(place: str, link: str) -> str:
    """Return the path in the repository that a link of a page leads to."""
    at_the_top = place in _AT_THE_TOP or place.startswith(_SOURCE)
    folder = "" if at_the_top else posixpath.join("docs", posixpath.dirname(place))
    return posixpath.normpath(posixpath.join(folder, link))


_SOURCE: Final = "source/"
_AT_THE_TOP: Final = frozenset(path.name for path in REPOSITORY.glob("*.md"))


def _place_of(target: str) -> str:
    """Return the path in the site for a path of the repository."""
    if target == "README.md":
        return "index.md"
    if target.endswith((".md", *_PICTURES)):
        return target.removeprefix("docs/")
    return f"{_SOURCE}{target}.md"


def _text_of(target: str) -> str:
    path = REPOSITORY / target
    if target.endswith(".md"):
        return path.read_text()
    head = f"---\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n# {path.name}\n\n`{target}`\n\n"
    if path.is_dir():
        rows = [f"| `{inner.name}` | {_summary(inner)} |" for inner in sorted(path.glob("[!_.]*"))]
        about = _summary(path / "__init__.py")
        return head + "\n".join([about, "", "| file | what |", "|---|---|", *rows, ""])
    return f"{head}``````{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}``````\n"


def _summary(path: Path) -> str:
    """Return the first sentence of a module, or an empty text."""
    if path.is_dir():
        path /= "__init__.py"
    if path.suffix != ".py" or not path.exists():
        return ""
    said = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(said.partition("\n\n")[0].split()).replace("|", "\\|")
