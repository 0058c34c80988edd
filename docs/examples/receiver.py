#!/usr/bin/env python3
"""A client that answers questions as tasks: a person approves or refuses, in their time.

    python receiver.py                      you answer; a small server of its own asks
    python receiver.py --yes                answers by itself (or --no, as where no terminal is)
    python receiver.py --call TOOL='{"prompt": "Hi"}' -- npx SERVER stdio

Ctrl-D refuses.  A prompt disappears when the server withdraws its question, or the ttl has passed.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.text import Text

from taskmachine import TaskmachineError, connect
from taskmachine.client import Declined, Field, Question, Receiver, fields_of, printable

Json = dict[str, Any]
AGREED = Field("agreed", {"type": "boolean", "title": "Let the model answer?"}, is_required=True)


class Person:
    """Answers one question at a time, for as long as its task lives."""

    def __init__(self) -> None:
        self._screen = Console()
        self._one_at_a_time = asyncio.Lock()

    async def answer(self, question: Question) -> Json:
        async with self._one_at_a_time:
            try:
                return await self._answer(question)
            except asyncio.CancelledError:  # cancelled, expired, or the server is gone
                self._show("(taken back)", "dim")
                raise

    async def _answer(self, question: Question) -> Json:
        try:
            if question.method == "sampling/createMessage":
                for message in question.params["messages"]:
                    self._show(f"{message['role']}: {text_of(message['content'])}")
                if not await self._ask(AGREED):
                    raise Declined
                return a_model_says("Whatever you say.")
            self._show(question.message, "bold")
            typed = {field.name: await self._ask(field) for field in fields_of(question.params)}
        except EOFError:
            return refuse(question)
        return question.accept(
            **{name: value for name, value in typed.items() if value is not None}
        )

    async def _ask(self, field: Field) -> Any:
        while True:
            self._screen.print(Text(f"  {printable(field.label)}: "), end="", soft_wrap=True)
            try:
                return field.read(await typed_line())
            except ValueError as error:
                self._show(f"  {error}", "red")

    def _show(self, words: str, style: str = "") -> None:
        self._screen.print(Text(printable(words), style), soft_wrap=True)


async def typed_line() -> str:
    """Read a line from the terminal, unless the question is withdrawn meanwhile."""
    loop = asyncio.get_running_loop()
    has_line = asyncio.Event()
    loop.add_reader(sys.stdin, has_line.set)
    try:
        await has_line.wait()
    finally:
        loop.remove_reader(sys.stdin)
    if line := sys.stdin.readline():
        return line
    raise EOFError


def refuse(question: Question) -> Json:
    """Decline a form by an answer, and sampling by an error."""
    if question.method == "sampling/createMessage":
        raise Declined
    return question.decline()


def text_of(content: Any) -> str:
    """Return the text of a message: of one block, or of a list of them."""
    blocks = content if isinstance(content, list) else [content]
    return " ".join(block.get("text") or f"({block['type']})" for block in blocks)


def a_model_says(text: str) -> Json:
    """Stand in for a model."""
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "none"}


async def always_yes(question: Question) -> Json:
    if question.method == "sampling/createMessage":
        return a_model_says("Yes.")
    return question.accept(**{field.name: anything(field) for field in fields_of(question.params)})


def anything(field: Field) -> Any:
    """Describe the values that a field accepts."""
    for text in ("yes", "1", *field.schema.get("enum", ())):
        try:
            return field.read(text)
        except ValueError:
            continue
    return field.default


async def always_no(question: Question) -> Json:
    return refuse(question)


async def main(command: list[str], calls: list[tuple[str, Json]], answer: Any) -> None:
    async with connect(command, answer=answer, sampling=True, receive=Receiver(ttl=300)) as session:
        for tool, arguments in calls:
            task = await session.call(tool, arguments)
            for block in (await task.result())["content"]:
                for line in block.get("text", "").splitlines():
                    print(printable(line), flush=True)


# --- a small server that asks ----------------------------------------------------------------


def serve() -> None:
    """One tool, `interview`, in a few lines of JSON; its questions are tasks of the client."""

    def say(**message: Any) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def ask(method: str, **params: Any) -> Json:
        say(id=f"ask-{method}", method=method, params=params)
        for line in sys.stdin:
            answer: Json = json.loads(line)
            if answer.get("id") == f"ask-{method}":
                return answer
        sys.exit()

    for line in sys.stdin:
        request = json.loads(line)
        if request.get("method") in ANSWERS:
            say(id=request["id"], result=ANSWERS[request["method"]](ask))
        elif "id" in request and "method" in request:
            say(id=request["id"], error={"code": -32601, "message": "Method not found"})


def interview(ask: Callable[..., Json]) -> Json:
    name = {"type": "string", "title": "Your name"}
    form = {"type": "object", "properties": {"name": name}, "required": ["name"]}
    hello = {"role": "user", "content": {"type": "text", "text": "Say something nice."}}
    said = []
    for method, params in (
        ("elicitation/create", {"message": "Who are you?", "requestedSchema": form}),
        ("sampling/createMessage", {"messages": [hello], "maxTokens": 20}),
    ):
        task = ask(method, **params, task={"ttl": 300_000})["result"]["task"]
        outcome = ask("tasks/result", taskId=task["taskId"])
        status = ask("tasks/get", taskId=task["taskId"])["result"]["status"]
        result = outcome.get("result", {})
        words = outcome.get("error", {}).get("message") or json.dumps(
            result.get("content") or result["action"]
        )
        said.append({"type": "text", "text": f"{method}: {status}: {words}"})
    return {"content": said}


ANSWERS: dict[str, Callable[[Any], Json]] = {
    "initialize": lambda _: {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "interviewer", "version": "1"},
    },
    "tools/list": lambda _: {"tools": [{"name": "interview", "inputSchema": {"type": "object"}}]},
    "tools/call": interview,
}


def named_call(text: str) -> tuple[str, Json]:
    tool, _, arguments = text.partition("=")
    return tool, json.loads(arguments or "{}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Take what a server asks as tasks.")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--yes", action="store_const", dest="answer", const=always_yes)
    how.add_argument("--no", action="store_const", dest="answer", const=always_no)
    how.add_argument("--serve", action="store_true", help="be the small server")
    parser.add_argument("--call", action="append", type=named_call, metavar="TOOL[=JSON]")
    parser.add_argument("command", nargs="*", help="what starts the server; default: our own")
    options = parser.parse_args()
    if options.serve:
        serve()
        sys.exit()
    own = [sys.executable, __file__, "--serve"]
    answer = options.answer or (Person().answer if sys.stdin.isatty() else always_no)
    calls = options.call or [("interview", {})]
    try:
        asyncio.run(main(options.command or own, calls, answer))
    except TaskmachineError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
