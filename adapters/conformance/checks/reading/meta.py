"""Rules about keys of `_meta` that both revisions share.

Observers are not registered here: each revision registers them under its own ids.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.history import Entry, History
from taskmachine.adapters.conformance.judging import Observation, bad, good, note

__all__ = [
    "label_fault",
    "meta_keys",
    "meta_labels",
    "meta_names",
    "meta_prefixes",
    "meta_reserved",
    "meta_reversed",
    "name_fault",
    "prefix_fault",
]

_LABEL: Final = re.compile(r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?")
_TOP_LEVEL: Final = frozenset(
    {"com", "org", "net", "edu", "gov", "mil", "int", "info", "biz", "name", "dev", "app", "cloud"}
    | {"tech", "online", "site", "xyz", "page", "software", "systems", "tools", "network"}
)
_RESERVED: Final = frozenset({"modelcontextprotocol", "mcp"})
_MCP_KEYS: Final = frozenset(
    f"io.modelcontextprotocol/{name}"
    for name in (
        *("related-task", "model-immediate-response"),
        *("protocolVersion", "clientInfo", "clientCapabilities", "logLevel"),
        *("subscriptionId", "serverInfo"),
    )
)
_OPAQUE: Final = frozenset(  # content defined by tools or users
    {"structuredContent", "arguments", "input", "data", "metadata", "experimental", "_meta"}
    | {"inputSchema", "outputSchema", "requestedSchema"}
)


def meta_keys(message: Any, depth: int = 12) -> Iterator[str]:
    """Yield the keys of every `_meta` in a message, outside content defined by tools or users."""
    if depth and isinstance(message, list):
        for one in message:
            yield from meta_keys(one, depth - 1)
    elif depth and isinstance(message, dict):
        meta = message.get("_meta")
        yield from meta if isinstance(meta, dict) else ()
        for key, value in message.items():
            if key not in _OPAQUE:
                yield from meta_keys(value, depth - 1)


def prefix_fault(key: str) -> str | None:
    """Return what is wrong with the structure of a key's prefix; None without a prefix."""
    prefix, slash, _ = key.rpartition("/")
    if not slash:
        return None
    if "/" in prefix:
        return "has more than one slash"
    if not all(prefix.split(".")):
        return "has an empty label in its prefix"
    return None


def label_fault(key: str) -> str | None:
    """Return which label of the prefix is malformed."""
    prefix, slash, _ = key.rpartition("/")
    if not slash or prefix_fault(key) is not None:
        return None
    wrong = next((label for label in prefix.split(".") if not _LABEL.fullmatch(label)), None)
    return None if wrong is None else f"has the malformed label {wrong!r}"


def name_fault(key: str) -> str | None:
    """Return why the name of a key begins or ends with a character that is not allowed."""
    name = key.rpartition("/")[2]
    if not name or (_NAME.fullmatch(name[0]) and _NAME.fullmatch(name[-1])):
        return None
    return f"has the name {name!r}, which must begin and end with a letter or digit"


def _keys(history: History) -> Iterator[tuple[str, Entry]]:
    for entry in history.heard:
        for key in meta_keys(entry.message):
            yield key, entry


def _labels(key: str) -> list[str]:
    """Return the labels of a well-formed prefix; else an empty list."""
    prefix, slash, _ = key.rpartition("/")
    is_fine = slash and prefix_fault(key) is None and label_fault(key) is None
    return prefix.split(".") if is_fine else []


def meta_prefixes(history: History) -> Iterator[Observation]:
    """Check that each prefix is a series of labels separated by dots and followed by a slash."""
    for key, entry in _keys(history):
        if "/" in key:
            fault = prefix_fault(key)
            yield good(entry) if fault is None else bad(f"the `_meta` key {key!r} {fault}", entry)


def meta_labels(history: History) -> Iterator[Observation]:
    """Check that each label is well-formed."""
    for key, entry in _keys(history):
        if "/" in key and prefix_fault(key) is None:
            fault = label_fault(key)
            yield good(entry) if fault is None else bad(f"the `_meta` key {key!r} {fault}", entry)


def meta_names(history: History) -> Iterator[Observation]:
    """Check that names begin and end with a letter or digit; note other characters inside."""
    for key, entry in _keys(history):
        fault = name_fault(key)
        name = key.rpartition("/")[2]
        if fault is not None:
            yield bad(f"the `_meta` key {key!r} {fault}", entry)
        elif name and not _NAME.fullmatch(name):
            yield note(f"the `_meta` key {key!r} has unusual characters in its name", entry)
        else:
            yield good(entry)


def meta_reversed(history: History) -> Iterator[Observation]:
    """Check that prefixes are reverse domain names; ambiguous ones are not judged."""
    for key, entry in _keys(history):
        labels = _labels(key)
        if not labels:
            continue
        if len(labels) == 1:
            yield bad(f"the prefix of the `_meta` key {key!r} is not a reverse domain name", entry)
        elif _is_top_level(labels[0]):
            yield good(entry)
        elif _is_top_level(labels[-1]):
            words = f"the prefix of the `_meta` key {key!r} is a domain name that is not reversed"
            yield bad(words, entry)


def meta_reserved(history: History) -> Iterator[Observation]:
    """Check that the reserved prefixes of MCP contain only keys of MCP.

    Extensions may add keys under `io.modelcontextprotocol/` that this tester does not know.
    """
    for key, entry in _keys(history):
        labels = _labels(key)
        if len(labels) < 2 or labels[1] not in _RESERVED:
            continue
        if key in _MCP_KEYS:
            yield good(entry)
        elif labels == ["io", "modelcontextprotocol"]:
            yield note(f"the `_meta` key {key!r} is not part of the core specification", entry)
        else:
            yield bad(f"the `_meta` key {key!r} uses a prefix that is reserved for MCP", entry)


def _is_top_level(label: str) -> bool:
    return len(label) == 2 or label.lower() in _TOP_LEVEL
