"""Which tools of a server become tasks, and on what terms."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypedDict, TypeVar

from taskmachine.adapters.bridges.mcp.channel import key_of
from taskmachine.adapters.tools.context import Request
from taskmachine.adapters.tools.registry import Priority, Tool, Tools
from taskmachine.protocol.dialects.dialect import TaskSupport
from taskmachine.statemachine import ConfigurationError

__all__ = ["Selection", "Terms", "Which"]

Which = Collection[str] | Callable[[str], bool]
"""Names of tools, or what says yes to a name."""

_F = TypeVar("_F", bound=Callable[..., Any])


class Terms(TypedDict, total=False):
    """As of `Tools.task`: times are seconds."""

    support: TaskSupport
    timeout: float
    retry: bool
    poll_interval: float | None
    immediate: str | None
    priority: Priority
    first: Sequence[Request[Any]]
    """What is asked before there is a task; the tool asks it, too, and has the answer then."""


async def _of_the_server() -> None:
    """Stands for a function that the server has."""


def _offer(tools: Tools, name: str, terms: Terms) -> None:
    rest: Any = dict(terms)
    asked = Counter[str]()
    first = {}
    for request in rest.pop("first", ()):
        asked[key_of(request, 1)] += 1
        first[key_of(request, asked[key_of(request, 1)])] = request
    tools.task(name, first=first, **rest)(_of_the_server)


class Selection:
    """Everything, until something is chosen: by name, by a predicate, or by a mark.

    ConfigurationError for terms that cannot be, and for a tool that is marked twice.
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
        """Choose a function that the server offers under this name, or its own."""

        def choose(function: _F) -> _F:
            _offer(self._marked, name or function.__name__, terms)
            return function

        return choose

    def terms(self, name: str) -> Tool | None:
        """On what terms calls of a tool become tasks; None if they never do."""
        if name in self._marked:
            chosen = self._marked[name]
        elif self._which is None and self._marked:
            return None
        elif self._which is None or self._which(name):
            chosen = self._unmarked
        else:
            return None
        return None if chosen.support == "forbidden" else chosen
