"""The requestor of tasks, without I/O and without a clock.

Every dialect has the same interface: `start`, `answer` and `cancel` calls, pass incoming messages
to `receive`, and call `tick` at the time of `next_tick`.  The results are messages to send,
questions to answer, and exactly one `Finished` for each call, whether it ran as a task or not.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

import attrs

from taskmachine.protocol.dialects.requestor import Paused, RequestorDialect, Seen
from taskmachine.protocol.errors import InvalidParams, InvalidResult
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    Error,
    ErrorResponse,
    Id,
    Message,
    Notification,
    Request,
    ResultResponse,
)
from taskmachine.protocol.outputs import Asked, Changed, Finished, Moved, Send
from taskmachine.statemachine import (
    TERMINAL,
    Call,
    Cause,
    Outcome,
    Progress,
    Reply,
    State,
    TaskmachineError,
)

__all__ = ["Requestor"]

Output = Send | Asked | Changed | Moved | Finished
Purpose = Literal["create", "get", "collect", "cancel", "answer"]

FIRST_POLL_MS: Final = 500
LAST_POLL_MS: Final = 5_000  # if the receiver suggests no interval
SHORTEST_POLL_MS: Final = 50  # even if the receiver suggests less
LONGEST_POLL_MS: Final = 3_600_000
LONGEST_BACK_OFF_MS: Final = 60_000
MOST_FAILURES: Final = 8
MOST_EARLY: Final = 100


@attrs.define(eq=False)
class _Job:
    """A call that has not ended."""

    name: str
    call: Call
    task_id: str | None = None
    state: State | None = None
    message: str | None = None
    interval_ms: int = FIRST_POLL_MS
    due: int | None = None
    failures: int = 0
    progress: float | None = None
    token: Id | None = None
    is_collecting: bool = False
    is_unwanted: bool = False
    is_cancel_lost: bool = False
    paused: Paused | None = None
    asked: set[str] = attrs.field(factory=set)
    replies: dict[str, Reply] = attrs.field(factory=dict)
    confirmed: set[str] = attrs.field(factory=set)
    """Keys whose answer was sent."""
    questions: dict[str, Id] = attrs.field(factory=dict)
    """The request id of each question, where questions are requests."""
    open: set[str] = attrs.field(factory=set)
    """Keys that wait for an answer, as last shown."""
    unnamed: set[str] = attrs.field(factory=set)
    """Keys derived from the content of a question, which may be asked again."""


@attrs.frozen
class _Sent:
    """A request without a response."""

    job: _Job
    purpose: Purpose
    method: str
    at: int
    key: str = ""


class Requestor:
    """The connection of a requestor with one receiver."""

    def __init__(
        self,
        dialect: RequestorDialect,
        *,
        new_id: Callable[[], Id],
        timeout_ms: int = 60_000,
        collect_timeout_ms: int | None = None,
    ) -> None:
        """Create a requestor whose requests time out after `timeout_ms`.

        A request that blocks until its task has ended does not time out.  With `collect_timeout_ms`
        it is repeated after that time, in case the receiver has lost it.
        """
        self._dialect = dialect
        self._new_id = new_id
        self._timeout_ms = timeout_ms
        self._collect_timeout_ms = collect_timeout_ms
        self._jobs: dict[str, _Job] = {}
        self._sent: dict[Id, _Sent] = {}
        self._early: list[Request] = []
        """Questions that arrived before the response that created their task."""

    # --- requests of the caller --------------------------------------------------------------

    def start(self, name: str, call: Call, *, now: int, ttl_ms: int | None = None) -> list[Output]:
        """Make a call; `name` identifies it from now on."""
        if name in self._jobs:
            raise ValueError(f"a call named {name!r} is in progress")
        tokens = [job.call.progress_token for job in self._jobs.values()]
        if call.progress_token is not None and call.progress_token in tokens:
            raise ValueError(f"progress token {call.progress_token!r} is in use")
        job = self._jobs[name] = _Job(name, call)
        return [self._send(job, "create", self._dialect.create(call, ttl_ms), now)]

    def answer(self, name: str, key: str, reply: Reply, *, now: int) -> list[Output]:
        """Answer a question; has no effect if the question is no longer open."""
        job = self._jobs.get(name)
        if job is None or key not in job.asked or key in job.replies:
            return []
        job.replies[key] = reply
        if job.paused is not None:
            return self._retry(job, now)
        # Otherwise the reply is kept: a delayed message may show the question as open again.
        return self._reply(job, key, now) if key in job.open else []

    def cancel(self, name: str, *, now: int) -> list[Output]:
        """Ask to cancel a call; `Finished` reports its end, which may be another outcome."""
        job = self._jobs.get(name)
        if job is None:
            return []
        job.is_unwanted = True
        if job.paused is not None:
            return self._finish(job, Outcome(Cause.CANCELLED, message="cancelled by the caller"))
        if job.task_id is None:
            return self._abandon_call(job)
        if not self._dialect.takes_cancel:
            return []
        return [self._send(job, "cancel", self._dialect.cancel(job.task_id), now)]

    def _abandon_call(self, job: _Job) -> list[Output]:
        """Cancel a call without a response: now, or once the id of its task is known."""
        if not self._dialect.may_abandon(job.call):
            return []
        creates = [id for id, sent in self._sent.items() if sent.job is job]
        abandoned = [out for id in creates for out in self._abandon(id)]
        outcome = Outcome(Cause.CANCELLED, message="cancelled by the caller")
        return [*abandoned, *self._finish(job, outcome)]

    def _abandon(self, id: Id) -> list[Output]:
        notice = self._dialect.abandon(id)
        if notice is None:
            return []
        return [Send(self._dialect.messages.encode_notification(notice), id)]

    def task_id(self, name: str) -> str | None:
        """Return the task id of a call, or None while it is unknown and after the call ended."""
        job = self._jobs.get(name)
        return None if job is None else job.task_id

    def next_tick(self) -> int | None:
        """Return when to call `tick`, or None if nothing is due."""
        dues = [job.due for job in self._jobs.values()]
        dues += [self._times_out_at(sent) for sent in self._sent.values()]
        return min((due for due in dues if due is not None), default=None)

    def _times_out_at(self, sent: _Sent) -> int | None:
        limit = self._collect_timeout_ms if sent.purpose == "collect" else self._timeout_ms
        return None if limit is None else sent.at + limit

    def tick(self, now: int) -> list[Output]:
        """Poll tasks that are due, and time out requests without a response."""
        out: list[Output] = []
        for id, sent in list(self._sent.items()):
            times_out_at = self._times_out_at(sent)
            if times_out_at is not None and now >= times_out_at:
                may_abandon = sent.purpose != "create" or self._dialect.may_abandon(sent.job.call)
                if may_abandon and self._is_alive(sent.job):
                    out += self._abandon(id)
                out += self.lost(id, "the request timed out", now=now)
        for job in list(self._jobs.values()):
            if job.due is not None and job.task_id is not None and now >= job.due:
                job.due = None
                out.append(self._send(job, "get", self._dialect.get(job.task_id), now))
        return out

    def lost(self, id: Id, why: str, *, now: int) -> list[Output]:
        """Report that a request gets no response; the receiver may have performed it or not.

        A call without a task ends with an error; other requests about a task are repeated later.
        """
        sent = self._sent.pop(id, None)
        if sent is None:
            return []
        out = self._failed(sent, Error(INTERNAL_ERROR, why), now, is_answer=False)
        return out + self._ask_early(now)

    def disconnected(self, *, now: int) -> list[Output]:
        """Report that the connection is lost, and with it every outstanding response."""
        lost, self._sent, self._early = self._sent, {}, []
        out: list[Output] = []
        for sent in lost.values():
            if sent.purpose == "create":  # the task may exist, but its id is unknown
                out += self._failed(sent, Error(INTERNAL_ERROR, "the connection was lost"), now)
            elif sent.purpose == "cancel":
                sent.job.is_cancel_lost = True
        for job in self._jobs.values():
            job.is_collecting, job.due = False, None if job.task_id is None else now
            job.confirmed.clear()
            job.questions.clear()
        return out

    # --- incoming messages -------------------------------------------------------------------

    def receive(self, message: Message, *, now: int) -> list[Output]:
        """Process a message of the receiver."""
        match message:
            case ResultResponse(id=id):
                sent = self._sent.pop(id, None)
                out = [] if sent is None else self._result(sent, message, now)
                return out + self._ask_early(now)
            case ErrorResponse(id=id, error=error):
                sent = None if id is None else self._sent.pop(id, None)
                out = [] if sent is None else self._failed(sent, error, now)
                return out + self._ask_early(now)
            case Notification():
                return self._notification(message, now)
            case _:
                return self._question(message, now)

    def _result(self, sent: _Sent, response: ResultResponse, now: int) -> list[Output]:
        job, dialect = sent.job, self._dialect
        if not self._is_alive(job):
            return self._orphan(sent, response)
        try:
            result = dialect.messages.decode_result(sent.method, response)
        except InvalidResult as error:
            return self._failed(sent, Error(INTERNAL_ERROR, str(error)), now)
        if sent.purpose == "collect":
            return self._finish(job, dialect.read_collected(result))
        if sent.purpose == "create":
            created = dialect.read_created(result)
            if isinstance(created, Outcome):
                return self._finish(job, created)
            if isinstance(created, Paused):
                return self._pause(job, created, now)
            job.task_id = created.task_id
            job.asked, job.replies = set(), {}  # the task has its own keys
            out = self._see(job, created, now)
            return out + (self.cancel(job.name, now=now) if job.is_unwanted else [])
        seen = dialect.read(result)
        if seen is None:  # an acknowledgement
            job.due = now if job.due is None else job.due
            return []
        return self._see(job, seen, now)

    def _failed(
        self, sent: _Sent, error: Error, now: int, *, is_answer: bool = True
    ) -> list[Output]:
        job = sent.job
        if not self._is_alive(job):
            return []
        outcome = self._dialect.failed(error)
        has_ended = job.state in TERMINAL or outcome.cause is Cause.CANCELLED
        if sent.purpose == "create" or (sent.purpose == "collect" and has_ended and is_answer):
            return self._finish(job, outcome)
        if sent.purpose == "cancel" and not is_answer:
            job.is_cancel_lost = True
        if sent.purpose == "collect":  # the task was live: perhaps only the wait has failed
            job.is_collecting = False
        job.confirmed.discard(sent.key)
        job.failures += 1
        is_gone = sent.purpose == "get" and self._dialect.is_gone(error)
        if is_gone or job.failures > MOST_FAILURES:
            return self._finish(job, Outcome.of_error(error.code, error.message))
        wait = min(LONGEST_BACK_OFF_MS, job.interval_ms * 2**job.failures)
        if isinstance(error.data, dict) and isinstance(error.data.get("retryAfterMs"), int):
            wait = max(wait, min(error.data["retryAfterMs"], LONGEST_POLL_MS))
        job.due = now + wait
        return []

    def _notification(self, notification: Notification, now: int) -> list[Output]:
        dialect = self._dialect
        try:
            params = dialect.messages.decode_notification(notification)
        except TaskmachineError:
            return []  # a notification has no response
        if hasattr(params, "progressToken"):
            return self._progress(*dialect.read_progress(params))
        if hasattr(params, "requestId"):
            return self._withdrawn(params.requestId)
        is_change = hasattr(params, "status") or hasattr(params, "task")
        seen = dialect.read(params) if is_change else None
        job = None if seen is None else self._job_of(seen.task_id)
        return [] if job is None or seen is None else self._see(job, seen, now)

    def _progress(self, token: Id, progress: Progress) -> list[Output]:
        for job in self._jobs.values():
            is_news = job.progress is None or progress.value > job.progress
            if token in (job.call.progress_token, job.token) and is_news:
                job.progress = progress.value
                return [Moved(job.name, progress)]
        return []

    def _withdrawn(self, id: Id) -> list[Output]:
        """Handle the withdrawal of a question that was a request."""
        self._early = [request for request in self._early if request.id != id]
        for job in self._jobs.values():
            for key in [key for key, asked in job.questions.items() if asked == id]:
                del job.questions[key]
                job.open.discard(key)
        return []

    def _question(self, request: Request, now: int) -> list[Output]:
        """Handle a question that is a request; a redelivered question is asked once."""
        dialect = self._dialect
        try:
            asking = dialect.read_question(request)
            if asking is None:
                return []  # 2026-07-28:client-sends-no-responses
            job = self._job_of(asking.task_id)
            if job is None and self._may_be_early():
                self._early.append(request)
                return []
            if job is None:
                raise InvalidParams("no call of this client waits for the task")
        except TaskmachineError as error:
            return [Send(dialect.messages.encode_error(request.id, error), request.id)]
        key = asking.key
        job.questions[key] = request.id
        job.open.add(key)
        if key in job.replies:
            return self._reply(job, key, now)
        if key in job.asked:
            return []
        job.asked.add(key)
        if not asking.is_named:
            job.unnamed.add(key)
        return [Asked(job.name, key, request.method, asking.params)]

    def _may_be_early(self) -> bool:
        """Return True if an unknown task may have just been created on another stream."""
        creates = [sent.job for sent in self._sent.values() if sent.purpose == "create"]
        return any(map(self._is_alive, creates)) and len(self._early) < MOST_EARLY

    def _ask_early(self, now: int) -> list[Output]:
        early, self._early = self._early, []
        return [out for request in early for out in self._question(request, now)]

    # --- one call ----------------------------------------------------------------------------

    def _see(self, job: _Job, seen: Seen, now: int) -> list[Output]:
        if job.state in TERMINAL:  # a delayed message changes nothing
            return self._collect(job, now)
        out: list[Output] = []
        if (job.state, job.message) != (seen.state, seen.message):
            out.append(Changed(job.name, seen.state, seen.message))
        suggested = seen.poll_ms or min(LAST_POLL_MS, job.interval_ms * 3 // 2)
        job.interval_ms = max(SHORTEST_POLL_MS, min(suggested, LONGEST_POLL_MS))
        job.state, job.message, job.failures = seen.state, seen.message, 0
        job.token = seen.token
        if seen.outcome is not None:
            return out + self._finish(job, seen.outcome)
        if seen.state in TERMINAL or (
            seen.state is State.INPUT_REQUIRED and self._dialect.questions_are_requests
        ):
            return out + self._collect(job, now)  # 2025-11-25:result-called-on-input-required
        for key in job.unnamed & job.replies.keys():
            # The answer has arrived; if the receiver asks the same again, it is a new question.
            job.unnamed.remove(key)
            job.asked.remove(key)
            del job.replies[key]
        if not self._dialect.questions_are_requests:
            job.open = set(seen.questions)
        for key, (method, params) in seen.questions.items():
            if key not in job.asked:  # 2026-07-28:questions-deduplicated
                job.asked.add(key)
                out.append(Asked(job.name, key, method, params))
            elif key in job.replies and key not in job.confirmed:
                out += self._reply(job, key, now)  # the answer was lost
        if not job.is_collecting:
            job.due = now + job.interval_ms
        if job.is_cancel_lost:
            job.is_cancel_lost = False
            out += self.cancel(job.name, now=now)
        return out

    def _pause(self, job: _Job, paused: Paused, now: int) -> list[Output]:
        """Ask the questions of a paused call; each round has its own keys."""
        job.paused, job.asked, job.replies = paused, set(paused.questions), {}
        asked = [Asked(job.name, key, *question) for key, question in paused.questions.items()]
        return [*asked, *self._retry(job, now)]

    def _retry(self, job: _Job, now: int) -> list[Output]:
        paused = job.paused
        assert paused is not None, "only a paused call is repeated"
        if any(reply.is_error for reply in job.replies.values()):
            return self.cancel(job.name, now=now)  # this wire cannot refuse a question
        if set(job.replies) != job.asked:
            return []
        job.paused = None
        params = self._dialect.retry(job.call, job.replies, paused.state)
        return [self._send(job, "create", params, now)]

    def _collect(self, job: _Job, now: int) -> list[Output]:
        dialect = self._dialect
        assert job.task_id is not None, "only tasks are collected"
        job.due = None
        if job.is_collecting:
            return []
        job.is_collecting = True
        return [self._send(job, "collect", dialect.collect(job.task_id), now)]

    def _reply(self, job: _Job, key: str, now: int) -> list[Output]:
        dialect, reply = self._dialect, job.replies[key]
        assert job.task_id is not None, "only tasks ask"
        job.confirmed.add(key)
        if dialect.questions_are_requests:
            id = job.questions.get(key)
            return [] if id is None else [Send(dialect.respond(id, job.task_id, reply), id)]
        if reply.is_error:  # this wire cannot refuse a question
            return self.cancel(job.name, now=now)
        params = dialect.answer(job.task_id, key, reply)
        return [self._send(job, "answer", params, now, key)]

    def _orphan(self, sent: _Sent, response: ResultResponse) -> list[Output]:
        """Cancel a task that was created for a call that its caller has abandoned."""
        dialect = self._dialect
        try:
            made = dialect.read_created(dialect.messages.decode_result(sent.method, response))
        except InvalidResult:
            return []
        if not isinstance(made, Seen) or not dialect.takes_cancel:
            return []
        id = self._new_id()
        return [Send(dialect.messages.encode_request(id, dialect.cancel(made.task_id)), id)]

    def _finish(self, job: _Job, outcome: Outcome) -> list[Output]:
        del self._jobs[job.name]
        self._sent = {
            id: sent
            for id, sent in self._sent.items()
            if sent.job is not job or sent.purpose == "create"  # see `_orphan`
        }
        return [Finished(job.name, outcome)]

    def _is_alive(self, job: _Job) -> bool:
        return self._jobs.get(job.name) is job  # the name may have been given to another call

    def _job_of(self, task_id: str) -> _Job | None:
        return next((job for job in self._jobs.values() if job.task_id == task_id), None)

    def _send(self, job: _Job, purpose: Purpose, params: Any, now: int, key: str = "") -> Send:
        id = self._new_id()
        request = self._dialect.messages.encode_request(id, params)
        self._sent[id] = _Sent(job, purpose, request.method, now, key)
        return Send(request, id)
