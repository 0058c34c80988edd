"""Check the record of a run with pure functions that yield one sentence per violation.

The oracles are `specs/lifecycle.toml` and the operations of the test.  Messages are read as plain
JSON, without the code under test.

Reads are ordered by the time of the request, as the machine sends one after another.  Notifications
may be late, so they are compared only within their channel, and with reads that were sent after
they arrived.
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
    Progressed,
    Saw,
    violations,
)
from taskmachine.statemachine.invariants import Event as Observed
from tests.lifecycle.wire.observations import (
    UNKNOWN,
    all_observations,
    is_terminal,
    pushes,
    reads,
    results,
    status_of,
    task_of,
)
from tests.lifecycle.wire.record import (
    GET_STREAM,
    JSON,
    NEW,
    OLD,
    PIPE,
    Channel,
    Evidence,
    Exchange,
    TaskModel,
)
from tests.lifecycle.wire.tool_control import BOUND_S
from tests.oracle import LIFECYCLES

__all__ = ["CHECKS", "missing_ends", "verdict"]

BOUND_MS: Final = round(BOUND_S * 1_000)
AWAY_NS: Final = 4_000_000_000
"""The server ends a stream whose client has been away for longer."""


def verdict(evidence: Evidence) -> list[str]:
    """Return all violations."""
    return [f"{check.__name__}: {why}" for check in CHECKS for why in check(evidence)]


# --- the named invariants, as far as clients can observe them --------------------------------


def the_named_invariants_hold_for_reads(evidence: Evidence) -> Iterator[str]:
    history: list[tuple[int, Observed]] = []
    for exchange in evidence.exchanges:
        history += [(when, event) for when, event in _of_exchange(exchange, evidence)]
    history += [(seen.at, seen.saw()) for seen in reads(evidence)]
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
    is_expiring = any(model.id == task_id and model.tool == "expiring" for model in evidence.models)
    is_missed = exchange.code == UNKNOWN and exchange.method in ("tasks/get", "tasks/result")
    if is_missed and not is_expiring:  # an expired task may be deleted soon
        yield exchange.sent, Missed(exchange.sent, exchange.owner, str(task_id))
    for model in evidence.models:
        made = exchange.params.get("arguments", {}).get("name") == model.name
        if made and exchange.owner == model.owner and exchange.code is None:
            # Just before the observation from the same response.
            yield exchange.sent - 1, Created(exchange.sent, model.owner, model.id)


def _due(exchange: Exchange, evidence: Evidence) -> int | None:
    """Return when the server can respond, or None if the client gave up the request."""
    if exchange.is_dropped:
        return None
    if exchange.method == "tasks/result":
        ends = [
            end.done or end.sent
            for model in evidence.models
            for end in model.ends
            if model.id == exchange.params["taskId"] and model.owner == exchange.owner
        ]
        return max([exchange.sent, *ends[:1]])
    return exchange.sent


def _questions(evidence: Evidence) -> Iterator[tuple[int, Asked]]:
    for seen in reads(evidence):
        for key, request in seen.task.get("inputRequests", {}).items():
            yield seen.at, Asked(seen.at, seen.task_id, key, request["params"]["message"])
    for channel in evidence.channels:
        for received in channel.messages:
            task_id = task_of(received.message)
            if received.message.get("method") == "elicitation/create" and task_id is not None:
                words = received.message["params"]["message"]
                yield received.at, Asked(received.at, task_id, words.rpartition("/")[2], words)


def the_named_invariants_hold_for_every_channel(evidence: Evidence) -> Iterator[str]:
    observations = reads(evidence)
    owners = [Created(0, model.owner, model.id) for model in evidence.models]
    for channel in evidence.channels:
        pushed = pushes(channel)
        last = {seen.task_id: seen.at for seen in pushed}
        # Only reads after the last notification: before it, the notification may be late.
        later = [seen for seen in observations if last.get(seen.task_id, seen.at) < seen.at]
        received: list[Observed] = [seen.saw(pushed=True) for seen in pushed]
        received += [
            Progressed(message.at, channel.owner, task_of(message.message) or "?", OLD)
            for message in channel.messages
            if message.message.get("method") == "notifications/progress"
        ]
        history: list[Observed] = [*owners, *sorted(received, key=lambda event: event.at)]
        history += [seen.saw() for seen in later if seen.owner == channel.owner]
        for violation in violations(history, LIFECYCLES):
            why = f"{violation.invariant}: {violation.subject} {violation.why}"
            yield f"on the {channel.kind} channel of {channel.owner}: {why}"


# --- the operations of the test --------------------------------------------------------------


def a_task_ends_as_it_was_ended(evidence: Evidence) -> Iterator[str]:
    """The outcome is that of the operation that was certainly the first."""
    by_id = {model.id: model for model in evidence.models}
    observations = all_observations(evidence)
    outcomes = [
        (str(exchange.params["taskId"]), outcome) for exchange, outcome in results(evidence)
    ]
    outcomes += [(seen.task_id, seen.outcome) for seen in observations if seen.outcome is not None]
    for task_id, outcome in outcomes:
        model = by_id.get(task_id)
        if model is None:
            continue
        possible = [end for end in model.ends if _is_so(end.outcome, outcome)]
        first_done = min((end.done for end in model.ends if end.done is not None), default=None)
        if not possible:
            yield f"{model.name} ended as {outcome}, which no operation did: {model.ends}"
        elif not any(first_done is None or end.sent <= first_done for end in possible):
            yield f"{model.name} ended as {outcome}, but it had ended before: {model.ends}"
    for seen in observations:
        model = by_id.get(seen.task_id)
        if model is not None and seen.has_ended:
            statuses = {status_of(end.outcome, seen.wire) for end in model.ends}
            if seen.status not in statuses:
                yield f"{model.name} is {seen.status} on {seen.wire}, after {model.ends}"


def _is_so(expected: tuple[Any, ...], outcome: tuple[Any, ...]) -> bool:
    """Compare outcomes; of an error only the code, as the message is up to the server."""
    length = 2 if expected[0] == "error" else len(expected)
    return expected[:length] == outcome[:length]


def nothing_is_shown_as_ended_before_it_could(evidence: Evidence) -> Iterator[str]:
    for model in evidence.models:
        first = min((end.sent for end in model.ends), default=None)
        for exchange, _ in results(evidence):
            if exchange.params["taskId"] == model.id and (
                first is None or (exchange.received or 0) < first
            ):
                yield f"tasks/result of {model.name} was answered while it ran"
        for seen in (push for channel in evidence.channels for push in pushes(channel)):
            is_early = first is None or seen.at < first
            if seen.task_id == model.id and seen.has_ended and is_early:
                yield f"{model.name} was pushed as {seen.status} while it ran"


def a_status_belongs_to_the_outcome(evidence: Evidence) -> Iterator[str]:
    """Compare status and outcome with the projection in the specification."""
    outcomes = {str(call.params["taskId"]): outcome for call, outcome in results(evidence)}
    for seen in filter(lambda seen: seen.has_ended, all_observations(evidence)):
        ended = seen.outcome or outcomes.get(seen.task_id)
        if ended is not None and seen.status != status_of(ended, seen.wire):
            yield f"{seen.task_id} is {seen.status} on {seen.wire}, and ended as {ended}"
        is_created = seen.task.get("resultType") == "task"  # which never contains the outcome
        if seen.wire == NEW and seen.outcome is None and not is_created:
            yield f"{seen.task_id} is {seen.status} on {seen.wire} without an outcome"


# --- questions -------------------------------------------------------------------------------


def a_question_is_in_flight_on_one_channel_at_a_time(evidence: Evidence) -> Iterator[str]:
    """The server repeats it only if its channel was closed or its request was cancelled."""
    cancelled_at = [
        (exchange.params["taskId"], exchange.cancelled_at)
        for exchange in evidence.exchanges
        if exchange.method == "tasks/result" and exchange.cancelled_at is not None
    ]
    asked = [
        (channel.session or channel.kind, received.message["params"]["message"], received, channel)
        for channel in evidence.channels
        for received in channel.messages
        if received.message.get("method") == "elicitation/create"
        and task_of(received.message) is not None
    ]
    asked.sort(key=lambda item: (item[0], item[1], item[2].at))
    for (_, words), group in groupby(asked, key=lambda item: item[:2]):
        for (*_, before, channel), (*_, after, _) in pairwise(group):
            about = task_of(after.message)
            if not channel.is_gone(after.at) and not any(
                id == about and at < after.at for id, at in cancelled_at
            ):
                yield f"'{words}' was asked twice while its channel was open"
            elif before.message["id"] == after.message["id"]:
                yield f"'{words}' was asked twice under one id"


def only_sessions_that_requested_a_task_are_asked(evidence: Evidence) -> Iterator[str]:
    """Other sessions may not have received the task id yet."""
    named = [
        exchange
        for exchange in evidence.exchanges
        if exchange.method == "tasks/result"
        or (exchange.wire == OLD and exchange.method == "tasks/get" and _may_ask(exchange.answer))
    ]
    for channel in evidence.channels:
        for received in channel.messages:
            about = task_of(received.message)
            if received.message.get("method") != "elicitation/create" or about is None:
                continue
            whose = (channel.owner, channel.session, about)
            if not any(
                (asked.owner, asked.session, asked.params["taskId"]) == whose
                and asked.sent < received.at
                for asked in named
            ):
                yield f"{about} asked on {channel.kind} before any request of that session for it"


def _may_ask(shown: JSON | None) -> bool:
    return shown is None or shown.get("result", {}).get("status") == "input_required"


def open_questions_have_no_answer(evidence: Evidence) -> Iterator[str]:
    models = {model.id: model for model in evidence.models}
    for seen in reads(evidence):
        model = models.get(seen.task_id)
        if model is None:
            continue
        for key in seen.task.get("inputRequests", {}):
            if key not in model.asked:
                yield f"{model.name} asks for '{key}', which its tool did not ask"
            elif model.answered_at.get(key, seen.at) < seen.at:
                yield f"{model.name} asks for '{key}', which was answered"


# --- channels --------------------------------------------------------------------------------


def a_channel_carries_only_its_own_messages(evidence: Evidence) -> Iterator[str]:
    for channel in evidence.channels:
        for received in channel.messages:
            is_answer, about = "method" not in received.message, task_of(received.message)
            if channel.kind == GET_STREAM and is_answer:
                yield f"an answer on the get_stream stream: {received.message}"
            if channel.task_id is not None and about not in (None, channel.task_id):
                yield f"{received.message} on the stream of {channel.task_id}"
            if channel.wire == NEW and received.message.get("method") == "elicitation/create":
                yield f"{received.message} on a stream of {NEW}"


def events_of_a_stream_come_once_and_in_order(evidence: Evidence) -> Iterator[str]:
    for channel in evidence.channels:
        numbered = [
            received.event_id for received in channel.messages if received.event_id is not None
        ]
        for before, after in pairwise(numbered):
            (name, _, first), (other, _, second) = before.rpartition("."), after.rpartition(".")
            if name == other and int(second) <= int(first):
                yield f"event {after} after {before}"
    names: dict[str, Channel] = {}
    for channel in evidence.channels:
        for received in channel.messages:
            if received.event_id is not None:
                name = received.event_id.rpartition(".")[0]
                if names.setdefault(name, channel) is not channel:
                    yield f"event {received.event_id} came on two streams"


def nothing_of_a_task_follows_its_end_on_a_channel(evidence: Evidence) -> Iterator[str]:
    """Progress does not decrease either.  The cancellation of a question names no task."""
    for channel in evidence.channels:
        ended: set[tuple[str, str]] = set()
        progress: dict[str, float] = {}
        for received in channel.messages:
            message, about = received.message, task_of(received.message)
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


def every_open_channel_receives_the_end(evidence: Evidence) -> Iterator[str]:
    for channel, model in missing_ends(evidence):
        yield f"the {channel.kind} channel of {channel.owner} never saw {model.name} end"


def missing_ends(evidence: Evidence) -> list[tuple[Channel, TaskModel]]:
    """Return the channels that have not yet received the end of a task."""
    return [
        (channel, model)
        for channel in evidence.channels
        for model in evidence.models
        if _must_receive_end(channel, model, evidence)
        and not any(seen.task_id == model.id and seen.has_ended for seen in pushes(channel))
    ]


def _must_receive_end(channel: Channel, model: TaskModel, evidence: Evidence) -> bool:
    """Return whether this channel follows this task and was open when it ended."""
    if channel.owner != model.owner or not model.ends:
        return False
    if channel.kind == "subscription":
        watched = [
            exchange.params["notifications"]["taskIds"]
            for exchange in evidence.exchanges
            if exchange.channel is channel and channel.messages
        ]
        return channel.is_open and any(model.id in ids for ids in watched)
    followed = model.wire == OLD and channel.wire == OLD and channel.session == model.session
    is_there = channel.is_open and channel.opened[0] < model.ends[0].sent
    gaps = [back - gone for gone, back in zip(channel.closed, channel.opened[1:], strict=False)]
    was_there = is_there and max(gaps, default=0) < AWAY_NS
    is_followed = followed and not _was_created_as_ended(model, evidence)
    return is_followed and channel.kind in (GET_STREAM, PIPE) and was_there


def _was_created_as_ended(model: TaskModel, evidence: Evidence) -> bool:
    """Return whether a repeated create showed the end, which need not be notified after that."""
    tasks = [
        (exchange.answer or {}).get("result", {}).get("task", {})
        for exchange in evidence.exchanges
        if exchange.method == "tools/call"
    ]
    return any(
        task.get("taskId") == model.id and is_terminal(task["status"], OLD) for task in tasks
    )


# --- everything else -------------------------------------------------------------------------


def no_owner_receives_foreign_words(evidence: Evidence) -> Iterator[str]:
    for owner, raw in evidence.raw:
        for secret, whose in evidence.secrets.items():
            if whose != owner and secret.encode() in raw:
                yield f"{owner} received of {secret}: {raw!r}"


def a_foreign_task_is_one_that_does_not_exist(evidence: Evidence) -> Iterator[str]:
    for what, foreign, unknown in evidence.foreign:
        if foreign != unknown:
            yield f"{what}: {foreign!r}, and for unknown {unknown!r}"


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
    for seen in reads(evidence):
        made, moved = seen.task["createdAt"], seen.task["lastUpdatedAt"]
        if created.setdefault(seen.task_id, made) != made:
            yield f"{seen.task_id} was created twice"
        if moved < max(updated.get(seen.task_id, ""), made):
            yield f"{seen.task_id} was updated at {updated[seen.task_id]} and then at {moved}"
        updated[seen.task_id] = moved


def no_problem_was_reported(evidence: Evidence) -> Iterator[str]:
    yield from evidence.problems


CHECKS = (
    the_named_invariants_hold_for_reads,
    the_named_invariants_hold_for_every_channel,
    a_task_ends_as_it_was_ended,
    nothing_is_shown_as_ended_before_it_could,
    a_status_belongs_to_the_outcome,
    a_question_is_in_flight_on_one_channel_at_a_time,
    only_sessions_that_requested_a_task_are_asked,
    open_questions_have_no_answer,
    a_channel_carries_only_its_own_messages,
    events_of_a_stream_come_once_and_in_order,
    nothing_of_a_task_follows_its_end_on_a_channel,
    every_open_channel_receives_the_end,
    no_owner_receives_foreign_words,
    a_foreign_task_is_one_that_does_not_exist,
    every_request_has_one_answer,
    a_key_names_one_task,
    a_list_has_everything_once,
    times_never_go_back,
    no_problem_was_reported,
)
