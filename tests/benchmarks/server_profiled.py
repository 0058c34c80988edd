"""Our command under a profiler: `python -m tests.benchmarks.server_profiled FILE serve ...`.

SIGUSR1 begins, so that the start of the server is not in it; SIGUSR2 ends, and writes the file.
"""

import cProfile
import os
import signal
import sys
from pathlib import Path

from taskmachine.adapters.cli import main

if __name__ == "__main__":
    profile = cProfile.Profile()
    file = Path(sys.argv[1])

    def end(*_: object) -> None:
        profile.disable()
        unfinished = file.with_suffix(".unfinished")
        profile.dump_stats(unfinished)
        os.replace(unfinished, file)  # whoever waits for it finds it whole

    signal.signal(signal.SIGUSR1, lambda *_: profile.enable())
    signal.signal(signal.SIGUSR2, end)
    sys.exit(main(sys.argv[2:]))
