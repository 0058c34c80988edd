"""The report as JUnit XML: one test case per requirement."""

from xml.etree import ElementTree

from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.report import Finding, Report, Run
from taskmachine.adapters.conformance.transcripts import lines

__all__ = ["render"]

_NOT_DECIDED = (Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE)


def render(report: Report) -> str:
    """Render failures as failures; known failures and undecided requirements as skipped.

    Warnings and notes pass, with their description in the test case's output.
    """
    suites = ElementTree.Element("testsuites", name="taskmachine check")
    for run in report.runs:
        suites.append(_suite(run, report))
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, "unicode", xml_declaration=True) + "\n"


def _suite(run: Run, report: Report) -> ElementTree.Element:
    known = [f for f in run.broken if f.verdict is Verdict.FAIL and f.id in report.known]
    suite = ElementTree.Element(
        "testsuite",
        name=f"{report.target} {run.revision} {run.transport}",
        tests=str(len(run.findings)),
        failures=str(run.count(Verdict.FAIL) - len(known)),
        skipped=str(run.count(*_NOT_DECIDED) + len(known)),
        time=f"{run.took_ms / 1_000:.3f}",
    )
    for finding in run.findings:
        suite.append(_case(finding, finding.id in report.known))
    return suite


def _case(finding: Finding, is_known: bool) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=finding.requirement.page, name=finding.id)
    details = printable("\n".join([finding.words, *lines(finding.transcript)]))
    if finding.verdict in _NOT_DECIDED:
        ElementTree.SubElement(case, "skipped", message=printable(finding.words))
    elif finding.verdict is Verdict.FAIL and is_known:
        ElementTree.SubElement(case, "skipped", message=printable(f"known: {finding.words}"))
    elif finding.verdict is Verdict.FAIL:
        failure = ElementTree.SubElement(
            case, "failure", message=printable(finding.words), type=finding.requirement.level
        )
        failure.text = details
    elif finding.verdict is not Verdict.PASS:
        ElementTree.SubElement(case, "system-out").text = f"{finding.verdict}: {details}"
    return case


def printable(text: str) -> str:
    """Replace control characters that XML cannot represent; a target may send any of them."""
    return "".join(
        c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text
    )
