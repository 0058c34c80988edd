"""Write the generated documents anew: `python -m tests.update_docs`."""

import re

from taskmachine.adapters.rendering import render
from taskmachine.protocol import DIALECTS, dialect
from taskmachine.specs import load_requirements
from tests.oracle import REPOSITORY, REVISIONS
from tests.requirements import citations


def documents() -> dict[str, str]:
    """Path to text, of every document that has a generated part."""
    pictures = {"docs/table.svg": render("svg")} | {
        f"docs/table-{name}.svg": render("svg", dialect(name)) for name in DIALECTS
    }
    readme = re.sub(
        r"(<!-- table: .*? -->\n).*?(<!-- end of table -->)",
        lambda marks: marks[1] + render("markdown") + marks[2],
        (REPOSITORY / "README.md").read_text(),
        flags=re.DOTALL,
    )
    return {"README.md": readme, "docs/requirements.md": requirements_page(), **pictures}


def requirements_page() -> str:
    """Every row of the catalogue, and the tests that show it."""
    shown = citations()
    lines = [
        "# Requirements",
        "",
        "Every MUST, SHOULD and MAY that an implementation of tasks meets, in our own words, and "
        "the tests that show it. Written from `specs/requirements/` by "
        "`python -m tests.update_docs`; how each is observed on the wire stands there.",
    ]
    for revision in REVISIONS:
        rows = load_requirements(revision)
        tested = sum(row["id"] in shown for row in rows)
        lines += ["", f"## {revision}", "", f"{len(rows)} rows, {tested} shown by tests.", ""]
        lines += ["| id | level | who | says | shown by |", "|---|---|---|---|---|"]
        for row in rows:
            name = row["id"].removeprefix(f"{revision}:")
            says = row["says"].replace("|", "\\|")
            by = _shown_by(row, shown.get(row["id"], []))
            lines.append(f"| {name} | {row['level']} | {row['who']} | {says} | {by} |")
    return "\n".join(lines) + "\n"


def _shown_by(row: dict[str, object], tests: list[str]) -> str:
    if tests:
        return ", ".join(f"`{test.partition('::')[2]}`" for test in tests)
    if "unobservable" in row:
        return f"cannot be observed: {row['unobservable']}"
    return str(row.get("untested", "needs a wire"))


def main() -> None:
    """Write what differs."""
    for path, text in documents().items():
        (REPOSITORY / path).write_text(text)


if __name__ == "__main__":
    main()
