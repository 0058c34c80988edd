"""Our command, sampled: `python -m tests.benchmarks.server_profiled FILE serve ...`.

SIGUSR1 begins, so that the start of the server is not in it; SIGUSR2 ends, and writes the file.
Samples are taken by time of the processor, so others who use it are not in them, and small
functions look no dearer than they are.
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
"""At most; many kernels look less often."""

samples: Final[Counter[CodeType]] = Counter()


def sample(_: int, frame: FrameType | None) -> None:
    if frame is not None:
        samples[frame.f_code] += 1


def write(file: Path) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    found = [(code.co_filename, code.co_qualname, count) for code, count in samples.items()]
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(found))
    os.replace(unfinished, file)  # whoever waits for it finds it whole


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, sample)
    signal.signal(signal.SIGUSR1, lambda *_: signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S))
    signal.signal(signal.SIGUSR2, lambda *_: write(Path(sys.argv[1])))
    sys.exit(main(sys.argv[2:]))
