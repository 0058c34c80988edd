"""Draw the generated parts of the documents anew: `python -m tests.update_docs`."""

import re

from taskmachine.adapters.rendering import render
from taskmachine.protocol import DIALECTS, dialect
from tests.oracle import REPOSITORY


def main() -> None:
    """Write the pictures, and the table between its marks in the README."""
    docs = REPOSITORY / "docs"
    (docs / "table.svg").write_text(render("svg"))
    for name in DIALECTS:
        (docs / f"table-{name}.svg").write_text(render("svg", dialect(name)))
    readme = REPOSITORY / "README.md"
    text = re.sub(
        r"(<!-- table: .*? -->\n).*?(<!-- end of table -->)",
        lambda marks: marks[1] + render("markdown") + marks[2],
        readme.read_text(),
        flags=re.DOTALL,
    )
    readme.write_text(text)


if __name__ == "__main__":
    main()
