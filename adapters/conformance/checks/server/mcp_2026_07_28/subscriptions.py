"""Checks of `subscriptions/listen`, including task subscriptions (2026-07-28)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.checks.reading.messages import same_id
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import (
    TASKS,
    declares_tasks,
    is_modern,
)
from taskmachine.adapters.conformance.checks.reading.task_rules import (
    reachable_statuses,
    task_records,
)
from taskmachine.adapters.conformance.checks.reading.tasks_2026_07_28 import (
    answered,
    contradicts,
    modern,
    requests_about,
    supports_tasks,
    valid_requests,
)
from taskmachine.adapters.conformance.checks.server.mcp_2026_07_28.tasks.status import payload_fault
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note

__all__ = ["Subscription", "subscriptions"]

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_NEEDED: Final = "`subscriptions/listen`"
_TASK_NOTIFICATIONS: Final = "task notifications"
_SWITCHES: Final = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
_LISTS: Final = {
    "resourceSubscriptions": "notifications/resources/updated",
    "taskIds": "notifications/tasks",
}


@attrs.frozen(eq=False)
class Subscription:
    """A subscription that the target accepted, with its notifications."""

    listen: Exchange
    notices: Sequence[Entry]
    """In order."""

    @property
    def acknowledgement(self) -> Entry | None:
        """Return the first acknowledgement."""
        return next((entry for entry in self.notices if entry.method == ACKNOWLEDGED), None)

    @property
    def wanted(self) -> Mapping[str, Any]:
        """Return the filter of the request."""
        return _filter(self.listen.params)

    @property
    def agreed(self) -> Mapping[str, Any]:
        """Return the filter of the acknowledgement."""
        return {} if self.acknowledgement is None else _filter(self.acknowledgement.params)


def _filter(params: Mapping[str, Any]) -> Mapping[str, Any]:
    found = params.get("notifications")
    return found if isinstance(found, dict) else {}


def _list(holder: Mapping[str, Any], name: str) -> list[Any]:
    found = holder.get(name)
    return found if isinstance(found, list) else []


@lru_cache(maxsize=8)
def subscriptions(history: History) -> tuple[Subscription, ...]:
    """Return the accepted subscriptions; over stdio the id assigns notifications to them."""
    found = modern(history)
    return tuple(
        Subscription(listen, notices)
        for listen in found.calls("subscriptions/listen")
        if is_modern(listen) and listen.error is None
        if (notices := _notices(found, listen)) or listen.is_answered
    )


def _notices(history: History, listen: Exchange) -> list[Entry]:
    if history.transport == "http":
        return [entry for entry in listen.others if entry.is_notification]
    return [
        entry
        for entry in history.notifications()
        if entry.line == listen.request.line
        and entry.number > listen.request.number
        and str(entry.meta.get(SUBSCRIPTION)) == str(listen.request.body.get("id"))
    ]


# --- acknowledgement --------------------------------------------------------------------------


@check("2026-07-28:ack-first", needs=_NEEDED)
def acknowledgement_is_first(history: History) -> Iterator[Observation]:
    """Check that the first message of a subscription is the acknowledgement."""
    for one in subscriptions(history):
        messages = sorted([*one.notices, *_responses(one)], key=lambda entry: entry.number)
        if messages and messages[0] is one.acknowledgement:
            yield good(one.listen.request, messages[0])
        elif messages:
            words = f"{messages[0].method or 'a result'!r} precedes the acknowledgement"
            yield bad(words, one.listen.request, messages[0])


def _responses(one: Subscription) -> list[Entry]:
    return [] if one.listen.response is None else [one.listen.response]


@check("2026-07-28:nothing-before-ack", needs=_NEEDED)
def nothing_comes_before(history: History) -> Iterator[Observation]:
    """Check that no notification of a subscription precedes its acknowledgement."""
    for one in subscriptions(history):
        first = one.acknowledgement
        if not one.notices:
            continue
        if one.notices[0] is first:
            yield good(one.listen.request, first)
        else:
            words = f"{one.notices[0].method!r} came before the acknowledgement of its subscription"
            yield bad(words, one.listen.request, one.notices[0])


@check("2026-07-28:stdio-interleaving", needs="two concurrent subscriptions over stdio")
def others_may_interleave(history: History) -> Iterator[Observation]:
    """Record messages of other subscriptions before the acknowledgement, allowed over stdio."""
    if history.transport != "stdio":
        return
    for one in subscriptions(history):
        first = one.acknowledgement
        for other in subscriptions(history):
            if first is None or other is one:
                continue
            for entry in other.notices:
                if one.listen.request.number < entry.number < first.number:
                    yield good(one.listen.request, entry, first)


@check("2026-07-28:ack-is-subset", needs=_NEEDED)
def acknowledgement_is_subset(history: History) -> Iterator[Observation]:
    """Check that the acknowledgement contains only what the client requested."""
    for one in subscriptions(history):
        if one.acknowledgement is None:
            continue
        more = [name for name in one.agreed if _is_more(one, name)]
        if more:
            words = f"the acknowledgement contains {more[0]!r}, which the client did not request"
            yield bad(words, one.listen.request, one.acknowledgement)
        else:
            yield good(one.listen.request, one.acknowledgement)


def _is_more(one: Subscription, name: str) -> bool:
    if name in _LISTS:
        wanted = _list(one.wanted, name)
        return any(item not in wanted for item in _list(one.agreed, name))
    return one.agreed[name] is True and one.wanted.get(name) is not True


@check("2026-07-28:ack-lists-task-ids", needs="a task that the client can subscribe to")
def acknowledgement_lists_tasks(history: History) -> Iterator[Observation]:
    """Check that `taskIds` in the acknowledgement is a list of requested tasks."""
    for one in subscriptions(history):
        wanted = _list(one.wanted, "taskIds")
        if one.acknowledgement is None or not wanted:
            continue
        agreed = one.agreed.get("taskIds", [])
        if not isinstance(agreed, list):
            words = f"'taskIds' in the acknowledgement is {agreed!r}, not an array"
            yield bad(words, one.listen.request, one.acknowledgement)
        elif any(id not in wanted for id in agreed):
            words = "the acknowledgement lists a task that the client did not request"
            yield bad(words, one.listen.request, one.acknowledgement)
        elif agreed:
            yield good(one.listen.request, one.acknowledgement)


@check("2026-07-28:subscription-id-is-request-id", needs=_NEEDED)
def subscription_has_the_id_of_the_request(history: History) -> Iterator[Observation]:
    """Check that the subscription id equals the request id, including its type."""
    for one in subscriptions(history):
        for entry in one.notices:
            if SUBSCRIPTION not in entry.meta:
                continue
            id, wanted = entry.meta[SUBSCRIPTION], one.listen.request.body.get("id")
            if same_id(id, wanted):
                yield good(one.listen.request, entry)
            else:
                words = f"the subscription of request {wanted!r} has another id: {id!r}"
                yield bad(words, one.listen.request, entry)


# --- notifications ----------------------------------------------------------------------------


@check("2026-07-28:only-requested-notifications", needs=_NEEDED)
def only_requested_notifications(history: History) -> Iterator[Observation]:
    """Check that a subscription has only the requested types of notification."""
    for one in subscriptions(history):
        allowed = {ACKNOWLEDGED, "notifications/cancelled"}
        allowed |= {method for name, method in _SWITCHES.items() if one.wanted.get(name) is True}
        allowed |= {method for name, method in _LISTS.items() if _list(one.wanted, name)}
        for entry in one.notices:
            if entry.method in allowed:
                yield good(one.listen.request, entry)
            else:
                words = f"the subscription sent {entry.method!r}, which the client did not request"
                yield bad(words, one.listen.request, entry)


@check("2026-07-28:notifications-optional", needs=_TASK_NOTIFICATIONS)
def task_notifications_are_optional(history: History) -> Iterator[Observation]:
    """Record task notifications, which are optional."""
    for one in subscriptions(history):
        yield from (good(e) for e in one.notices if e.method == "notifications/tasks")


@check("2026-07-28:notifications-only-for-listened-ids", needs=_TASK_NOTIFICATIONS)
def only_acknowledged_tasks(history: History) -> Iterator[Observation]:
    """Check that task notifications concern only tasks in the acknowledgement."""
    for one in subscriptions(history):
        for entry in one.notices:
            if entry.method != "notifications/tasks" or one.acknowledgement is None:
                continue
            if entry.params.get("taskId") in _list(one.agreed, "taskIds"):
                yield good(one.acknowledgement, entry)
            else:
                words = "a notification concerns a task that the acknowledgement does not list"
                yield bad(words, one.acknowledgement, entry)


@check("2026-07-28:notification-is-whole-task", needs=_TASK_NOTIFICATIONS)
def notification_is_the_whole_task(history: History) -> Iterator[Observation]:
    """Check that a notification is a complete task that no later `tasks/get` contradicts."""
    follows = reachable_statuses(history.revision)
    for record in task_records(modern(history)):
        notifications = [s for s in record.sightings if s.where == "notification"]
        for notice in notifications:
            fault = payload_fault(notice.task)
            if fault is not None:
                yield bad(f"a task notification contains {fault}", notice)
                continue
            later = [s for s in record.sightings if s.where == "get" and notice.precedes(s)]
            reached = follows.get(str(notice.status), frozenset())
            other = next((s for s in later if str(s.status) not in reached), None)
            if other is None and notice.is_terminal:
                other = next((s for s in later if contradicts(notice.task, s.task)), None)
            if other is None:
                yield good(notice)
            else:
                words = "the result of 'tasks/get' contradicts an earlier notification"
                yield bad(words, notice, other)


@check(
    "2026-07-28:no-progress-on-listen",
    needs="a task with progress that a client subscribes to",
    method="notifications/progress",
)
@check(
    "2026-07-28:no-log-messages-on-listen",
    needs="a task that a client subscribes to",
    method="notifications/message",
)
def not_on_subscriptions(history: History, method: str) -> Iterator[Observation]:
    """Check that task subscriptions carry neither progress nor log messages."""
    for one in subscriptions(history):
        if not _list(one.wanted, "taskIds"):
            continue
        wrong = next((entry for entry in one.notices if entry.method == method), None)
        if wrong is not None:
            words = f"the target sent {method!r} on a task subscription"
            yield bad(words, one.listen.request, wrong)
        elif any(entry.method == "notifications/tasks" for entry in one.notices):
            yield good(one.listen.request, one.notices[-1])


@check("2026-07-28:no-progress-for-tasks", needs="a task call with a progress token")
def no_progress_after_the_task_began(history: History) -> Iterator[Observation]:
    """Check that the progress token of a call is not used once the call is a task."""
    found = modern(history)
    progress = found.notifications("notifications/progress")
    for record in task_records(found):
        made = found.created.get(record.id)
        token = None if made is None else _token(made)
        if made is None or made.response is None or token is None:
            continue
        late = [
            entry
            for entry in progress
            if entry.number > made.response.number
            and entry.line == made.request.line
            and same_id(entry.params.get("progressToken"), token)
        ]
        if late:
            words = "the target sent progress for a call after it had created a task"
            yield bad(words, made, late[0])
        elif any(s.is_terminal for s in record.sightings):
            yield good(made)


def _token(exchange: Exchange) -> Any:
    meta = exchange.params.get("_meta")
    return meta.get("progressToken") if isinstance(meta, dict) else None


# --- rejections and end -----------------------------------------------------------------------


@check("2026-07-28:listen-missing-capability-32021", needs="the tasks extension")
def listening_needs_the_extension(history: History) -> Iterator[Observation]:
    """Check that `taskIds` without the declared extension are rejected with -32021."""
    if not supports_tasks(history):
        return
    for one in subscriptions(history):
        if one.listen in _undeclared(history) and one.acknowledgement is not None:
            words = "the target acknowledged a task subscription without the tasks extension"
            yield bad(words, one.listen.request, one.acknowledgement)
    undeclared = _undeclared(history)
    knows_none = any(
        listen.code == -32601
        for listen in history.calls("subscriptions/listen")
        if listen not in undeclared
    )
    for listen in answered(history, "subscriptions/listen", declared=False):
        if listen not in undeclared or listen.error is None or knows_none:
            continue
        data = listen.error.get("data")
        required = data.get("requiredCapabilities") if isinstance(data, dict) else None
        extensions = required.get("extensions") if isinstance(required, dict) else None
        if listen.code != -32021:
            words = f"a task subscription without the extension got {listen.code!r}, not -32021"
            yield bad(words, listen)
        elif not isinstance(extensions, dict) or TASKS not in extensions:
            words = "'data.requiredCapabilities' of error -32021 does not name the tasks extension"
            yield bad(words, listen)
        else:
            yield good(listen)


@lru_cache(maxsize=8)
def _undeclared(history: History) -> frozenset[Exchange]:
    """Return task subscriptions without the declared extension."""
    return frozenset(
        listen
        for listen in valid_requests(history)
        if listen.method == "subscriptions/listen"
        and not declares_tasks(listen)
        and _list(_filter(listen.params), "taskIds")
    )


@check("2026-07-28:listen-final-response", needs="a target that ends a subscription itself")
def subscription_ends_with_a_response(history: History) -> Iterator[Observation]:
    """Check that a target that ends a subscription responds to the request first."""
    for one in subscriptions(history):
        end = one.listen.end
        was_told = next((e for e in one.notices if e.method == "notifications/cancelled"), None)
        if one.listen.response is not None:
            yield good(one.listen)
        elif end is None or end.kind is not Kind.ENDED or end.text or one.acknowledgement is None:
            continue  # still open, disconnected by the tester, or lost
        elif was_told is not None:
            words = "a subscription ended with 'notifications/cancelled', but no response"
            yield note(words, was_told, end)
        else:
            yield bad("the target ended a subscription without a response", one.listen.request, end)


@check("2026-07-28:listen-final-response-shape", needs="a target that ends a subscription itself")
def final_response_is_empty(history: History) -> Iterator[Observation]:
    """Check that the response is an empty complete result with the subscription id."""
    for one in subscriptions(history):
        response, fields = one.listen.response, one.listen.fields
        if response is None:
            continue
        more = [name for name in fields if name not in ("resultType", "_meta")]
        if fields.get("resultType") != "complete":
            kind = fields.get("resultType")
            words = f"a subscription's final response has 'resultType' {kind!r}, not 'complete'"
            yield bad(words, one.listen)
        elif not same_id(response.meta.get(SUBSCRIPTION), one.listen.request.body.get("id")):
            words = "the final response of a subscription lacks the subscription id in '_meta'"
            yield bad(words, one.listen)
        elif more:  # possibly defined by another extension
            yield note(f"the final response of a subscription contains {more[0]!r}", one.listen)
        else:
            yield good(one.listen)


@check("2026-07-28:no-subscription-state-kept", needs="a task that a client subscribed to")
def no_notifications_without_subscription(history: History) -> Iterator[Observation]:
    """Check that task notifications come only on connections with a subscription."""
    found = modern(history)
    listening: dict[Any, int] = {}
    for one in found.calls("subscriptions/listen"):
        listening.setdefault(_place(one.request), one.request.number)
    for entry in found.notifications("notifications/tasks"):
        since = listening.get(_place(entry))
        if since is None or since > entry.number:
            words = "the target sent a task notification on a connection without a subscription"
            yield bad(words, entry)
    listened = {id for one in subscriptions(history) for id in _list(one.agreed, "taskIds")}
    lines = {line for line, _ in listening}
    for record in task_records(found):
        for get in requests_about(history, record, "tasks/get") if listened else ():
            is_elsewhere = get.request.line not in lines
            if get.fields and is_elsewhere and (record.id in listened or get.request.post is None):
                yield good(get)


def _place(entry: Entry) -> tuple[int, int | None]:
    return entry.line, entry.post
