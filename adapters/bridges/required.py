"""Report a missing or outdated package together with the pip command that installs it."""

import re
from importlib.metadata import PackageNotFoundError, version

__all__ = ["require"]

_NUMBERS = re.compile(r"\d+")


def require(package: str, extra: str, at_least: str, below: str | None = None) -> None:
    """Raise ImportError unless a suitable release of the package is installed."""
    wanted = f"{package} {at_least} or later" + ("" if below is None else f", but below {below}")
    try:
        found = version(package)
    except PackageNotFoundError:
        raise ImportError(_sentence(extra, wanted, "which is not installed")) from None
    if _release(found) < _release(at_least) or (
        below is not None and _release(found) >= _release(below)
    ):
        raise ImportError(_sentence(extra, wanted, f"and found {found}"))


def _sentence(extra: str, wanted: str, but: str) -> str:
    return f"this module needs {wanted}, {but}: pip install 'taskmachine[{extra}]'"


def _release(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _NUMBERS.findall(number)[:2])
