"""JSON Schemas of tools, as far as people read and type them.

They come from a server, so references, branches and depth are bounded.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, Self

import attrs

from taskmachine.protocol.jsonrpc import json_type
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["TYPES", "Schema"]

TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})

MAX_DEPTH: Final = 3
MAX_BRANCHES: Final = 20
MAX_REFERENCES: Final = 8

_LIMITS: Final = (
    ("", "minimum", "maximum"),
    ("length ", "minLength", "maxLength"),
    ("length ", "minItems", "maxItems"),
)


@attrs.frozen
class Schema:
    """A schema, or a part of one."""

    node: JSONObject
    root: JSONObject = attrs.field(repr=False)

    @classmethod
    def of(cls, document: Any) -> Self:
        """Return a whole schema; anything but an object allows every value."""
        root = document if isinstance(document, dict) else {}
        return cls(root, root)._at(root)

    def _at(self, node: Any) -> Self:
        """Return a part, with local references followed."""
        for _ in range(MAX_REFERENCES):
            reference = node.get("$ref") if isinstance(node, dict) else None
            if not isinstance(reference, str) or not reference.startswith("#"):
                break
            found: Any = self.root
            for key in reference.removeprefix("#").split("/")[1:]:
                found = found.get(key) if isinstance(found, dict) else None
            node = {**found, **node, "$ref": found.get("$ref")} if isinstance(found, dict) else {}
        return attrs.evolve(self, node=node if isinstance(node, dict) else {})

    @property
    def members(self) -> dict[str, "Schema"]:
        """The named members of an object."""
        named = self.node.get("properties")
        return {name: self._at(node) for name, node in _mapping(named).items()}

    @property
    def required(self) -> list[str]:
        """The names of the members that must be given, in the order of the members."""
        named = self.node.get("required")
        names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
        members = list(self.members)
        return sorted(names, key=lambda name: members.index(name) if name in members else 0)

    @property
    def takes_others(self) -> bool:
        """Whether the schema says that members without a name are meant."""
        more = self.node.get("additionalProperties")
        return more not in (None, False) or bool(self.node.get("patternProperties"))

    @property
    def description(self) -> str:
        """The description and the limits of a value."""
        said = self.node.get("description")
        parts = [" ".join(said.split()).rstrip(".")] if isinstance(said, str) and said else []
        for what, least, most in _LIMITS:
            low, high = self.node.get(least), self.node.get(most)
            if low is not None and high is not None:
                parts.append(f"{what}{low} to {high}")
            elif low is not None:
                parts.append(f"{what}at least {low}")
            elif high is not None:
                parts.append(f"{what}at most {high}")
        if self.node.get("default") is not None:
            parts.append(f"default {json.dumps(self.node['default'], ensure_ascii=False)}")
        return "; ".join(parts)

    def types(self, depth: int = 0) -> frozenset[str]:
        """Return the JSON types of the values that are allowed."""
        if "const" in self.node:
            return frozenset({json_type(self.node["const"])})
        if isinstance(values := self.node.get("enum"), list):
            return frozenset(map(json_type, values[:MAX_BRANCHES]))
        named = self.node.get("type")
        if isinstance(named, str):
            return frozenset({named}) & TYPES or TYPES
        if isinstance(named, list):
            return frozenset(name for name in named if isinstance(name, str)) & TYPES or TYPES
        if branches := self._branches(depth):
            return frozenset(chain.from_iterable(part.types(depth + 1) for part in branches))
        return frozenset({"object"}) if "properties" in self.node else TYPES

    def kind(self, depth: int = 0) -> str:
        """Return a few words for the values that are allowed."""
        if "const" in self.node:
            return _json(self.node["const"])
        if isinstance(values := self.node.get("enum"), list):
            more = [] if len(values) <= MAX_BRANCHES else ["..."]
            return " | ".join([*map(_json, values[:MAX_BRANCHES]), *more])
        if branches := self._branches(depth):
            return " | ".join(dict.fromkeys(part.kind(depth + 1) for part in branches))
        types = self.types(depth)
        if types == {"array"} and "items" in self.node and depth < MAX_DEPTH:
            return f"array of {self._at(self.node['items']).kind(depth + 1)}"
        others = self.node.get("additionalProperties")
        if types == {"object"} and isinstance(others, dict) and depth < MAX_DEPTH:
            return f"object of {self._at(others).kind(depth + 1)}"
        return "any" if types == TYPES else " | ".join(sorted(types, key=_null_last))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, str, "Schema", bool]]:
        """Yield depth, name, schema and necessity of each member, and of the members in it."""
        required = self.required
        for name, member in self.members.items():
            yield depth, name, member, name in required
            if depth < MAX_DEPTH:
                inner = [member, member._at(member.node.get("items")), *member._branches(depth)]
                for part in inner:
                    yield from part.walk(depth + 1)

    def _branches(self, depth: int) -> list["Schema"]:
        listed = self.node.get("anyOf") or self.node.get("oneOf")
        if not isinstance(listed, list) or depth >= MAX_DEPTH:
            return []
        return [self._at(node) for node in listed[:MAX_BRANCHES]]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _null_last(name: str) -> tuple[bool, str]:
    return name == "null", name
