"""The error that prevents a check from starting."""

__all__ = ["CannotCheck"]


class CannotCheck(Exception):
    """The target, an option or a file makes the check impossible; the message names it."""
