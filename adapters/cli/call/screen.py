"""Progress and questions of a call, shown on standard error."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Column
from rich.text import Text

from taskmachine.adapters.client.forms import Field, fields_of
from taskmachine.adapters.client.remote_task import Question, Update
from taskmachine.adapters.rendering.table import state_text
from taskmachine.adapters.rendering.wording import printable
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["Screen", "typed_line"]

_ON_ONE_LINE: Final = Column(no_wrap=True, overflow="ellipsis")


class Screen:
    """A status line while the call runs, and forms for the questions of the tool."""

    def __init__(self, *, can_ask: bool) -> None:
        self._can_ask = can_ask
        self._console = Console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.fields[shown]}", markup=False, table_column=_ON_ONE_LINE),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[amount]}", markup=False),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._line = self._progress.add_task("", total=None, shown="connecting", amount="")
        self._one_at_a_time = asyncio.Lock()

    @contextlib.contextmanager
    def showing(self) -> Iterator[None]:
        """Show the status line while the context is open."""
        with self._progress:
            yield

    def show(self, update: Update) -> None:
        """Show the latest status of the call."""
        shown = printable(update.message or "")
        amount = "" if update.progress is None else f"{update.progress:g}"
        if update.total is not None:
            amount += f"/{update.total:g}"
        self._progress.update(
            self._line,
            completed=update.progress or 0,
            total=update.total,
            shown=f"{printable(update.status)} {shown}".strip(),
            amount=amount,
        )

    def say(self, words: str, style: str = "") -> None:
        """Print a sentence."""
        self._console.print(Text(printable(words), style), soft_wrap=True)

    async def answer(self, question: Question) -> JSONObject:
        """Ask the user, or decline without a terminal."""
        if not self._can_ask:
            self.say(f"Declined without a terminal: {question.message}")
            return question.decline()
        async with self._one_at_a_time:
            self._progress.stop()
            try:
                return await self._fill_in(question)
            finally:
                self._progress.start()

    async def _fill_in(self, question: Question) -> JSONObject:
        self._console.print(state_text("input_required"), Text(printable(question.message)))
        fields = fields_of(question.params)
        agreed = Field("agreed", {"type": "boolean", "title": "Agree?"}, is_required=True)
        content: dict[str, Any] = {}
        try:
            if not fields and not await self._ask(agreed):
                return question.decline()
            for field in fields:
                value = await self._ask(field)
                if value is not None:
                    content[field.name] = value
        except EOFError:
            self.say("Declined.")
            return question.decline()
        return question.accept(**content)

    async def _ask(self, field: Field) -> Any:
        while True:
            self._console.print(Text(f"{printable(field.label)}: "), end="", soft_wrap=True)
            try:
                return field.read(await typed_line())
            except ValueError as error:
                self.say(str(error), "red")


async def typed_line() -> str:
    """Read a line from the terminal, cancellably; raise EOFError on Ctrl-D."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        loop.remove_reader(sys.stdin)
        if not typed.done():
            typed.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin, read)
    try:
        line = await typed
    finally:
        loop.remove_reader(sys.stdin)
    if not line:
        raise EOFError
    return line
