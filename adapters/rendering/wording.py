"""Words for people, in a terminal or a log; without a library that draws."""

__all__ = ["counted", "printable"]


def printable(text: str) -> str:
    """The same text, with everything spelled out that does more than to be seen."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def counted(count: int, noun: str) -> str:
    """As in `1 task` and `2 tasks`."""
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
