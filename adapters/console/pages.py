"""HTML from templates with escaping, and the static files of pages."""

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

import attrs
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from taskmachine.adapters.console.formatting import cut, percent, pretty
from taskmachine.adapters.rendering.tasks import duration, ending, state_of
from taskmachine.adapters.rendering.values import moment_text, read_text
from taskmachine.adapters.rendering.waiting import short_time, waiting_text
from taskmachine.statemachine import Task

__all__ = ["HEADERS", "Pages", "digest"]

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)

HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer` the console's own forms would have the origin "null".
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Default headers of every response."""

MOST_READ: Final = 10_000
"""Maximum size of a result that a row parses: there may be a thousand rows."""

MOST_IN_ROW: Final = 300

_MEDIA_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def digest(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=9).hexdigest()


@attrs.frozen
class _File:
    content: bytes
    media_type: str


class Pages:
    """The templates and files of a console.  `clock` is in milliseconds since the epoch."""

    def __init__(self, clock: Any) -> None:
        folder = files("taskmachine.adapters.console").joinpath("static")
        self._files = {
            entry.name: _File(entry.read_bytes(), _MEDIA_TYPES[entry.name.rpartition(".")[2]])
            for entry in folder.iterdir()
        }
        version = digest("".join(str(file.content) for file in self._files.values()))
        self._environment = Environment(
            loader=PackageLoader("taskmachine.adapters.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "cut": cut,
            "duration": duration,
            "moment": moment_text,
            "percent": percent,
            "pretty": pretty,
            "state": state_of,
            "summary": lambda task: _summary(task, clock()),
            "waiting": lambda task: waiting_text(task, moment_text),
        }
        self._environment.globals |= {"now": clock, "version": version}

    def render(self, template: str, **facts: Any) -> str:
        """Render a page, or a piece of one."""
        return self._environment.get_template(template).render(facts)

    def response(self, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
        """Return a response with a whole page."""
        # Tools may produce text that UTF-8 cannot encode.
        content = self.render(template, **facts).encode("utf-8", "replace")
        return HTMLResponse(content, status)

    def file(self, name: str) -> Response | None:
        """Return a static file.  Its URL contains a version, so browsers may cache it."""
        file = self._files.get(name)
        if file is None:
            return None
        headers: Mapping[str, str] = {"Cache-Control": "private, max-age=31536000, immutable"}
        return Response(file.content, headers=headers, media_type=file.media_type)


def _summary(task: Task, now: int) -> str:
    """Return a summary of a task in one line."""
    outcome = task.outcome
    if outcome is None and task.open_questions:
        line = f"waits for an answer: {', '.join(question.key for question in task.open_questions)}"
    elif outcome is None:
        waiting = waiting_text(task, lambda at: short_time(at, now))
        line = waiting or task.message or (task.progress and task.progress.message) or ""
    elif outcome.result is not None and len(outcome.result) > MOST_READ:
        line = read_text(outcome.result[:MOST_IN_ROW])
    else:
        line = ending(outcome)
    return line[:MOST_IN_ROW]
