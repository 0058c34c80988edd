"""A client receives requests as tasks: the messages of the server, and the prompts of the user."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from taskmachine.adapters.client.answering import Answer, Answering, declared
from taskmachine.adapters.client.errors import Declined
from taskmachine.adapters.client.receiving import Receiver, Receiving, open_receiving
from taskmachine.adapters.client.remote_task import Question
from taskmachine.adapters.runtime.runtime import Surroundings
from taskmachine.adapters.tools.registry import CallError
from taskmachine.protocol.dialects.mcp_2025_11_25.messages import DIALECT
from taskmachine.protocol.jsonrpc import Message, Request, decode_message, encode_message
from taskmachine.statemachine import ConfigurationError
from tests.adapters.client.scripted import FORM, Json
from tests.adapters.memory_service import Clock
from tests.oracle import judge
from tests.requirements import covers

RELATED = "io.modelcontextprotocol/related-task"
SAMPLING: Json = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "2+2?"}}],
    "maxTokens": 10,
}
FOUR: Json = {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "none"}
ADA: Json = {"action": "accept", "content": {"name": "Ada"}}
SHAPES = {
    "elicitation/create": "CreateTaskResult",
    "sampling/createMessage": "CreateTaskResult",
    "tasks/get": "GetTaskResult",
    "tasks/cancel": "CancelTaskResult",
    "tasks/list": "ListTasksResult",
    "tasks/result": "GetTaskPayloadResult",
}


class Prompt:
    """A prompt, until it is answered or withdrawn."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.said: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.taken_away = asyncio.Event()


class Person:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self._news = asyncio.Condition()

    async def answer(self, question: Question) -> Json:
        prompt = Prompt(question)
        async with self._news:
            self.prompts.append(prompt)
            self._news.notify_all()
        try:
            return await prompt.said
        except asyncio.CancelledError:
            prompt.taken_away.set()
            raise

    async def prompt(self, number: int = 1) -> Prompt:
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: len(self.prompts) >= number)
        return self.prompts[number - 1]


class Server:
    """The server in plain JSON; every message is validated against the schema."""

    def __init__(self) -> None:
        self.receiving: Receiving
        self.told: list[Json] = []
        self._ids = count(1)
        self._waiting: dict[Any, tuple[str, asyncio.Future[Json]]] = {}
        self._news = asyncio.Event()

    def hear(self, message: Message) -> None:
        said = json.loads(encode_message(message))
        if "method" in said:
            judge("2025-11-25", "TaskStatusNotification").validate(said)
            self.told.append(said["params"])
            self._news.set()
            return
        method, waiting = self._waiting.pop(said["id"])
        if "error" in said:
            judge("2025-11-25", "JSONRPCErrorResponse").validate(said)
        else:
            judge("2025-11-25", SHAPES[method]).validate(said["result"])
        waiting.set_result(said)

    def say(self, message: Json) -> None:
        decoded = decode_message(json.dumps({"jsonrpc": "2.0", **message}).encode())
        assert not isinstance(decoded, Request) or self.receiving.takes(decoded)
        self.receiving.receive(decoded)

    def begin(self, method: str, params: Json) -> tuple[int, asyncio.Future[Json]]:
        id, answer = next(self._ids), asyncio.get_running_loop().create_future()
        self._waiting[id] = method, answer
        self.say({"id": id, "method": method, "params": params})
        return id, answer

    async def ask(self, method: str, **params: Any) -> Json:
        answer = await self.answer(method, **params)
        assert "result" in answer, answer
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    async def refusal(self, method: str, **params: Any) -> Json:
        answer = await self.answer(method, **params)
        assert "error" in answer, answer
        error = answer["error"]
        assert isinstance(error, dict)
        return error

    async def answer(self, method: str, **params: Any) -> Json:
        async with asyncio.timeout(10):
            return await self.begin(method, params)[1]

    async def elicit(self, **task: Any) -> Json:
        created = await self.ask("elicitation/create", **FORM, task=task)
        assert isinstance(created["task"], dict)
        return created["task"]

    async def sample(self, **task: Any) -> Json:
        created = await self.ask("sampling/createMessage", **SAMPLING, task=task)
        assert isinstance(created["task"], dict)
        return created["task"]

    async def until(self, status: str, task_id: str) -> Json:
        """Return the first notification with that status."""
        async with asyncio.timeout(10):
            while True:
                for told in self.told:
                    if (told["status"], told["taskId"]) == (status, task_id):
                        return told
                self._news.clear()
                await self._news.wait()


@contextlib.asynccontextmanager
async def received(
    answer: Answer, receiver: Receiver | None = None, clock: Clock | None = None
) -> AsyncIterator[Server]:
    server = Server()
    answering = Answering(answer, declared(answer, sampling=True))
    world = Surroundings() if clock is None else Surroundings(clock=clock)
    terms = receiver or Receiver()
    async with open_receiving(terms, answering, server.hear, world) as server.receiving:
        yield server


# --- from the question to its result ---------------------------------------------------------


@covers(
    "2025-11-25:create-result-returned",
    "2025-11-25:create-answer-prompt",
    "2025-11-25:result-blocks",
    "2025-11-25:get-works-while-result-blocks",
    "2025-11-25:result-matches-request-type",
    "2025-11-25:related-task-on-result",
)
@pytest.mark.parametrize(
    ("method", "params", "said"),
    [("elicitation/create", FORM, ADA), ("sampling/createMessage", SAMPLING, FOUR)],
)
async def test_a_question_is_a_task_until_the_user_has_answered(
    method: str, params: Json, said: Json
) -> None:
    person = Person()
    async with received(person.answer) as server:
        task = (await server.ask(method, **params, task={}))["task"]
        assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", 60_000, 2_000)
        prompt = await person.prompt()
        assert prompt.question.method == method
        assert prompt.question.params == params
        _, result = server.begin("tasks/result", {"taskId": task["taskId"]})
        shown = await server.ask("tasks/get", taskId=task["taskId"])
        # Nothing is required from the server
        assert shown["status"] == "working"
        assert "user" in shown["statusMessage"]
        assert not result.done()
        prompt.said.set_result({**said, "_meta": {"com.example/by": "hand"}})
        meta = {"com.example/by": "hand", RELATED: {"taskId": task["taskId"]}}
        assert (await result)["result"] == {**said, "_meta": meta}
        await server.until("completed", task["taskId"])
        shown = await server.ask("tasks/get", taskId=task["taskId"])
        assert shown["status"] == "completed"
        again = await server.ask("tasks/result", taskId=task["taskId"])
        assert again == {**said, "_meta": meta}
        seen = [told["status"] for told in server.told]
        assert seen == ["working", "completed"]  # the message, and the end


@covers("2025-11-25:task-id-unique", "2025-11-25:concurrency-limit")
async def test_so_many_questions_at_a_time_and_all_have_their_own_prompt() -> None:
    person = Person()
    async with received(person.answer, Receiver(tasks=20)) as server:
        tasks = [await server.elicit() for _ in range(20)]
        assert len({task["taskId"] for task in tasks}) == 20
        await person.prompt(20)
        refusal = await server.refusal("elicitation/create", **FORM, task={})
        assert refusal["code"] == -32603
        assert "20" in refusal["message"]
        person.prompts[0].said.set_result(ADA)
        await server.until("completed", person.prompts[0].question.key)
        assert (await server.elicit())["status"] == "working"


async def test_the_user_is_asked_about_the_task_that_the_key_of_the_question_names() -> None:
    person = Person()
    async with received(person.answer) as server:
        first, second = await server.elicit(), await server.sample()
        await person.prompt(2)
        keys = {prompt.question.key: prompt.question.method for prompt in person.prompts}
        assert keys == {
            first["taskId"]: "elicitation/create",
            second["taskId"]: "sampling/createMessage",
        }


# --- the user declines -----------------------------------------------------------------------


@covers("2025-11-25:failed-on-jsonrpc-error", "2025-11-25:result-same-error")
async def test_sampling_that_the_user_declines_fails() -> None:
    person = Person()
    async with received(person.answer) as server:
        task = await server.sample()
        (await person.prompt()).said.set_exception(Declined())
        told = await server.until("failed", task["taskId"])
        assert told["statusMessage"] == "User declined sampling request"
        refusal = await server.refusal("tasks/result", taskId=task["taskId"])
        assert refusal == {"code": -1, "message": "User declined sampling request"}


async def test_user_decline_without_a_task_gives_the_same_error() -> None:
    async def answer(_: Question) -> Json:
        raise Declined

    answering = Answering(answer, declared(answer, sampling=True))
    asked = Request("a", "sampling/createMessage", SAMPLING)
    said = json.loads(encode_message(await answering.serve(asked, DIALECT)))
    assert said["error"] == {"code": -1, "message": "User declined sampling request"}


async def test_a_form_that_the_user_declines_is_answered_with_that() -> None:
    person = Person()
    async with received(person.answer) as server:
        task = await server.elicit()
        prompt = await person.prompt()
        prompt.said.set_result(prompt.question.decline())
        await server.until("completed", task["taskId"])
        assert (await server.ask("tasks/result", taskId=task["taskId"]))["action"] == "decline"


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (CallError(-32001, "no model today"), -32001, "no model today"),
        (RuntimeError("secret"), -32603, "The question could not be answered."),
    ],
)
async def test_whatever_goes_wrong_with_an_answer_is_an_error_without_secrets(
    raised: Exception, code: int, message: str
) -> None:
    person = Person()
    async with received(person.answer) as server:
        task = await server.sample()
        (await person.prompt()).said.set_exception(raised)
        refusal = await server.refusal("tasks/result", taskId=task["taskId"])
        assert refusal == {"code": code, "message": message}
        shown = await server.ask("tasks/get", taskId=task["taskId"])
        assert (shown["status"], shown["statusMessage"]) == ("failed", message)


async def test_unserializable_answer_fails_the_task() -> None:
    async def answer(_: Question) -> Any:
        return {"action": object()}

    async with received(answer) as server:
        task = await server.elicit()
        assert (await server.refusal("tasks/result", taskId=task["taskId"]))["code"] == -32603


# --- the server cancels ----------------------------------------------------------------------


@covers(
    "2025-11-25:cancel-answers-with-task",
    "2025-11-25:cancel-stops-work",
    "2025-11-25:result-of-cancelled-task",
    "2025-11-25:cancel-terminal-refused",
)
async def test_a_cancel_takes_the_prompt_away() -> None:
    person = Person()
    async with received(person.answer) as server:
        task_id = (await server.elicit())["taskId"]
        prompt = await person.prompt()
        _, result = server.begin("tasks/result", {"taskId": task_id})
        cancelled = await server.ask("tasks/cancel", taskId=task_id)
        assert (cancelled["taskId"], cancelled["status"]) == (task_id, "cancelled")
        async with asyncio.timeout(10):
            await prompt.taken_away.wait()
        told = await server.until("cancelled", task_id)
        assert told["statusMessage"]
        assert (await result)["error"]["message"] == "Task cancelled"
        # A later request gets the same
        refusal = await server.refusal("tasks/result", taskId=task_id)
        assert refusal["message"] == "Task cancelled"
        refusal = await server.refusal("tasks/cancel", taskId=task_id)
        assert refusal["code"] == -32602
        assert "cancelled" in refusal["message"]


@covers("2025-11-25:cancelled-sticks")
async def test_an_answer_that_comes_after_the_cancel_changes_nothing() -> None:
    is_asked, is_stopped, has_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stubborn(_: Question) -> Json:
        is_asked.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        await is_stopped.wait()
        has_ended.set()
        return ADA

    async with received(stubborn) as server:
        task_id = (await server.elicit())["taskId"]
        await is_asked.wait()
        await server.ask("tasks/cancel", taskId=task_id)
        is_stopped.set()
        await has_ended.wait()
        refusal = await server.refusal("tasks/result", taskId=task_id)
        assert refusal["message"] == "Task cancelled"
        assert (await server.ask("tasks/get", taskId=task_id))["status"] == "cancelled"
        assert [told["status"] for told in server.told].count("completed") == 0


@covers("2025-11-25:result-request-cancellable", "2025-11-25:cancelled-notification-keeps-task")
async def test_cancelled_tasks_result_gets_no_answer_and_keeps_the_prompt_open() -> None:
    person = Person()
    async with received(person.answer) as server:
        task_id = (await server.elicit())["taskId"]
        prompt = await person.prompt()
        id, result = server.begin("tasks/result", {"taskId": task_id})
        await server.ask("tasks/get", taskId=task_id)
        server.say({"method": "notifications/cancelled", "params": {"requestId": id}})
        prompt.said.set_result(ADA)
        await server.until("completed", task_id)
        assert (await server.ask("tasks/result", taskId=task_id))["action"] == "accept"
        assert not result.done()


# --- time ------------------------------------------------------------------------------------


@covers("2025-11-25:actual-ttl-in-get", "2025-11-25:expired-cleaned-up")
async def test_when_its_time_is_over_a_question_fails_in_the_open() -> None:
    person, clock = Person(), Clock()
    async with received(person.answer, clock=clock) as server:
        task_id = (await server.elicit(ttl=90_000))["taskId"]
        prompt = await person.prompt()
        _, result = server.begin("tasks/result", {"taskId": task_id})
        clock.now += 89_999
        # Unlike work, a prompt does not extend the TTL.
        shown = await server.ask("tasks/get", taskId=task_id)
        assert (shown["status"], shown["ttl"]) == ("working", 90_000)
        clock.now += 2
        told = await server.until("failed", task_id)
        assert "expired" in told["statusMessage"]
        async with asyncio.timeout(10):
            await prompt.taken_away.wait()
            assert "expired" in (await result)["error"]["message"]


@covers("2025-11-25:may-delete-after-ttl", "2025-11-25:purged-reads-as-not-found")
async def test_receiver_deletes_expired_tasks_when_it_needs_room() -> None:
    async def answer(question: Question) -> Json:
        return ADA

    clock = Clock()
    async with received(answer, Receiver(tasks=1), clock) as server:
        for _ in range(10):
            first = (await server.elicit())["taskId"]
            await server.ask("tasks/result", taskId=first)
        refusal = await server.refusal("elicitation/create", **FORM, task={})
        assert refusal["code"] == -32603
        clock.now += 60_001
        second = (await server.elicit())["taskId"]
        refusal = await server.refusal("tasks/get", taskId=first)
        assert refusal["code"] == -32602
        await server.ask("tasks/result", taskId=second)


@covers("2025-11-25:ttl-maximum", "2025-11-25:ttl-may-be-overridden")
async def test_receiver_limits_the_ttl_to_one_day() -> None:
    async with received(Person().answer, Receiver(ttl=5, poll_interval=0.5)) as server:
        assert (await server.elicit(ttl=10**12))["ttl"] == 86_400_000
        task = await server.elicit()
        assert (task["ttl"], task["pollInterval"]) == (5_000, 500)


# --- isolation -------------------------------------------------------------------------------


@covers("2025-11-25:list-result-shape", "2025-11-25:list-bad-cursor-32602")
async def test_a_list_has_every_task_page_by_page() -> None:
    async with received(Person().answer) as server:
        made = {(await server.elicit())["taskId"] for _ in range(60)}
        page = await server.ask("tasks/list")
        more = await server.ask("tasks/list", cursor=page["nextCursor"])
        listed = [task["taskId"] for task in [*page["tasks"], *more["tasks"]]]
        assert len(listed) == 60
        assert set(listed) == made
        assert "nextCursor" not in more
        assert (await server.refusal("tasks/list", cursor="mine"))["code"] == -32602


@covers(
    "2025-11-25:foreign-get-rejected",
    "2025-11-25:foreign-result-rejected",
    "2025-11-25:foreign-cancel-rejected",
    "2025-11-25:foreign-not-listed",
)
async def test_servers_on_one_store_know_nothing_of_each_other(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'tasks.db'}"

    ada, bob = Person(), Person()
    async with received(bob.answer, Receiver(store, owner="bob")) as theirs:
        async with received(ada.answer, Receiver(store, owner="ada")) as ours:
            task_id = (await ours.elicit())["taskId"]
            await ada.prompt()
            for method in ("tasks/get", "tasks/result", "tasks/cancel"):
                assert (await theirs.refusal(method, taskId=task_id))["code"] == -32602
            assert (await theirs.ask("tasks/list"))["tasks"] == []
            assert (await ours.ask("tasks/get", taskId=task_id))["status"] == "working"
        # Now it waits for a client of its owner, which these are not.
        await theirs.receiving._runtime.engine.periodic_jobs["queue poll"]()
        made = {(await theirs.elicit())["taskId"]}
        assert {(await bob.prompt()).question.key} == made
        async with received(ada.answer, Receiver(store, owner="ada")):
            assert (await ada.prompt(2)).question.key == task_id
        assert len(bob.prompts) == 1


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
@covers(
    "2025-11-25:get-unknown-32602",
    "2025-11-25:result-unknown-32602",
    "2025-11-25:cancel-unknown-32602",
)
async def test_receiver_answers_not_found_for_an_unknown_task(method: str) -> None:
    async with received(Person().answer) as server:
        refusal = await server.refusal(method, taskId="none")
        assert refusal["code"] == -32602
        assert "not found" in refusal["message"]


# --- connections -----------------------------------------------------------------------------


async def test_stored_question_survives_the_connection(tmp_path: Path) -> None:
    terms = Receiver(f"sqlite:{tmp_path / 'tasks.db'}", owner="https://server.example")

    person = Person()
    async with received(person.answer, terms) as server:
        task_id = (await server.elicit(ttl=60_000))["taskId"]
        first = await person.prompt()
    assert first.taken_away.is_set()
    async with received(person.answer, terms) as server:
        second = await person.prompt(2)
        assert second.question == first.question
        assert (await server.ask("tasks/get", taskId=task_id))["status"] == "working"
        second.said.set_result(ADA)
        assert (await server.ask("tasks/result", taskId=task_id))["content"] == ADA["content"]


async def test_a_connection_that_is_gone_takes_its_prompts_along() -> None:
    person = Person()
    async with received(person.answer) as server:
        await server.elicit()
        prompt = await person.prompt()
        server.receiving.gone()
        async with asyncio.timeout(3):  # not after the 5 s that a server grants its tools
            await prompt.taken_away.wait()


async def test_a_server_that_forgot_the_session_may_use_its_ids_again() -> None:
    person = Person()
    async with received(person.answer) as server:
        task_id = (await server.elicit())["taskId"]
        prompt = await person.prompt()
        server.begin("tasks/result", {"taskId": task_id})
        await server.ask("tasks/get", taskId=task_id)
        server.receiving.forget_requests()
        server._ids = count(1)
        for _ in range(4):
            assert (await server.ask("tasks/get", taskId=task_id))["status"] == "working"
        _, result = server.begin("tasks/result", {"taskId": task_id})
        prompt.said.set_result(ADA)
        async with asyncio.timeout(10):
            assert (await result)["result"]["action"] == "accept"


# --- configuration errors --------------------------------------------------------------------


async def test_client_refuses_an_undeclared_elicitation_mode_at_once() -> None:
    person = Person()
    async with received(person.answer) as server:
        link = {"mode": "url", "message": "Go", "url": "https://x.example", "elicitationId": "1"}
        refusal = await server.refusal("elicitation/create", **link, task={})
        assert refusal["code"] == -32602
        refusal = await server.refusal("elicitation/create", **FORM, task={"ttl": "long"})
        assert refusal["code"] == -32602
        assert (await server.ask("tasks/list"))["tasks"] == []
    assert not person.prompts


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"ttl": 0}, "ttl must be"),
        ({"ttl": 1e9}, "ttl must be"),
        ({"poll_interval": -1}, "poll_interval must be"),
        ({"tasks": 0}, "tasks must be at least 1"),
        ({"store": "sqlite:tasks.db"}, "needs an owner"),
    ],
)
def test_terms_that_cannot_be_are_a_configuration_error(terms: Json, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Receiver(**terms)


async def test_an_unknown_store_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError):
        async with received(Person().answer, Receiver("nowhere:", owner="x")):
            raise AssertionError("opened")
