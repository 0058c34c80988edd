"""The output of the demo, and its question.

Progress bars are live in a terminal, and single lines elsewhere.
"""

import asyncio
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import attrs
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column, Table
from rich.text import Text

from taskmachine.adapters.cli.call.screen import typed_line
from taskmachine.adapters.client.forms import Field, fields_of
from taskmachine.adapters.client.remote_task import Question, Update
from taskmachine.adapters.rendering.table import state_text
from taskmachine.adapters.rendering.tasks import print_history
from taskmachine.adapters.rendering.wording import printable
from taskmachine.statemachine import Entry, Event

__all__ = ["ASK_S", "Bar", "Screen", "Story", "counted_so_far"]

ASK_S: Final = 5.0
"""How long to wait for an answer."""

INDENT: Final = 3
STATUSES: Final = ("working", "input_required", "completed", "failed", "cancelled")
_ASCII: Final = str.maketrans({"→": "->", "←": "<-", "×": "x"})  # noqa: RUF001


@attrs.frozen
class Story:
    """The outcome of one call in one protocol revision."""

    revision: str
    tool: str
    task_id: str
    statuses: Sequence[str]
    """In order of arrival, without repetitions."""
    end: str
    """The text of its result, or the reason why there is none."""
    is_error: bool = False


def counted_so_far(update: Update) -> float:
    """Return the progress of the tool `count`, from the message where tasks have no numbers."""
    said = re.match(r"(\d+) of ", update.message or "")
    return max(update.progress or 0, 0 if said is None else int(said[1]))


@attrs.frozen
class Bar:
    """The progress bar of one call."""

    _progress: Progress
    _row: TaskID
    _total: int

    def show(self, update: Update) -> None:
        """Show an update."""
        done = self._total if update.status == "completed" else counted_so_far(update)
        self._progress.update(
            self._row,
            completed=max(done, self._progress.tasks[self._row].completed),
            status=state_text(update.status).markup,
        )


class Screen:
    """Print the demo on a console."""

    def __init__(self, console: Console, *, can_ask: bool) -> None:
        self._console = console
        self._can_ask = can_ask
        self._scene = 0

    # --- words -----------------------------------------------------------------------------------

    def heading(self, sentence: str) -> None:
        """Print the heading of the next scene."""
        self._scene += 1
        self._console.print()
        self._console.print(Text.assemble((f"{self._scene}  ", "bold blue"), (sentence, "bold")))

    def title(self, command: str) -> None:
        """Print the title and the server command."""
        self._console.print(
            Text(f"taskmachine {version('taskmachine')}: MCP Tasks, in both generations", "bold")
        )
        self._console.print()
        self.say(f"$ {command}", "dim")

    def farewell(self, took_s: float) -> None:
        """Print the success message and suggest next steps."""
        self._console.print()
        self._console.print(
            Text(f"Done in {took_s:.1f} s: all checks passed, all files removed.", "bold green")
        )
        self._console.print("Try it yourself, in two terminals:")
        self.say("$ taskmachine serve --http 127.0.0.1:8000", "dim")
        self.say(
            '$ taskmachine call http://127.0.0.1:8000/mcp deploy --args \'{"version": "2.0"}\'',
            "dim",
        )

    def say(self, words: str, style: str = "") -> None:
        """Print a sentence."""
        self._indented(self._text(words, style))

    def _indented(self, shown: RenderableType) -> None:
        self._console.print(Padding(shown, (0, 0, 0, INDENT), expand=isinstance(shown, Table)))

    def _text(self, words: str, style: str = "") -> Text:
        shown = printable(words)
        if self._console.options.ascii_only:
            shown = shown.translate(_ASCII)
        text = Text(shown, style, overflow="ellipsis")
        for status in STATUSES:
            text.highlight_regex(rf"\b{status}\b", state_text(status).style)
        return text

    # --- calls -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def bars(self, names: Sequence[str], total: int) -> Iterator[Mapping[str, Bar]]:
        """Show a progress bar for each name."""
        progress = Progress(
            TextColumn(f"{'':{INDENT}}{{task.description}}", style="bold"),
            TextColumn("{task.fields[status]}", table_column=Column(width=10)),
            BarColumn(bar_width=50),
            TextColumn("{task.completed:g} of {task.total}"),
            console=self._console,
        )
        self._console.print()
        with progress:
            rows = {name: progress.add_task(name, total=total, status="") for name in names}
            yield {name: Bar(progress, row, total) for name, row in rows.items()}

    def compare(self, stories: Sequence[Story], wires: Sequence[Sequence[str]]) -> None:
        """Show statuses, wire messages and results side by side."""
        self._console.print()
        table = Table(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), expand=True
        )
        for story in stories:
            path = self._text(" → ".join(story.statuses))
            head = Text("\n").join([Text(story.revision, "bold"), path])
            table.add_column(head, ratio=1, no_wrap=True, overflow="ellipsis", header_style="")
        height = max(map(len, wires))
        for number in range(height):
            table.add_row(
                *(self._text(wire[number]) if number < len(wire) else "" for wire in wires)
            )
        ends = [self._text(f"= {story.end}", _end_style(story)) for story in stories]
        table.add_row(*ends)
        self._indented(table)

    def summary(self, stories: Sequence[Story], histories: Sequence[Sequence[Entry]]) -> None:
        """Show a line for each task: its last status on the wire, its state, and its moves."""
        self._console.print()
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for name, least in (("tool", 6), ("generation", 10), ("wire", 9), ("store", 9)):
            table.add_column(name, no_wrap=True, min_width=least)
        table.add_column("events (without reports)", no_wrap=True, overflow="ellipsis")
        for story, entries in zip(stories, histories, strict=True):
            table.add_row(
                story.tool,
                story.revision,
                state_text(story.statuses[-1]),
                state_text(entries[-1].dest),
                self._text(" ".join(_runs([str(entry.event) for entry in _moves(entries)]))),
            )
        self._indented(table)

    def history(self, entries: Sequence[Entry]) -> None:
        """Show the history of one task without its progress reports."""
        self._console.print()
        self.say(f"$ taskmachine tasks history {entries[0].task_id}  (without its reports)", "dim")
        self._console.print()
        print_history(self._console, _moves(entries))

    # --- the question ----------------------------------------------------------------------------

    async def ask(self, question: Question) -> dict[str, Any] | None:
        """Return the answers, None if declined, or the defaults without a terminal."""
        needed = [field for field in fields_of(question.params) if field.is_required]
        defaults = {field.name: field.default for field in needed}
        self._console.print()
        if not self._can_ask:
            self.say(f"{question.message} Not a terminal: assuming yes.", "yellow")
            return defaults
        self.say(f"{question.message} Assuming yes after {ASK_S:g} s.", "yellow")
        try:
            async with asyncio.timeout(ASK_S):
                return {field.name: await self._fill_in(field) for field in needed}
        except TimeoutError:
            self._console.print()
            self.say("No answer: assuming yes.", "yellow")
            return defaults
        except EOFError:
            self._console.print()
            self.say("Declined.", "yellow")
            return None

    async def _fill_in(self, field: Field) -> Any:
        while True:
            label = f"{'':{INDENT}}{printable(field.label)}: "
            self._console.print(Text(label, "bold"), end="")
            try:
                return field.read(await typed_line())
            except ValueError as error:
                self.say(str(error), "red")


def _moves(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.event is not Event.REPORT]


def _end_style(story: Story) -> str:
    if story.is_error:
        return "red"
    return "magenta" if story.statuses[-1] == "cancelled" else "green"


def _runs(words: Sequence[str]) -> Iterator[str]:
    """Write `a b b b` as `a b×3`."""  # noqa: RUF002
    begun = 0
    for number, word in enumerate(words, 1):
        if number == len(words) or words[number] != word:
            times = number - begun
            yield word if times == 1 else f"{word}×{times}"  # noqa: RUF001
            begun = number
