"""Write the generated documents: `python -m tests.update_docs`.

Pictures of programs are made by `python -m tests.site.pictures`: they need a minute.
"""

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache, partial
from html import escape
from typing import Any, Final

from rich.console import Console

from taskmachine.adapters.cli.bench.chart import draw
from taskmachine.adapters.cli.bench.figures import Report, from_json
from taskmachine.adapters.cli.bench.judging import judge
from taskmachine.adapters.cli.bench.table import print_report
from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.judging import CHECKS, CLIENT_CHECKS, Check
from taskmachine.adapters.rendering.table import render
from taskmachine.protocol import DIALECTS, dialect
from taskmachine.specs import load_requirements
from tests.oracle import REPOSITORY
from tests.requirements import citations
from tests.site.deployment import deployment
from tests.site.rooms import rooms
from tests.site.two_wires import scene


def readme() -> str:
    """README.md with the table."""
    return _with_parts("README.md", "table", lambda _: render("markdown"))


def cli_page() -> str:
    """docs/reference/cli.md with the help texts."""

    def shown(command: str) -> str:
        program = [sys.executable, "-m", *command.split()]
        said = subprocess.run(
            program,
            env={**os.environ, "COLUMNS": "80"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        return f"```console\n$ {command}\n{said.rstrip()}\n```\n"

    return _with_parts("docs/reference/cli.md", "help", shown)


def generations_page() -> str:
    """docs/explanation/generations.md with the messages of a server in both revisions."""
    return _with_parts("docs/explanation/generations.md", "scene", scene)


@cache
def _measured() -> Report:
    """Read the run of `taskmachine bench` that `tests.site.measured` stored."""
    return from_json((REPOSITORY / "docs" / "performance.json").read_bytes())


def performance_page() -> str:
    """docs/explanation/performance.md with the output of `taskmachine bench`."""

    def printed(_: str) -> str:
        report, console = _measured(), Console(width=100, file=io.StringIO())
        print_report(console, report, judge(report.rows))
        assert isinstance(console.file, io.StringIO)
        lines = (line.rstrip() for line in console.file.getvalue().splitlines())
        return f"```text\n$ {report.command}\n" + "\n".join(lines).rstrip() + "\n```\n"

    return _with_parts("docs/explanation/performance.md", "figures", printed)


def _with_parts(path: str, kind: str, make: Callable[[str], str]) -> str:
    """Return a page with new parts between its marks."""
    return re.sub(
        rf"(<!-- {kind}: (.*?) -->\n).*?(<!-- end of {kind} -->)",
        lambda marks: marks[1] + make(marks[2]) + marks[3],
        (REPOSITORY / path).read_text(),
        flags=re.DOTALL,
    )


def requirements_page() -> str:
    """docs/reference/requirements.md with every requirement, its checks and tests."""
    shown = citations()

    def listed(revision: str) -> str:
        rows = load_requirements(revision)
        tested = sum(row["id"] in shown for row in rows)
        checked = sum(bool(_checks_of(row["id"])) for row in rows)
        counts = f"{len(rows)} requirements, {checked} with a check, {tested} shown by tests."
        items = [_listed(revision, row, shown.get(row["id"], [])) for row in rows]
        return "\n".join([counts, "", *items, ""])

    return _with_parts("docs/reference/requirements.md", "requirements", listed)


def _listed(revision: str, row: dict[str, Any], tests: list[str]) -> str:
    """One line of HTML: a list without scripts, and filtered by docs/site/filter.html."""
    checks = _checks_of(row["id"])
    check = ", ".join(f"<code>{name}</code>" for name in checks) or "none"
    return (
        f'<details class="requirement" id="{row["id"]}" data-revision="{revision}"'
        f' data-level="{row["level"]}" data-who="{row["who"]}"'
        f' data-check="{"yes" if checks else "no"}">'
        f"<summary><b>{row['level']}</b> <code>{row['id'].removeprefix(f'{revision}:')}</code>"
        f' <i>{row["who"]}</i> <span class="says">{_html(row["says"])}</span></summary>'
        f"<p>Check: {check}. Tests: {_shown_by(row, tests)}</p></details>"
    )


def _html(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))


def _checks_of(id: str) -> list[str]:
    """Name the checks of a requirement for servers and clients, as `module.function`."""
    _load_checks()
    found: Iterable[Check | None] = (CHECKS.get(id), CLIENT_CHECKS.get(id))
    return [_name_of(check) for check in found if check is not None]


_load_checks: Final = cache(load_checks)


def _name_of(check: Check) -> str:
    module = check.function.__module__.partition(".checks.")[2]
    return f"{module}.{getattr(check.function, '__name__')}"  # noqa: B009


def _shown_by(row: dict[str, Any], tests: list[str]) -> str:
    if tests:
        return ", ".join(f"<code>{test.partition('::')[2]}</code>" for test in tests) + "."
    if "unobservable" in row:
        return _html(f"cannot be observed: {row['unobservable']}")
    return _html(str(row.get("untested", "needs a wire")))


DOCUMENTS: Final[dict[str, Callable[[], str]]] = {
    "README.md": readme,
    "docs/reference/cli.md": cli_page,
    "docs/reference/requirements.md": requirements_page,
    "docs/explanation/generations.md": generations_page,
    "docs/deployment.svg": deployment,
    "docs/rooms.svg": rooms,
    "docs/table.svg": partial(render, "svg"),
    "docs/explanation/performance.md": performance_page,
    "docs/performance.svg": lambda: draw(_measured()),
    **{
        f"docs/table-{name}.svg": partial(render, "svg", dialect(name).messages)
        for name in DIALECTS
    },
}
"""The documents with generated parts, and the functions that make them."""


def main() -> None:
    """Write all of them."""
    for path, make in DOCUMENTS.items():
        (REPOSITORY / path).write_text(make())


if __name__ == "__main__":
    main()
