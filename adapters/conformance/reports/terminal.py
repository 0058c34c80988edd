"""The report for a terminal: violations first, each with its transcript."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from taskmachine.adapters.conformance.catalogue import requirements_of_servers
from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.report import Finding, Report, Run
from taskmachine.adapters.conformance.transcripts import lines

__all__ = ["list_requirements", "progress", "show", "show_finding"]

_COLOURS = {
    Verdict.FAIL: "bold red",
    Verdict.WARNING: "yellow",
    Verdict.NOTE: "cyan",
    Verdict.PASS: "green",
    Verdict.INCONCLUSIVE: "dim",
    Verdict.NOT_APPLICABLE: "dim",
}
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
MOST_LINES = 12
MOST_NOTES = 20


@contextlib.contextmanager
def progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Show the current step in a transient line on interactive terminals."""
    with console.status("connecting") as status:
        yield lambda words: status.update(escape(words))


def show(report: Report, console: Console) -> None:
    """Show each run with its findings and a table of verdicts by page."""
    for run in report.runs:
        _show_run(run, report, console)
    console.print(f"\n[bold]{report.summary}[/]")


def _show_run(run: Run, report: Report, console: Console) -> None:
    meta = run.server.get("_meta")
    info = run.server.get("serverInfo", isinstance(meta, dict) and meta.get(SERVER_INFO))
    name = info.get("name") if isinstance(info, dict) else None
    console.print()
    title = f"{name or report.target}, {run.revision} over {run.transport}"
    console.rule(f"[bold]{escape(title)}[/]", align="left")
    for finding in run.broken:
        show_finding(finding, console, is_known=finding.id in report.known)
    notes = [f for f in run.findings if f.verdict is Verdict.NOTE]
    if notes:
        console.print("\n[bold]Notes[/] (not violations)")
        for finding in notes[:MOST_NOTES]:
            words = f"  {finding.id}: {finding.words}"
            console.print(words, style="cyan", markup=False, highlight=False)
        if len(notes) > MOST_NOTES:
            console.print(f"  ... and {len(notes) - MOST_NOTES} more")
    console.print()
    console.print(_sections(run))
    if not run.is_client:
        roles = ", ".join(f"{role}={call.name}" for role, call in run.profile.calls.items())
        console.print(f"Tools by role: {roles or 'none; no tool runs as a task'}", markup=False)
    console.print(
        f"{run.exercised} of {run.observable} requirements exercised in "
        f"{run.took_ms / 1_000:.1f} s; seed {report.seed}"
        + (f"; stopped early: {run.stopped}" if run.stopped else ""),
        markup=False,
        highlight=False,
    )


def show_finding(finding: Finding, console: Console, *, is_known: bool = False) -> None:
    """Show a requirement, the observation and its transcript."""
    colour = _COLOURS[finding.verdict]
    known = " [dim](known)[/]" if is_known else ""
    level = finding.requirement.level
    title = f"\n[{colour}]{finding.verdict.upper()}[/] [bold]{finding.id}[/] {level}{known}"
    console.print(title, highlight=False)
    console.print(f"  {finding.requirement.says}", markup=False, highlight=False)
    times = f" ({finding.broken} of {finding.times} times)" if finding.times > 1 else ""
    console.print(f"  Seen: {finding.words}{times}", style=colour, markup=False, highlight=False)
    transcript = list(lines(finding.transcript))
    for line in transcript[:MOST_LINES]:
        shown = line if len(line) <= 400 else f"{line[:400]} ..."
        console.print(f"    {shown}", style="dim", markup=False, highlight=False)
    if len(transcript) > MOST_LINES:
        console.print(f"    ... and {len(transcript) - MOST_LINES} more", style="dim")


def _sections(run: Run) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("page")
    for verdict in Verdict:
        table.add_column(verdict.value, justify="right", style=_COLOURS[verdict])
    for page in dict.fromkeys(finding.requirement.page for finding in run.findings):
        of_page = [f for f in run.findings if f.requirement.page == page]
        counts = [sum(f.verdict is verdict for f in of_page) for verdict in Verdict]
        table.add_row(page, *(str(count) if count else "" for count in counts))
    return table


def list_requirements(console: Console, revisions: Sequence[str]) -> None:
    """List the requirements of these revisions, and which have no check."""
    for revision in revisions:
        table = Table("id", "level", "requirement", box=None, pad_edge=False)
        for requirement in requirements_of_servers(revision).values():
            says = requirement.says
            if not requirement.is_checked:
                says += f" [not checked: {requirement.reason}]"
            table.add_row(requirement.id, requirement.level, escape(says))
        console.print(table)
