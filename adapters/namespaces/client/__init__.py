"""The client: sessions, tasks, exceptions, and the questions of a server."""

from taskmachine.adapters.client.answering import Answer
from taskmachine.adapters.client.connection import Connection, Listener, Transport
from taskmachine.adapters.client.errors import (
    BadAnswer,
    CallFailed,
    Cancelled,
    ConnectionLost,
    Declined,
    NoAnswer,
    Refused,
    SessionLost,
)
from taskmachine.adapters.client.forms import Field, fields_of
from taskmachine.adapters.client.receiving import Receiver
from taskmachine.adapters.client.remote_task import Question, RemoteTask, Update
from taskmachine.adapters.client.session import Session
from taskmachine.adapters.rendering.wording import printable

__all__ = [
    "Answer",
    "BadAnswer",
    "CallFailed",
    "Cancelled",
    "Connection",
    "ConnectionLost",
    "Declined",
    "Field",
    "Listener",
    "NoAnswer",
    "Question",
    "Receiver",
    "Refused",
    "RemoteTask",
    "Session",
    "SessionLost",
    "Transport",
    "Update",
    "fields_of",
    "printable",
]
