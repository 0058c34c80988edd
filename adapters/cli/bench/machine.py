"""Describe the machine of the benchmark."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from taskmachine.adapters.cli.bench.processes import cores

__all__ = ["described"]

PACKAGES: Final = ("taskmachine", "uvicorn", "uvloop", "httptools", "starlette", "msgspec")


def described() -> dict[str, str]:
    """Return the processor, cores, kernel, Python and packages by name."""
    return {
        "processor": _processor(),
        "cores": str(len(cores())),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
