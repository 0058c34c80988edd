"""The command under a sampling profiler: `python -m tests.benchmarks.server_profiled FILE serve`.

SIGUSR1 starts the sampling, so that it excludes the start of the server; SIGUSR2 ends it and
writes the file.  Samples are taken by processor time, so they exclude other processes and do not
overstate small functions.
"""

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from taskmachine.adapters.cli.main import main

EVERY_S: Final = 0.001
"""Sampling interval; many kernels use a longer one."""

samples: Final[Counter[CodeType]] = Counter()


def sample(_: int, frame: FrameType | None) -> None:
    if frame is not None:
        samples[frame.f_code] += 1


def write(file: Path) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    found = [(code.co_filename, code.co_qualname, count) for code, count in samples.items()]
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(found))
    os.replace(unfinished, file)  # atomic: the reader waits for the file to exist


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, sample)
    signal.signal(signal.SIGUSR1, lambda *_: signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S))
    signal.signal(signal.SIGUSR2, lambda *_: write(Path(sys.argv[1])))
    sys.exit(main(sys.argv[2:]))
