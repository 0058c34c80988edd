"""Task versions as HTTP entity tags, for `ETag` and `If-None-Match`."""

import re
from collections.abc import Sequence
from typing import Final

from taskmachine.statemachine import Task

__all__ = ["decode_if_none_match", "encode_tag", "is_known"]

_TAG: Final = r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")'
_TAGS: Final = re.compile(rf"[ \t,]*(?:{_TAG}[ \t]*(?:,[ \t,]*|$))+")
_ANY: Final = "*"


def encode_tag(task: Task) -> str:
    """Return the value of `ETag`."""
    return f'"{task.version}"'


def decode_if_none_match(values: Sequence[str]) -> frozenset[str]:
    """Return the tags in all `If-None-Match` headers of a request.

    Weak tags count like strong ones, as RFC 9110 demands.  ValueError if it is neither `*` nor a
    list of tags: a tag without quotes would never match, and polling with it would never wait.
    """
    if not values:
        return frozenset()
    joined = ", ".join(values).strip(" \t")
    if joined == _ANY:
        return frozenset({_ANY})
    if not _TAGS.fullmatch(joined):
        raise ValueError(f"not a list of entity tags: {joined!r:.80}")
    return frozenset(re.findall(_TAG, joined))


def is_known(task: Task, tags: frozenset[str]) -> bool:
    """Return whether a caller with these tags has this version."""
    return _ANY in tags or encode_tag(task) in tags
