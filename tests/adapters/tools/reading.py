"""Shortcuts to the signatures of functions with one annotation."""

from collections.abc import Callable
from typing import Any

import pytest

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.functions import signature_of
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.tools.signatures import Signature
from taskmachine.adapters.tools.sync_context import SyncContext
from taskmachine.statemachine import ConfigurationError

__all__ = ["read", "refusal", "returning", "signature", "taking", "wrong"]


def signature(function: Callable[..., Any]) -> Signature:
    return signature_of(function, (Context, SyncContext))


def taking(hint: Any) -> Callable[..., Any]:
    """Return a function that takes `x`."""

    def tool(x: Any) -> None: ...

    tool.__annotations__["x"] = hint
    return tool


def returning(hint: Any) -> Callable[..., Any]:
    def tool() -> Any: ...

    tool.__annotations__["return"] = hint
    return tool


def read(hint: Any, value: Any) -> Any:
    return signature(taking(hint)).read({"x": value})["x"]


def wrong(call: Callable[[Any], Any], value: Any) -> str:
    """Return the message of the ValueError."""
    with pytest.raises(ValueError, match=r"\w") as caught:
        call(value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refusal(function: Any, name: str | None = None, **options: Any) -> str:
    """Return why a function cannot be a tool, in one line."""
    with pytest.raises(ConfigurationError) as caught:
        Tools().add(function, name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)
