"""`pytest --mcp-target URL`: one test for each requirement.

The target is a URL, or a command in quotes.  `--mcp-args` takes what `taskmachine check` takes.
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
    group = parser.getgroup("mcp", "conformance with MCP Tasks")
    group.addoption("--mcp-target", metavar="TARGET", help="a URL, or a command that serves stdio")
    group.addoption("--mcp-args", metavar="ARGS", default="", help="as for `taskmachine check`")


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add a test for each requirement of each revision that is wanted."""
    target = config.getoption("--mcp-target")
    if target is None:
        return
    verdicts = _Verdicts(target, shlex.split(config.getoption("--mcp-args")))
    items += [Requirement.from_parent(session, name=id, verdicts=verdicts) for id in verdicts.ids()]


class _Verdicts:
    """The report, made when the first test asks for it."""

    def __init__(self, target: str, arguments: list[str]) -> None:
        from taskmachine.adapters.conformance.command_line import read_arguments

        is_url = target.startswith(("http://", "https://"))
        self._options = read_arguments([*([target] if is_url else ["--stdio", target]), *arguments])
        self._findings: dict[str, Finding] | None = None
        self._known: frozenset[str] = frozenset()
        self._why_not: str | None = None

    def ids(self) -> Iterator[str]:
        """What there will be a verdict on; the target is not asked yet."""
        from taskmachine.adapters.conformance.command import wanted_ids

        return iter(wanted_ids(self._options))

    def on(self, id: str) -> tuple["Finding | None", bool]:
        """The verdict, and whether it is known; all are reached when the first one is wanted."""
        from taskmachine.adapters.conformance.command import check_named
        from taskmachine.adapters.conformance.errors import CannotCheck

        if self._why_not is not None:
            pytest.fail(self._why_not, pytrace=False)
        if self._findings is None:
            try:
                report = check_named(self._options, lambda _: None)
            except CannotCheck as error:
                self._why_not = str(error)
                pytest.fail(self._why_not, pytrace=False)
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
        """Fail as the verdict does; skip what is undecided, or known."""
        from taskmachine.adapters.conformance.judging import Verdict
        from taskmachine.adapters.conformance.transcripts import lines

        finding, is_known = self._verdicts.on(self.name)
        if finding is None:
            pytest.skip("the target does not speak this revision")
        told = "\n".join([finding.words, *lines(finding.transcript)])
        if finding.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE):
            pytest.skip(finding.words)
        elif finding.verdict is Verdict.FAIL and is_known:
            pytest.xfail(finding.words)
        elif finding.verdict is Verdict.FAIL:
            pytest.fail(f"{finding.requirement.says}\n{told}", pytrace=False)
        elif finding.verdict is not Verdict.PASS:
            self.add_report_section("call", finding.verdict.value, told)

    def reportinfo(self) -> tuple[str, None, str]:
        """Where it comes from: the specification."""
        return "taskmachine check", None, self.name
