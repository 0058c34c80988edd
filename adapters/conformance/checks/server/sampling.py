"""Checks of sampling requests, and of responses to them."""

from collections.abc import Iterator, Mapping
from typing import Any

from taskmachine.adapters.conformance.checks.reading.input_requests import (
    InputRequest,
    all_input_requests,
    all_input_responses,
)
from taskmachine.adapters.conformance.checks.reading.invalid_responses import (
    is_sampling_result,
    rejected_or_used,
)
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

SAMPLES = "a tool that requests sampling"
WITH_TOOLS = "a tool that requests sampling with tools"


def _samplings(history: History) -> Iterator[tuple[InputRequest, Mapping[str, Any]]]:
    """Yield sampling requests with the client's sampling capability, where it is known."""
    for request in all_input_requests(history):
        if request.method == "sampling/createMessage" and request.declared is not None:
            capability = request.declared.get("sampling")
            yield request, capability if isinstance(capability, dict) else {}


@check(
    "2025-11-25:sampling-tools-only-if-declared",
    "2026-07-28:sampling-tools-only-if-declared",
    needs=SAMPLES,
)
def tools_only_if_declared(history: History) -> Iterator[Observation]:
    """Check that tools are only sent to a client that declared `sampling.tools`."""
    for request, capability in _samplings(history):
        used = [name for name in ("tools", "toolChoice") if name in request.params]
        if used and "tools" not in capability:
            words = f"`{used[0]}` requires 'sampling.tools', which the client did not declare"
            yield bad(words, request.where)
        else:
            yield good(request.where)


@check("2025-11-25:sampling-context-avoided", needs=SAMPLES)
def context_avoided(history: History) -> Iterator[Observation]:
    """Check that server context is only requested if the client declared `sampling.context`."""
    for request, capability in _samplings(history):
        wanted = request.params.get("includeContext", "none")
        if wanted != "none" and "context" not in capability:
            words = f"`includeContext` {wanted!r} requires 'sampling.context', which is undeclared"
            yield bad(words, request.where)
        else:
            yield good(request.where)


@check("2025-11-25:sampling-tool-results-alone", needs=WITH_TOOLS)
def tool_results_alone(history: History) -> Iterator[Observation]:
    """Check that a message with tool results has no other content."""
    for request, _ in _samplings(history):
        for message in _messages(request):
            are_results = [block.get("type") == "tool_result" for block in _blocks(message)]
            if not any(are_results) or message.get("role") != "user":
                continue
            if all(are_results):
                yield good(request.where)
            else:
                yield bad("a sampling message mixes tool results with other content", request.where)


@check("2025-11-25:sampling-tool-uses-answered", needs=WITH_TOOLS)
def tool_uses_answered(history: History) -> Iterator[Observation]:
    """Check that each tool use is followed by its results in the next message."""
    for request, _ in _samplings(history):
        messages = _messages(request)
        for message, following in zip(messages, [*messages, {}][1:], strict=True):
            used = {repr(b.get("id")) for b in _blocks(message) if b.get("type") == "tool_use"}
            if not used or message.get("role") != "assistant":
                continue
            results = [b for b in _blocks(following) if b.get("type") == "tool_result"]
            answered = {repr(block.get("toolUseId")) for block in results}
            if used <= answered and len(results) == len(_blocks(following)):
                yield good(request.where)
            else:
                words = "a tool use is not followed by its result in the next message"
                yield bad(words, request.where)


@check("2025-11-25:sampling-content-validated", needs=f"{SAMPLES} and returns the model's response")
def content_validated(history: History) -> Iterator[Observation]:
    """Check that an invalid sampling result is not accepted."""
    for reply in all_input_responses(history):
        if reply.request.method != "sampling/createMessage" or "result" not in reply.sent.body:
            continue
        if not is_sampling_result(reply.answer):
            words = "the target accepted an invalid sampling result"
            yield from rejected_or_used(history, reply, words)


def _messages(request: InputRequest) -> list[Mapping[str, Any]]:
    messages = request.params.get("messages")
    return [m for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    return [block for block in blocks if isinstance(block, dict)]
