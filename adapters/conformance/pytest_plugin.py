"""pytest plugin: `pytest --mcp-target URL` runs one test for each requirement.

The target is a URL, or a quoted command. `--mcp-args` takes the options of `taskmachine check`.
"""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from taskmachine.adapters.conformance.report import Finding

__all__: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("mcp", "MCP Tasks conformance")
    group.addoption(
        "--mcp-target",
        metavar="TARGET",
        help="URL of a server, or a command that starts one on stdio",
    )
    group.addoption("--mcp-args", metavar="ARGS", default="", help="options of `taskmachine check`")


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add a test for each requirement of each selected revision."""
    target = config.getoption("--mcp-target")
    if target is None:
        return
    verdicts = _Verdicts(target, shlex.split(config.getoption("--mcp-args")))
    items += [Requirement.from_parent(session, name=id, verdicts=verdicts) for id in verdicts.ids()]


class _Verdicts:
    """The report, made when the first test needs it."""

    def __init__(self, target: str, arguments: list[str]) -> None:
        from taskmachine.adapters.conformance.command_line import read_arguments

        self._options = read_arguments([target, *arguments])
        self._findings: dict[str, Finding] | None = None
        self._known: frozenset[str] = frozenset()
        self._error: str | None = None

    def ids(self) -> Iterator[str]:
        """Return the ids that will get a verdict, without contacting the target."""
        from taskmachine.adapters.conformance.command import wanted_ids

        return iter(wanted_ids(self._options))

    def on(self, id: str) -> tuple["Finding | None", bool]:
        """Return the verdict, and whether it is known; the first call runs the whole check."""
        from taskmachine.adapters.conformance.command import check_named
        from taskmachine.adapters.conformance.errors import CannotCheck

        if self._error is not None:
            pytest.fail(self._error, pytrace=False)
        if self._findings is None:
            try:
                report = check_named(self._options, lambda _: None)
            except CannotCheck as error:
                self._error = str(error)
                pytest.fail(self._error, pytrace=False)
            self._known = report.known
            self._findings = {f.id: f for run in report.runs for f in run.broken[::-1]}
            for run in report.runs:
                for finding in run.findings:
                    self._findings.setdefault(finding.id, finding)
        return self._findings.get(id), id in self._known


class Requirement(pytest.Item):
    """One requirement as a test."""

    def __init__(self, *, verdicts: _Verdicts, **rest: Any) -> None:
        super().__init__(**rest)
        self._verdicts = verdicts

    def runtest(self) -> None:
        """Fail, skip or pass according to the verdict."""
        from taskmachine.adapters.conformance.judging import Verdict
        from taskmachine.adapters.conformance.transcripts import lines

        finding, is_known = self._verdicts.on(self.name)
        if finding is None:
            pytest.skip("the target does not support this revision")
        details = "\n".join([finding.words, *lines(finding.transcript)])
        if finding.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE):
            pytest.skip(finding.words)
        elif finding.verdict is Verdict.FAIL and is_known:
            pytest.xfail(finding.words)
        elif finding.verdict is Verdict.FAIL:
            pytest.fail(f"{finding.requirement.says}\n{details}", pytrace=False)
        elif finding.verdict is not Verdict.PASS:
            self.add_report_section("call", finding.verdict.value, details)

    def reportinfo(self) -> tuple[str, None, str]:
        """Return the place and the name that pytest shows."""
        return "taskmachine check", None, self.name
