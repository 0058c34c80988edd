"""The version of a task as an HTTP entity tag, and the tags that a caller has already."""

import re
from collections.abc import Sequence
from typing import Final

from taskmachine.statemachine import Task

__all__ = ["decode_if_none_match", "encode_tag", "is_known"]

_TAG: Final = r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")'
_TAGS: Final = re.compile(rf"[ \t,]*(?:{_TAG}[ \t]*(?:,[ \t,]*|$))+")
_ANY: Final = "*"


def encode_tag(task: Task) -> str:
    """The value of `ETag`."""
    return f'"{task.version}"'


def decode_if_none_match(values: Sequence[str]) -> frozenset[str]:
    """The tags in all `If-None-Match` headers of a request, none if there is no such header.

    Weak ones count like strong ones, as HTTP wants it for this header.  ValueError if it is
    neither `*` nor a list of tags: a tag without quotes would never match, and a caller that
    polls with one would be answered at once, again and again.
    """
    if not values:
        return frozenset()
    joined = ", ".join(values).strip(" \t")
    if joined == _ANY:
        return frozenset({_ANY})
    if not _TAGS.fullmatch(joined):
        raise ValueError(f"no list of entity tags: {joined!r:.80}")
    return frozenset(re.findall(_TAG, joined))


def is_known(task: Task, tags: frozenset[str]) -> bool:
    """Whether a caller with these tags has this version."""
    return _ANY in tags or encode_tag(task) in tags
