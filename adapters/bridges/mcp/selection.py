"""Which tools of a server become tasks, and with which options."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypedDict, TypeVar

from taskmachine.adapters.bridges.mcp.channel import key_of
from taskmachine.adapters.tools.questions import Request
from taskmachine.adapters.tools.registry import Priority, Tool, Tools
from taskmachine.protocol.dialects.dialect import TaskSupport
from taskmachine.statemachine import ConfigurationError

__all__ = ["Selection", "Terms", "Which"]

Which = Collection[str] | Callable[[str], bool]
"""Names of tools, or a predicate on names."""

_F = TypeVar("_F", bound=Callable[..., Any])


class Terms(TypedDict, total=False):
    """The options of `Tools.task`; times are in seconds."""

    support: TaskSupport
    timeout: float
    repeatable: bool
    poll_interval: float | None
    immediate: str | None
    priority: Priority
    first: Sequence[Request[Any]]
    """Questions to ask before the task is created; the tool asks them again and gets the answers.
    """


async def _of_the_server() -> None:
    """Placeholder for a function that the server runs."""


def _offer(tools: Tools, name: str, terms: Terms) -> None:
    rest: Any = dict(terms)
    asked = Counter[str]()
    first = {}
    for request in rest.pop("first", ()):
        asked[key_of(request, 1)] += 1
        first[key_of(request, asked[key_of(request, 1)])] = request
    tools.task(name, first=first, **rest)(_of_the_server)


class Selection:
    """All tools, unless some are selected by name, predicate or mark.

    Raises ConfigurationError for invalid options, and for a tool that is marked twice.
    """

    def __init__(self, which: Which | None, terms: Terms) -> None:
        if isinstance(which, str):
            raise ConfigurationError(f"tools must be a list of names, got the text '{which}'")
        self._which = which if which is None or callable(which) else frozenset(which).__contains__
        unmarked = Tools()
        _offer(unmarked, "unmarked", terms)
        self._unmarked = unmarked["unmarked"]
        self._marked = Tools()

    def mark(self, name: str | None, terms: Terms) -> Callable[[_F], _F]:
        """Select a function by its name, or the name under which the server has it."""

        def choose(function: _F) -> _F:
            _offer(self._marked, name or function.__name__, terms)
            return function

        return choose

    def terms(self, name: str) -> Tool | None:
        """Return the task options of a tool; None if it never becomes a task."""
        if name in self._marked:
            chosen = self._marked[name]
        elif self._which is None and self._marked:
            return None
        elif self._which is None or self._which(name):
            chosen = self._unmarked
        else:
            return None
        return None if chosen.support == "forbidden" else chosen
