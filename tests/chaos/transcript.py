"""A transcript of a task from all evidence, for debugging a violation."""

from tests.chaos.linearizability import NS_PER_MS
from tests.chaos.record import Evidence

__all__ = ["transcript"]


def transcript(evidence: Evidence, sentences: list[str]) -> str:
    """Return all evidence about the tasks that the sentences name, in order of time."""
    ids = evidence.tasks.keys() | {made.task_id for made in evidence.made}
    named = [task_id for task_id in sorted(ids) if any(task_id in why for why in sentences)]
    return "\n".join(line for task_id in named for line in _lines(evidence, task_id))


def _lines(evidence: Evidence, task_id: str) -> list[str]:
    def ms(moment: int) -> float:
        return moment / NS_PER_MS + evidence.epoch_ms

    lines: list[tuple[float, str]] = []
    for entry in evidence.entries.get(task_id, ()):
        words = f"{entry.seq}: {entry.event}, {entry.source} to {entry.dest}"
        lines.append((entry.at, f"{words} ({entry.note})" if entry.note else words))
    for seen in evidence.observations:
        if seen.task_id == task_id:
            shown = f"{seen.status} since {seen.updated_ms}, {seen.outcome}, {seen.message}"
            lasted = f"{(seen.until - seen.since) / NS_PER_MS:.0f} ms"
            version = "" if seen.version is None else f" version {seen.version}"
            lines.append(
                (ms(seen.since), f"{seen.caller}, {seen.wire}{version}, {lasted}: {shown}")
            )
    for channel in evidence.channels:
        for push in channel.pushes:
            if push.task_id == task_id:
                words = f"{push.status} since {push.updated_ms}, {push.outcome}"
                lines.append((ms(push.since), f"{channel.owner}, {channel.kind} stream: {words}"))
    for span in evidence.spans:
        if span.task_id == task_id:
            lasted = "no end" if span.until is None else f"{(span.until - span.since) / 1e6:.0f} ms"
            dropped = ", dropped" if span.is_dropped else ""
            lines.append((ms(span.since), f"{span.method}, {lasted}{dropped}"))
    runs = [f"{line.run} {line.what}" for line in evidence.log_lines if line.task_id == task_id]
    task = evidence.tasks.get(task_id)
    head = f"--- {task_id}: {task.call.name if task else 'not stored'}; {', '.join(runs)}"
    return [head, *(f"{at:.0f} {words}" for at, words in sorted(lines))]
