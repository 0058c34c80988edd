"""The error that ends a check before it begins."""

__all__ = ["CannotCheck"]


class CannotCheck(Exception):
    """The target, an option or a file makes the check impossible; the message says which."""
