"""Read and write profiles as TOML."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from taskmachine.adapters.conformance.errors import CannotCheck
from taskmachine.adapters.conformance.profile import Profile, Role, ToolCall
from taskmachine.adapters.conformance.report import Run

__all__ = ["dump", "load", "read_call"]


def load(path: Path) -> Profile:
    """Read a profile: one table per role, with `tool` and `arguments`."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CannotCheck(f"cannot read the profile {path}: {error}") from None
    return Profile({_role(path, name): _call(path, name, table) for name, table in tables.items()})


def _role(path: Path, name: str) -> Role:
    try:
        return Role(name)
    except ValueError:
        roles = ", ".join(Role)
        raise CannotCheck(f"{path}: unknown role {name!r}; the roles are {roles}") from None


def _call(path: Path, name: str, table: Any) -> ToolCall:
    match table:
        case {"tool": str(tool), **rest}:
            arguments, takes_ms = rest.get("arguments", {}), rest.get("takes_ms")
            if isinstance(arguments, dict) and isinstance(takes_ms, int | None):
                return ToolCall(tool, arguments, takes_ms)
    raise CannotCheck(
        f"{path}: [{name}] needs a string `tool` and, optionally, a table `arguments`"
    )


def read_call(text: str) -> ToolCall:
    """Parse `NAME='{"json": "arguments"}'`, or a name alone."""
    name, separator, arguments = text.partition("=")
    try:
        given = json.loads(arguments) if separator else {}
    except ValueError as error:
        raise CannotCheck(f"--tool {name}: the arguments are not JSON: {error}") from None
    if not name or not isinstance(given, dict):
        raise CannotCheck(f"--tool {text!r} must have the form NAME='{{...}}'")
    return ToolCall(name, given)


def dump(runs: Sequence[Run]) -> str:
    """Return the discovered calls of all runs as a profile."""
    found: dict[Role, ToolCall] = {}
    for run in runs:
        found = {**run.profile.calls, **found}
    return "\n".join(_table(role, found[role]) for role in Role if role in found)


def _table(role: Role, call: ToolCall) -> str:
    lines = [f"[{role}]", f"tool = {json.dumps(call.name, ensure_ascii=False)}"]
    if call.takes_ms is not None:
        lines.append(f"takes_ms = {call.takes_ms}")
    lines.append(f"arguments = {_inline(call.arguments)}")
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    """Return a value as inline TOML; null values are left out, since TOML has none."""
    if isinstance(value, dict):
        parts = (f"{json.dumps(k)} = {_inline(v)}" for k, v in value.items() if v is not None)
        return "{ " + ", ".join(parts) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value if item is not None) + "]"
    return json.dumps(value, ensure_ascii=False)
