"""The report as one self-contained HTML page."""

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Final

from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.report import Finding, Report, Run
from taskmachine.adapters.conformance.reports.state_diagram import draw
from taskmachine.adapters.conformance.transcripts import lines, pasteable

__all__ = ["render"]

_COUNTED: Final = (
    Verdict.FAIL, Verdict.WARNING, Verdict.NOTE, Verdict.PASS, Verdict.INCONCLUSIVE,
)  # fmt: skip


def render(report: Report) -> str:
    """Render summary, state diagram, requirements and transcripts."""
    runs = "\n".join(_run(run, report) for run in report.runs)
    page = files(__package__ or "").joinpath("page.html").read_text("utf-8")
    return (
        page.replace("{{target}}", escape(report.target))
        .replace("{{verdict}}", escape(report.summary))
        .replace("{{seed}}", str(report.seed))
        .replace("{{runs}}", runs)
    )


def _run(run: Run, report: Report) -> str:
    counts = "".join(
        f'<li class="{_css(verdict)}"><b>{run.count(verdict)}</b> {verdict.value}</li>'
        for verdict in _COUNTED
    )
    order = {id: place for place, id in enumerate(finding.id for finding in run.broken)}
    rows = sorted(run.findings, key=lambda f: order.get(f.id, len(order)))
    stopped = f"<p>Stopped early: {escape(run.stopped)}.</p>" if run.stopped else ""
    tools = "".join(
        f"<li><b>{role}</b> {escape(call.name)}</li>" for role, call in run.profile.calls.items()
    )
    url = report.target if run.transport == "http" else None
    return f"""<section class="run">
<h2>{run.revision} over {run.transport}</h2>
<ul class="counts">{counts}</ul>
<p>{run.exercised} of {run.observable} requirements exercised in {run.took_ms / 1_000:.1f} s.</p>
{stopped}
<figure>{draw(run)}
<figcaption>Observed status transitions and their counts.</figcaption></figure>
<ul class="tools">{tools}</ul>
<div class="requirements">{"".join(_row(f, f.id in report.known, url) for f in rows)}</div>
</section>"""


def _row(finding: Finding, is_known: bool, url: str | None) -> str:
    requirement = finding.requirement
    known = " (known)" if is_known else ""
    seen = f"<p class=seen>{escape(finding.words)}</p>" if finding.words else ""
    return f"""<details class="row {_css(finding.verdict)}" data-verdict="{_css(finding.verdict)}">
<summary><span class=verdict>{finding.verdict.value}{known}</span> <code>{finding.id}</code>
<span class=level>{requirement.level}</span>
<span class=says>{escape(requirement.says)}</span></summary>
<p>{escape(requirement.page)}, {escape(requirement.section)};
exercised {finding.times} times.</p>
{seen}{"".join(_transcript(finding, url))}</details>"""


def _transcript(finding: Finding, url: str | None) -> Iterator[str]:
    if not finding.transcript:
        return
    yield _block(lines(finding.transcript))
    if finding.verdict in (Verdict.FAIL, Verdict.WARNING):
        yield f"<p>To reproduce:</p>{_block(pasteable(finding.transcript, url))}"


def _block(text: Iterator[str]) -> str:
    return f"<pre>{escape(chr(10).join(text))}</pre>"


def _css(verdict: Verdict) -> str:
    return verdict.value.replace(" ", "-")
