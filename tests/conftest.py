"""Hypothesis profiles: `dev` while working, `ci` in full runs, `thorough` over night,
`mutation` for each of many mutants.

Choose with HYPOTHESIS_PROFILE.  A failure prints the blob or the seed that repeats it.
"""

import os
import signal

from hypothesis import HealthCheck, Phase, settings

_common = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", _common, max_examples=50, stateful_step_count=30)
settings.register_profile(
    "mutation",
    _common,
    max_examples=10,
    stateful_step_count=20,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # a mutant that is noticed needs no small example
)
settings.register_profile("ci", _common, max_examples=100, stateful_step_count=50)
settings.register_profile("thorough", _common, max_examples=5000, stateful_step_count=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

pytest_plugins = ["tests.lanes"]

# Shells start background jobs with SIGINT ignored, and the processes of tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
