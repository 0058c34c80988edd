"""Tasks as JSON documents, for programs."""

import json
from typing import Any

from taskmachine.adapters.rendering.recorded import read_record
from taskmachine.adapters.rendering.values import moment, read_value
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import Entry, Outcome, Question, Task

__all__ = ["as_json", "entry_document", "task_document"]


def as_json(document: Any) -> str:
    """Encode as ASCII, which is safe to print on a terminal."""
    return json.dumps(document, indent=2).replace("\x7f", "\\u007f") + "\n"


def task_document(task: Task) -> JSONObject:
    """Return a whole task."""
    progress, outcome = task.progress, task.outcome
    return {
        "taskId": task.id,
        "owner": task.owner,
        "state": task.state,
        "version": task.version,
        "method": task.call.method,
        "tool": task.call.name,
        "arguments": read_value(task.call.arguments),
        "createdAt": _iso(task.created_at),
        "lastUpdatedAt": _iso(task.updated_at),
        "ttlMs": task.ttl_ms,
        "worker": task.worker,
        "losses": task.losses,
        "failures": task.failures,
        "rerunOf": task.rerun_of,
        "toolVersion": task.tool_version,
        "lastError": task.error,
        "dueAt": None if task.due_at is None else _iso(task.due_at),
        "recordedCount": task.recorded,
        "statusMessage": task.message,
        "progress": None
        if progress is None
        else {"progress": progress.value, "total": progress.total, "message": progress.message},
        "questions": [_question_document(question) for question in task.questions],
        "metadata": read_value(task.metadata),
        "partial": read_value(task.partial),
        "outcome": None if outcome is None else _outcome_document(outcome),
    }


def entry_document(entry: Entry) -> JSONObject:
    """Return a history entry."""
    return {
        "version": entry.seq,
        "at": _iso(entry.at),
        "event": entry.event,
        "from": entry.source,
        "to": entry.dest,
        "note": entry.note,
        "recorded": None if entry.data is None else read_record(entry.data).document,
    }


def _question_document(question: Question) -> JSONObject:
    answer = question.answer
    return {
        "key": question.key,
        "method": question.method,
        "params": read_value(question.params),
        "isOpen": question.is_open,
        "answer": None
        if answer is None
        else {"isError": answer.is_error, "body": read_value(answer.body)},
    }


def _outcome_document(outcome: Outcome) -> JSONObject:
    return {
        "cause": outcome.cause,
        "result": read_value(outcome.result),
        "code": outcome.code,
        "message": outcome.message,
        "data": read_value(outcome.data),
    }


def _iso(milliseconds: int) -> str:
    return f"{moment(milliseconds):%Y-%m-%dT%H:%M:%S}.{milliseconds % 1_000:03}Z"
