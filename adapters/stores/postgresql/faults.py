"""Errors of PostgreSQL as store errors, worded for operators."""

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
    (PoolTimeout, "cannot be reached, or all connections are busy"),
    (TimeoutError, "does not answer"),
    (errors.QueryCanceled, "took too long and was stopped"),
    (errors.LockNotAvailable, "is locked by another program"),
    (errors.DiskFull, "cannot grow: the disk is full"),
    (errors.ReadOnlySqlTransaction, "is read-only: use the primary server"),
    (errors.InsufficientPrivilege, "denies this user the necessary privilege"),
    (errors.TooManyConnections, "accepts no more connections"),
    ((errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow), "is being restarted"),
    (errors.ProgramLimitExceeded, "cannot store a record of this size"),
)

# A failed connection has no error code, only the server's message, possibly localized.
_REFUSALS: Final = (
    ("password", "refuses the password of this user"),
    ("no pg_hba.conf entry", "does not allow this user to connect from this host"),
    ("role ", "has no such user"),
    ("database ", "does not exist or refuses connections"),
)


def explain(place: str, error: Exception) -> StoreError:
    """Return an error as `StoreError`."""
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return StoreError(f"{place} {reason}")
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return StoreError(f"{place} cannot be reached: {_sentence(error)}")
    return StoreError(f"{place} refused: {_sentence(error)}")


def refusal(place: str, error: psycopg.OperationalError) -> TaskmachineError:
    """Return a failed connection as a configuration error, or as a temporary store error."""
    text = _sentence(error)
    fatal = text.partition("FATAL:")[2].strip()
    if "no password supplied" in text:
        return ConfigurationError(f"{place} requires a password: add it to the URL")
    for begins, reason in _REFUSALS:
        if fatal.startswith(begins):
            return ConfigurationError(f"{place} {reason}: {fatal}")
    return StoreError(f"{place} cannot be reached: {text}")


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise errors of psycopg in this block as `StoreError`.

    It raises OverflowError and UnicodeError for values that PostgreSQL does not support.
    """
    try:
        yield
    except (psycopg.Error, OverflowError, UnicodeError, TimeoutError) as error:
        raise explain(place, error) from error


def _sentence(error: Exception) -> str:
    """Return the last line of a message that is not a hint, detail or position."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("LINE ", "^", "HINT:", "DETAIL:"))]
    return " ".join((lines[-1] if lines else type(error).__name__).split())
