"""What happened to a task, by everybody who knows something of it: for whoever has to find out."""

from tests.chaos.record import Evidence
from tests.chaos.register import NS_PER_MS

__all__ = ["transcript"]


def transcript(evidence: Evidence, sentences: list[str]) -> str:
    """The lives of all tasks that these sentences name, in the order of time."""
    ids = evidence.tasks.keys() | {made.task_id for made in evidence.made}
    named = [task_id for task_id in sorted(ids) if any(task_id in why for why in sentences)]
    return "\n".join(line for task_id in named for line in _life(evidence, task_id))


def _life(evidence: Evidence, task_id: str) -> list[str]:
    def ms(moment: int) -> float:
        return moment / NS_PER_MS + evidence.epoch_ms

    told: list[tuple[float, str]] = []
    for entry in evidence.entries.get(task_id, ()):
        words = f"{entry.seq}: {entry.event}, {entry.source} to {entry.dest}"
        told.append((entry.at, f"{words} ({entry.note})" if entry.note else words))
    for look in evidence.looks:
        if look.task_id == task_id:
            shown = f"{look.status} since {look.updated_ms}, {look.outcome}, {look.message}"
            lasted = f"{(look.until - look.since) / NS_PER_MS:.0f} ms"
            version = "" if look.version is None else f" version {look.version}"
            told.append((ms(look.since), f"{look.caller}, {look.wire}{version}, {lasted}: {shown}"))
    for channel in evidence.channels:
        for push in channel.pushes:
            if push.task_id == task_id:
                words = f"{push.status} since {push.updated_ms}, {push.outcome}"
                told.append((ms(push.since), f"{channel.owner}, {channel.kind} stream: {words}"))
    for span in evidence.spans:
        if span.task_id == task_id:
            lasted = "no end" if span.until is None else f"{(span.until - span.since) / 1e6:.0f} ms"
            dropped = ", dropped" if span.is_dropped else ""
            told.append((ms(span.since), f"{span.method}, {lasted}{dropped}"))
    runs = [f"{line.run} {line.what}" for line in evidence.lines if line.task_id == task_id]
    task = evidence.tasks.get(task_id)
    head = f"--- {task_id}: {task.call.name if task else 'not stored'}; {', '.join(runs)}"
    return [head, *(f"{at:.0f} {words}" for at, words in sorted(told))]
