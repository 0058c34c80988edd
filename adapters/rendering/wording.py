"""Text for terminals and logs, without dependencies."""

__all__ = ["counted", "printable"]


def printable(text: str) -> str:
    """Escape all characters that are not printable."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, as in `1 task` and `2 tasks`."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
