"""The page of one task in pieces, of which only changed ones are sent again."""

from collections.abc import Mapping
from typing import Any, Final

import attrs
from markupsafe import Markup

from taskmachine.adapters.console.access import TaskAccess
from taskmachine.adapters.console.formatting import outcome_blocks, path, timeline
from taskmachine.adapters.console.pages import Pages, digest
from taskmachine.adapters.console.questions import question_view
from taskmachine.adapters.console.wire_messages import wire_messages
from taskmachine.adapters.tools.registry import Tools
from taskmachine.statemachine import Task

__all__ = ["PIECES", "RejectedAnswer", "TaskPage"]

PIECES: Final = ("summary", "actions", "questions", "outcome", "path", "timeline", "call", "wire")


@attrs.frozen
class RejectedAnswer:
    """An invalid answer, shown in the form again with its errors."""

    key: str
    typed: Mapping[str, Any]
    words: Mapping[str, str]


@attrs.frozen
class TaskPage:
    """Renders task pages for one visitor."""

    pages: Pages
    access: TaskAccess
    tools: Tools
    base: str
    form_token: str

    async def pieces(self, task: Task, rejected: RejectedAnswer | None = None) -> dict[str, str]:
        """Return the HTML of each piece by name."""
        entries = await self.access.history(task)
        facts = {
            "base": self.base,
            "form_token": self.form_token,
            "session": self.access.session,
            "task": task,
            "rejected": rejected,
            "views": [question_view(question) for question in task.questions],
            "blocks": [] if task.outcome is None else outcome_blocks(task.outcome),
            "moments": timeline(entries),
            # Safe: drawn from the table, without text of callers.
            "picture": Markup(path(task, entries)),
            "states": dict.fromkeys(entry.dest.value for entry in entries),
            "generations": wire_messages(task, self.tools, self.access.service.clock()),
        }
        return {name: self._piece(name, facts) for name in PIECES}

    def _piece(self, name: str, facts: Mapping[str, Any]) -> str:
        inside = self.pages.render(f"task_{name}.html", **facts)
        # The page does not replace an unchanged piece, in which the user may be typing.
        mark = digest(inside)
        return f'<div class="piece piece-{name}" id="{name}" data-digest="{mark}">{inside}</div>'
