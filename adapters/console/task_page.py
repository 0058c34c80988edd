"""The page of one task, in pieces: each is sent again when it looks different, and no other."""

from collections.abc import Mapping
from typing import Any, Final

import attrs
from markupsafe import Markup

from taskmachine.adapters.console.access import Sight
from taskmachine.adapters.console.formatting import path, said, timeline
from taskmachine.adapters.console.pages import Pages, digest
from taskmachine.adapters.console.questions import asked
from taskmachine.adapters.console.wire_messages import wire_messages
from taskmachine.adapters.tools.registry import Tools
from taskmachine.statemachine import Task

__all__ = ["PIECES", "TaskPage", "Tried"]

PIECES: Final = ("summary", "actions", "questions", "outcome", "path", "timeline", "call", "wire")


@attrs.frozen
class Tried:
    """An answer that was refused: it stands in the form again, with what is wrong."""

    key: str
    typed: Mapping[str, Any]
    words: Mapping[str, str]


@attrs.frozen
class TaskPage:
    """For one visitor."""

    pages: Pages
    sight: Sight
    tools: Tools
    base: str
    form_token: str

    async def pieces(self, task: Task, tried: Tried | None = None) -> dict[str, str]:
        """HTML by the name of the piece."""
        entries = await self.sight.history(task)
        facts = {
            "base": self.base,
            "form_token": self.form_token,
            "visit": self.sight.visit,
            "task": task,
            "tried": tried,
            "asked": [asked(question) for question in task.questions],
            "blocks": [] if task.outcome is None else said(task.outcome),
            "moments": timeline(entries),
            # Drawn from the table; there is not a word of others in it.
            "picture": Markup(path(task, entries)),
            "states": dict.fromkeys(entry.dest.value for entry in entries),
            "generations": wire_messages(task, self.tools, self.sight.service.clock()),
        }
        return {name: self._piece(name, facts) for name in PIECES}

    def _piece(self, name: str, facts: Mapping[str, Any]) -> str:
        inside = self.pages.render(f"task_{name}.html", **facts)
        # The page leaves a piece alone that looks the same: somebody may be typing in it.
        mark = digest(inside)
        return f'<div class="piece piece-{name}" id="{name}" data-digest="{mark}">{inside}</div>'
