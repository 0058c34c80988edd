"""Sampling: what a target may ask of a model, and what it does with wrong answers."""

from collections.abc import Iterator, Mapping
from typing import Any

from taskmachine.adapters.conformance.checks.reading.answers import (
    is_sampling_result,
    refused_or_taken,
)
from taskmachine.adapters.conformance.checks.reading.asked import Asked, all_asked, all_told
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

SAMPLES = "a tool that asks for sampling"
WITH_TOOLS = "a tool that asks for sampling with tools"


def _samplings(history: History) -> Iterator[tuple[Asked, Mapping[str, Any]]]:
    """The questions, with what the client can do of sampling, where that is known."""
    for asked in all_asked(history):
        if asked.method == "sampling/createMessage" and asked.declared is not None:
            can = asked.declared.get("sampling")
            yield asked, can if isinstance(can, dict) else {}


@check(
    "2025-11-25:sampling-tools-only-if-declared",
    "2026-07-28:sampling-tools-only-if-declared",
    needs=SAMPLES,
)
def tools_only_if_declared(history: History) -> Iterator[Observation]:
    """No tools for a model of a client that did not offer it."""
    for asked, can in _samplings(history):
        used = [name for name in ("tools", "toolChoice") if name in asked.params]
        if used and "tools" not in can:
            yield bad(f"sampling has `{used[0]}`, which the client did not declare", asked.where)
        else:
            yield good(asked.where)


@check("2025-11-25:sampling-context-avoided", needs=SAMPLES)
def context_avoided(history: History) -> Iterator[Observation]:
    """No context of servers for a client that did not offer it."""
    for asked, can in _samplings(history):
        wanted = asked.params.get("includeContext", "none")
        if wanted != "none" and "context" not in can:
            yield bad(f"sampling wants the context {wanted!r}, which is not declared", asked.where)
        else:
            yield good(asked.where)


@check("2025-11-25:sampling-tool-results-alone", needs=WITH_TOOLS)
def tool_results_alone(history: History) -> Iterator[Observation]:
    """A message with results of tools has nothing else."""
    for asked, _ in _samplings(history):
        for message in _messages(asked):
            are_results = [block.get("type") == "tool_result" for block in _blocks(message)]
            if not any(are_results) or message.get("role") != "user":
                continue
            if all(are_results):
                yield good(asked.where)
            else:
                yield bad("a message mixes results of tools with something else", asked.where)


@check("2025-11-25:sampling-tool-uses-answered", needs=WITH_TOOLS)
def tool_uses_answered(history: History) -> Iterator[Observation]:
    """After each use of tools come their results, in the next message."""
    for asked, _ in _samplings(history):
        messages = _messages(asked)
        for message, following in zip(messages, [*messages, {}][1:], strict=True):
            used = {repr(b.get("id")) for b in _blocks(message) if b.get("type") == "tool_use"}
            if not used or message.get("role") != "assistant":
                continue
            results = [b for b in _blocks(following) if b.get("type") == "tool_result"]
            answered = {repr(block.get("toolUseId")) for block in results}
            if used <= answered and len(results) == len(_blocks(following)):
                yield good(asked.where)
            else:
                yield bad("a use of a tool is not followed by its result", asked.where)


@check("2025-11-25:sampling-content-validated", needs=f"{SAMPLES} and shows what it was told")
def content_validated(history: History) -> Iterator[Observation]:
    """An answer that is no message is not taken for one."""
    for told in all_told(history):
        if told.asked.method != "sampling/createMessage" or "result" not in told.sent.body:
            continue
        if not is_sampling_result(told.answer):
            words = "a malformed answer to sampling was taken"
            yield from refused_or_taken(history, told, words)


def _messages(asked: Asked) -> list[Mapping[str, Any]]:
    messages = asked.params.get("messages")
    return [m for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    return [block for block in blocks if isinstance(block, dict)]
