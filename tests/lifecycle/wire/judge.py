"""Judges what was recorded: pure functions, a sentence for everything that is wrong.

The oracle is `specs/lifecycle.toml` and what the test did itself.  Messages are read as plain
JSON, never by the code under test.

Reads are in the order in which they were sent, for the machine makes one after the other.  What
is pushed may be late, so it is only compared with what came on the same channel, and with reads
that were begun after it had come.
"""

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any, Final

from taskmachine.statemachine.invariants import (
    Answered,
    Asked,
    Called,
    Created,
    Missed,
    Saw,
    violations,
)
from taskmachine.statemachine.invariants import Event as Observed
from tests.oracle import LIFECYCLES
from tests.wire.looks import (
    UNKNOWN,
    is_terminal,
    pushes,
    reads,
    results,
    seen,
    status_of,
    task_of,
)
from tests.wire.record import GENERAL, JSON, NEW, OLD, PIPE, Channel, Evidence, Exchange, Life
from tests.wire.strings import BOUND_S

__all__ = ["CHECKS", "untold", "verdict"]

BOUND_MS: Final = round(BOUND_S * 1_000)
AWAY_NS: Final = 4_000_000_000
"""Whoever does not read for longer is no longer written to."""


def verdict(evidence: Evidence) -> list[str]:
    """Everything that is wrong."""
    return [f"{check.__name__}: {why}" for check in CHECKS for why in check(evidence)]


# --- the ten, as they can be seen from outside -----------------------------------------------


def the_ten_invariants_hold_for_reads(evidence: Evidence) -> Iterator[str]:
    history: list[tuple[int, Observed]] = []
    for exchange in evidence.exchanges:
        history += [(when, event) for when, event in _of_exchange(exchange, evidence)]
    history += [(look.at, look.saw()) for look in reads(evidence)]
    for exchange, outcome in results(evidence):
        at, id = exchange.received or 0, str(exchange.params["taskId"])
        status = status_of(outcome, OLD)
        history.append((at, Saw(at, exchange.owner, id, status, OLD, outcome=outcome)))
    history += [(at, asked) for at, asked in _questions(evidence)]
    ordered = [event for _, event in sorted(history, key=lambda item: item[0])]
    for violation in violations(ordered, LIFECYCLES):
        yield f"{violation.invariant}: {violation.subject} {violation.why}"


def _of_exchange(exchange: Exchange, evidence: Evidence) -> Iterator[tuple[int, Observed]]:
    if exchange.method == "GET" or "subscriptions" in exchange.method:
        return
    call = (exchange.owner, exchange.wire, exchange.method, exchange.id, exchange.sent)
    due = _due(exchange, evidence)
    if due is not None:
        yield exchange.sent, Called(due // 1_000_000, call, BOUND_MS)
    if exchange.received is not None:
        yield exchange.received, Answered(exchange.received // 1_000_000, call)
    task_id = exchange.params.get("taskId")
    is_hasty = any(life.id == task_id and life.tool == "hasty" for life in evidence.lives)
    is_missed = exchange.code == UNKNOWN and exchange.method in ("tasks/get", "tasks/result")
    if is_missed and not is_hasty:  # what has expired may be forgotten soon
        yield exchange.sent, Missed(exchange.sent, exchange.owner, str(task_id))
    for life in evidence.lives:
        made = exchange.params.get("arguments", {}).get("name") == life.name
        if made and exchange.owner == life.owner and exchange.code is None:
            # Just before the look that the same answer gives.
            yield exchange.sent - 1, Created(exchange.sent, life.owner, life.id)


def _due(exchange: Exchange, evidence: Evidence) -> int | None:
    """From when on there is no reason not to answer; None if nobody waits for it."""
    if exchange.is_dropped:
        return None
    if exchange.method == "tasks/result":
        ends = [
            end.done or end.sent
            for life in evidence.lives
            for end in life.ends
            if life.id == exchange.params["taskId"] and life.owner == exchange.owner
        ]
        return max([exchange.sent, *ends[:1]])
    return exchange.sent


def _questions(evidence: Evidence) -> Iterator[tuple[int, Asked]]:
    for look in reads(evidence):
        for key, request in look.task.get("inputRequests", {}).items():
            yield look.at, Asked(look.at, look.task_id, key, request["params"]["message"])
    for channel in evidence.channels:
        for heard in channel.heard:
            task_id = task_of(heard.message)
            if heard.message.get("method") == "elicitation/create" and task_id is not None:
                words = heard.message["params"]["message"]
                yield heard.at, Asked(heard.at, task_id, words.rpartition("/")[2], words)


def the_ten_invariants_hold_for_every_channel(evidence: Evidence) -> Iterator[str]:
    looks = reads(evidence)
    owners = [Created(0, life.owner, life.id) for life in evidence.lives]
    for channel in evidence.channels:
        told = pushes(channel)
        last = {look.task_id: look.at for look in told}
        # Only what was read after the last push: before it, the push may just have been late.
        later = [look for look in looks if last.get(look.task_id, look.at) < look.at]
        history: list[Observed] = [*owners, *(look.saw(pushed=True) for look in told)]
        history += [look.saw() for look in later if look.owner == channel.owner]
        for violation in violations(history, LIFECYCLES):
            why = f"{violation.invariant}: {violation.subject} {violation.why}"
            yield f"on the {channel.kind} channel of {channel.owner}: {why}"


# --- what the test knows because it did it ---------------------------------------------------


def a_task_ends_by_what_was_done_to_it(evidence: Evidence) -> Iterator[str]:
    """Not before, not otherwise, and by what was certainly first."""
    by_id = {life.id: life for life in evidence.lives}
    looks = seen(evidence)
    told = [(str(exchange.params["taskId"]), outcome) for exchange, outcome in results(evidence)]
    told += [(look.task_id, look.outcome) for look in looks if look.outcome is not None]
    for task_id, outcome in told:
        life = by_id.get(task_id)
        if life is None:
            continue
        possible = [end for end in life.ends if _is_so(end.outcome, outcome)]
        first_done = min((end.done for end in life.ends if end.done is not None), default=None)
        if not possible:
            yield f"{life.name} ended as {outcome}, and nobody did that: {life.ends}"
        elif not any(first_done is None or end.sent <= first_done for end in possible):
            yield f"{life.name} ended as {outcome}, but it had ended before: {life.ends}"
    for look in looks:
        life = by_id.get(look.task_id)
        if life is not None and look.has_ended:
            statuses = {status_of(end.outcome, look.wire) for end in life.ends}
            if look.status not in statuses:
                yield f"{life.name} is {look.status} on {look.wire}, after {life.ends}"


def _is_so(expected: tuple[Any, ...], outcome: tuple[Any, ...]) -> bool:
    """An error is known by its code; what it says is the server's business."""
    length = 2 if expected[0] == "error" else len(expected)
    return expected[:length] == outcome[:length]


def nothing_is_shown_as_ended_before_it_could(evidence: Evidence) -> Iterator[str]:
    for life in evidence.lives:
        first = min((end.sent for end in life.ends), default=None)
        for exchange, _ in results(evidence):
            if exchange.params["taskId"] == life.id and (
                first is None or (exchange.received or 0) < first
            ):
                yield f"tasks/result of {life.name} was answered while it ran"
        for look in (push for channel in evidence.channels for push in pushes(channel)):
            is_early = first is None or look.at < first
            if look.task_id == life.id and look.has_ended and is_early:
                yield f"{life.name} was pushed as {look.status} while it ran"


def a_status_belongs_to_the_outcome(evidence: Evidence) -> Iterator[str]:
    """By the projection of the specification, on each wire."""
    outcomes = {str(call.params["taskId"]): outcome for call, outcome in results(evidence)}
    for look in filter(lambda look: look.has_ended, seen(evidence)):
        ended = look.outcome or outcomes.get(look.task_id)
        if ended is not None and look.status != status_of(ended, look.wire):
            yield f"{look.task_id} is {look.status} on {look.wire}, and ended as {ended}"
        is_created = look.task.get("resultType") == "task"  # that never shows it
        if look.wire == NEW and look.outcome is None and not is_created:
            yield f"{look.task_id} is {look.status} on {look.wire} without an outcome"


# --- questions -------------------------------------------------------------------------------


def a_question_is_in_flight_on_one_channel_at_a_time(evidence: Evidence) -> Iterator[str]:
    """It is asked again if its channel is gone, or nobody waits any more where it was asked."""
    given_up = [
        (exchange.params["taskId"], exchange.given_up)
        for exchange in evidence.exchanges
        if exchange.method == "tasks/result" and exchange.given_up is not None
    ]
    asked = [
        (channel.session or channel.kind, heard.message["params"]["message"], heard, channel)
        for channel in evidence.channels
        for heard in channel.heard
        if heard.message.get("method") == "elicitation/create"
        and task_of(heard.message) is not None
    ]
    asked.sort(key=lambda item: (item[0], item[1], item[2].at))
    for (_, words), group in groupby(asked, key=lambda item: item[:2]):
        for (*_, before, channel), (*_, after, _) in pairwise(group):
            about = task_of(after.message)
            if not channel.is_gone(after.at) and not any(
                id == about and at < after.at for id, at in given_up
            ):
                yield f"'{words}' was asked twice while its channel was open"
            elif before.message["id"] == after.message["id"]:
                yield f"'{words}' was asked twice under one id"


def only_who_waits_or_sees_that_a_task_asks_is_asked(evidence: Evidence) -> Iterator[str]:
    """Anybody else may not know of the task yet."""
    named = [
        exchange
        for exchange in evidence.exchanges
        if exchange.method == "tasks/result"
        or (exchange.wire == OLD and exchange.method == "tasks/get" and _may_ask(exchange.answer))
    ]
    for channel in evidence.channels:
        for heard in channel.heard:
            about = task_of(heard.message)
            if heard.message.get("method") != "elicitation/create" or about is None:
                continue
            whose = (channel.owner, channel.session, about)
            if not any(
                (asked.owner, asked.session, asked.params["taskId"]) == whose
                and asked.sent < heard.at
                for asked in named
            ):
                yield f"{about} asked on {channel.kind}, and nobody there had asked for it"


def _may_ask(shown: JSON | None) -> bool:
    return shown is None or shown.get("result", {}).get("status") == "input_required"


def open_questions_are_those_that_nobody_answered(evidence: Evidence) -> Iterator[str]:
    lives = {life.id: life for life in evidence.lives}
    for look in reads(evidence):
        life = lives.get(look.task_id)
        if life is None:
            continue
        for key in look.task.get("inputRequests", {}):
            if key not in life.asked:
                yield f"{life.name} asks for '{key}', which its tool never did"
            elif life.answered_at.get(key, look.at) < look.at:
                yield f"{life.name} asks for '{key}', which was answered"


# --- channels --------------------------------------------------------------------------------


def a_channel_carries_only_what_belongs_on_it(evidence: Evidence) -> Iterator[str]:
    for channel in evidence.channels:
        for heard in channel.heard:
            is_answer, about = "method" not in heard.message, task_of(heard.message)
            if channel.kind == GENERAL and is_answer:
                yield f"an answer on the general stream: {heard.message}"
            if channel.task_id is not None and about not in (None, channel.task_id):
                yield f"{heard.message} on the stream of {channel.task_id}"
            if channel.wire == NEW and heard.message.get("method") == "elicitation/create":
                yield f"{heard.message} on a stream of {NEW}"


def events_of_a_stream_come_once_and_in_order(evidence: Evidence) -> Iterator[str]:
    for channel in evidence.channels:
        numbered = [heard.event_id for heard in channel.heard if heard.event_id is not None]
        for before, after in pairwise(numbered):
            (name, _, first), (other, _, second) = before.rpartition("."), after.rpartition(".")
            if name == other and int(second) <= int(first):
                yield f"event {after} after {before}"
    names: dict[str, Channel] = {}
    for channel in evidence.channels:
        for heard in channel.heard:
            if heard.event_id is not None:
                name = heard.event_id.rpartition(".")[0]
                if names.setdefault(name, channel) is not channel:
                    yield f"event {heard.event_id} came on two streams"


def nothing_of_a_task_follows_its_end_on_a_channel(evidence: Evidence) -> Iterator[str]:
    """Nor does progress go back.  What a question was withdrawn by names no task."""
    for channel in evidence.channels:
        ended: set[tuple[str, str]] = set()
        progress: dict[str, float] = {}
        for heard in channel.heard:
            message, about = heard.message, task_of(heard.message)
            if about is None:
                continue
            wire = NEW if message["method"] == "notifications/tasks" else OLD
            if (about, wire) in ended:
                yield f"{message} after the end, on the {channel.kind} channel"
            if is_terminal(message["params"].get("status", ""), wire):
                ended.add((about, wire))
            if message["method"] == "notifications/progress":
                value = message["params"]["progress"]
                if value <= progress.get(about, -1):
                    yield f"progress {value} after {progress[about]}"
                progress[about] = value


def whoever_listens_is_told_of_the_end(evidence: Evidence) -> Iterator[str]:
    for channel, life in untold(evidence):
        yield f"the {channel.kind} channel of {channel.owner} never saw {life.name} end"


def untold(evidence: Evidence) -> list[tuple[Channel, Life]]:
    """Channels that still have to be told of the end of a task."""
    return [
        (channel, life)
        for channel in evidence.channels
        for life in evidence.lives
        if _is_told(channel, life, evidence)
        and not any(look.task_id == life.id and look.has_ended for look in pushes(channel))
    ]


def _is_told(channel: Channel, life: Life, evidence: Evidence) -> bool:
    """Whether this channel follows this task, and was there when it ended."""
    if channel.owner != life.owner or not life.ends:
        return False
    if channel.kind == "watch":
        watched = [
            exchange.params["notifications"]["taskIds"]
            for exchange in evidence.exchanges
            if exchange.channel is channel and channel.heard
        ]
        return channel.is_open and any(life.id in ids for ids in watched)
    followed = life.wire == OLD and channel.wire == OLD and channel.session == life.session
    is_there = channel.is_open and channel.opened[0] < life.ends[0].sent
    # Whoever was away for longer is no longer written to.
    gaps = [back - gone for gone, back in zip(channel.closed, channel.opened[1:], strict=False)]
    was_there = is_there and max(gaps, default=0) < AWAY_NS
    return followed and channel.kind in (GENERAL, PIPE) and was_there


# --- everything else -------------------------------------------------------------------------


def nobody_hears_what_is_not_theirs(evidence: Evidence) -> Iterator[str]:
    for owner, raw in evidence.raw:
        for secret, whose in evidence.secrets.items():
            if whose != owner and secret.encode() in raw:
                yield f"{owner} heard of {secret}: {raw!r}"


def a_foreign_task_is_one_that_does_not_exist(evidence: Evidence) -> Iterator[str]:
    for what, foreign, nonsense in evidence.foreign:
        if foreign != nonsense:
            yield f"{what}: {foreign!r}, and for nonsense {nonsense!r}"


def every_request_has_one_answer(evidence: Evidence) -> Iterator[str]:
    for exchange in evidence.exchanges:
        if exchange.answers > 1:
            yield f"{exchange.method} was answered {exchange.answers} times"
        has_other = exchange.answer is not None and exchange.answer.get("id") != exchange.id
        if has_other and not exchange.is_dropped:  # its session may be gone by then
            yield f"{exchange.method} {exchange.id} was answered by {exchange.answer}"
        if exchange.failure is not None:
            yield f"{exchange.method} {exchange.params}: {exchange.failure}"


def a_key_names_one_task(evidence: Evidence) -> Iterator[str]:
    named: dict[tuple[str, str], str] = {}
    owners: dict[str, str] = {}
    for owner, key, task_id in evidence.keys:
        if named.setdefault((owner, key), task_id) != task_id:
            yield f"{owner} has two tasks for '{key}'"
        if owners.setdefault(task_id, owner) != owner:
            yield f"'{key}' gave {owner} a task of {owners[task_id]}"


def a_list_has_everything_once(evidence: Evidence) -> Iterator[str]:
    for owner, pages in evidence.listed:
        ids = [id for page in pages for id in page]
        if len(ids) != len(set(ids)):
            yield f"a task is listed twice for {owner}"


def times_never_go_back(evidence: Evidence) -> Iterator[str]:
    created: dict[str, str] = {}
    updated: dict[str, str] = {}
    for look in reads(evidence):
        made, moved = look.task["createdAt"], look.task["lastUpdatedAt"]
        if created.setdefault(look.task_id, made) != made:
            yield f"{look.task_id} was created twice"
        if moved < max(updated.get(look.task_id, ""), made):
            yield f"{look.task_id} was updated at {updated[look.task_id]} and then at {moved}"
        updated[look.task_id] = moved


def nobody_complained(evidence: Evidence) -> Iterator[str]:
    yield from evidence.complaints


CHECKS = (
    the_ten_invariants_hold_for_reads,
    the_ten_invariants_hold_for_every_channel,
    a_task_ends_by_what_was_done_to_it,
    nothing_is_shown_as_ended_before_it_could,
    a_status_belongs_to_the_outcome,
    a_question_is_in_flight_on_one_channel_at_a_time,
    only_who_waits_or_sees_that_a_task_asks_is_asked,
    open_questions_are_those_that_nobody_answered,
    a_channel_carries_only_what_belongs_on_it,
    events_of_a_stream_come_once_and_in_order,
    nothing_of_a_task_follows_its_end_on_a_channel,
    whoever_listens_is_told_of_the_end,
    nobody_hears_what_is_not_theirs,
    a_foreign_task_is_one_that_does_not_exist,
    every_request_has_one_answer,
    a_key_names_one_task,
    a_list_has_everything_once,
    times_never_go_back,
    nobody_complained,
)
