"""What went wrong with a PostgreSQL server, in a sentence for whoever runs the program."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout, TooManyRequests

from taskmachine.adapters.stores import StoreError
from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = ["explain", "refusal", "translated"]

_REASONS: Final[tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...]] = (
    (TooManyRequests, "is too busy: too many operations wait for a connection"),
    (PoolTimeout, "cannot be reached, or is too busy to give us a connection"),
    (TimeoutError, "does not answer"),
    (errors.QueryCanceled, "took too long and was stopped"),
    (errors.LockNotAvailable, "is locked by another program"),
    (errors.DiskFull, "cannot grow: the disk is full"),
    (errors.ReadOnlySqlTransaction, "cannot be written to: it is a copy, or set to read only"),
    (errors.InsufficientPrivilege, "does not let this user do that"),
    (errors.TooManyConnections, "has no room for another connection"),
    ((errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow), "is being restarted"),
    (errors.ProgramLimitExceeded, "has no room for a record of this size"),
)

# When connecting fails there is no code, only what the server said, in English or not.
_REFUSALS: Final = (
    ("password", "refuses the password of this user"),
    ("no pg_hba.conf entry", "lets nobody in from here under this name"),
    ("role ", "does not know this user"),
    ("database ", "does not exist, or may not be connected to"),
)


def explain(place: str, error: Exception) -> StoreError:
    """The same, as an error of the store."""
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return StoreError(f"{place} {reason}")
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return StoreError(f"{place} cannot be reached: {_sentence(error)}")
    return StoreError(f"{place} refused: {_sentence(error)}")


def refusal(place: str, error: psycopg.OperationalError) -> TaskmachineError:
    """Why there is no connection: for somebody to set right, or something that may pass."""
    text = _sentence(error)
    fatal = text.partition("FATAL:")[2].strip()
    if "no password supplied" in text:
        return ConfigurationError(f"{place} wants a password: the URL has none")
    for begins, reason in _REFUSALS:
        if fatal.startswith(begins):
            return ConfigurationError(f"{place} {reason}: {fatal}")
    return StoreError(f"{place} cannot be reached: {text}")


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Nothing of psycopg leaves this block.

    OverflowError and UnicodeError are what it raises for values that PostgreSQL does not have.
    """
    try:
        yield
    except (psycopg.Error, OverflowError, UnicodeError, TimeoutError) as error:
        raise explain(place, error) from error


def _sentence(error: Exception) -> str:
    """The last line says it, if there are several, but hints and positions."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("LINE ", "^", "HINT:", "DETAIL:"))]
    return " ".join((lines[-1] if lines else type(error).__name__).split())
