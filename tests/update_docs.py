"""Write the generated documents anew: `python -m tests.update_docs`.

Pictures of programs at work are made by `python -m tests.site.pictures`: they need a minute.
"""

import io
import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Final

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
from tests.oracle import REPOSITORY, REVISIONS
from tests.requirements import citations
from tests.site.deployment import deployment
from tests.site.rooms import rooms
from tests.site.two_wires import scene


def readme() -> str:
    """With the table."""
    return _with_parts("README.md", "table", lambda _: render("markdown"))


def migration_page() -> str:
    """With what a server says in both generations."""
    return _with_parts("docs/migration.md", "scene", scene)


@cache
def _measured() -> Report:
    """A run of `taskmachine bench`, kept without its single rounds by `tests.site.measured`."""
    return from_json((REPOSITORY / "docs" / "performance.json").read_bytes())


def performance_page() -> str:
    """With what `taskmachine bench` printed."""

    def printed(_: str) -> str:
        report, console = _measured(), Console(width=100, file=io.StringIO())
        print_report(console, report, judge(report.rows))
        assert isinstance(console.file, io.StringIO)
        lines = (line.rstrip() for line in console.file.getvalue().splitlines())
        return f"```text\n$ {report.command}\n" + "\n".join(lines).rstrip() + "\n```\n"

    return _with_parts("docs/performance.md", "figures", printed)


def _with_parts(path: str, kind: str, make: Callable[[str], str]) -> str:
    """A page with the parts between its marks made anew."""
    return re.sub(
        rf"(<!-- {kind}: (.*?) -->\n).*?(<!-- end of {kind} -->)",
        lambda marks: marks[1] + make(marks[2]) + marks[3],
        (REPOSITORY / path).read_text(),
        flags=re.DOTALL,
    )


def requirements_page() -> str:
    """Every row of the catalogue, the checks that judge others by it, the tests that show it."""
    shown = citations()
    lines = [
        "# Requirements",
        "",
        "Every MUST, SHOULD and MAY that an implementation of tasks meets, in our own words; the "
        "check by which [`taskmachine check`](conformance.md) judges the implementations of others "
        "(a module in [`adapters/conformance/checks`](../adapters/conformance/checks), and the "
        "function in it); and the tests that show it of ours. Written from `specs/requirements/` "
        "by `python -m tests.update_docs`; how each is observed on the wire stands there.",
    ]
    for revision in REVISIONS:
        rows = load_requirements(revision)
        tested = sum(row["id"] in shown for row in rows)
        checked = sum(bool(_checks_of(row["id"])) for row in rows)
        lines += ["", f"## {revision}", ""]
        lines += [f"{len(rows)} rows, {checked} judged by checks, {tested} shown by tests.", ""]
        lines += ["| id | level | who | says | check | shown by |", "|---|---|---|---|---|---|"]
        for row in rows:
            name = row["id"].removeprefix(f"{revision}:")
            says = row["says"].replace("|", "\\|")
            check = ", ".join(f"`{name}`" for name in _checks_of(row["id"])) or "none"
            by = _shown_by(row, shown.get(row["id"], []))
            lines.append(f"| {name} | {row['level']} | {row['who']} | {says} | {check} | {by} |")
    return "\n".join(lines) + "\n"


def _checks_of(id: str) -> list[str]:
    """The functions that judge servers and clients by a requirement, as `module.function`."""
    _load_checks()
    found: Iterable[Check | None] = (CHECKS.get(id), CLIENT_CHECKS.get(id))
    return [_name_of(check) for check in found if check is not None]


_load_checks: Final = cache(load_checks)


def _name_of(check: Check) -> str:
    module = check.function.__module__.partition(".checks.")[2]
    return f"{module}.{getattr(check.function, '__name__')}"  # noqa: B009


def _shown_by(row: dict[str, object], tests: list[str]) -> str:
    if tests:
        return ", ".join(f"`{test.partition('::')[2]}`" for test in tests)
    if "unobservable" in row:
        return f"cannot be observed: {row['unobservable']}"
    return str(row.get("untested", "needs a wire"))


DOCUMENTS: Final[dict[str, Callable[[], str]]] = {
    "README.md": readme,
    "docs/requirements.md": requirements_page,
    "docs/migration.md": migration_page,
    "docs/deployment.svg": deployment,
    "docs/rooms.svg": rooms,
    "docs/table.svg": partial(render, "svg"),
    "docs/performance.md": performance_page,
    "docs/performance.svg": lambda: draw(_measured()),
    **{
        f"docs/table-{name}.svg": partial(render, "svg", dialect(name).messages)
        for name in DIALECTS
    },
}
"""Path to what it must contain, of every document that has a generated part."""


def main() -> None:
    """Write what differs."""
    for path, make in DOCUMENTS.items():
        (REPOSITORY / path).write_text(make())


if __name__ == "__main__":
    main()
