"""The seed of all randomness in the tests, except that of Hypothesis."""

import os
from typing import Final

__all__ = ["SEED"]

# Removed, since the servers inherit the environment and would refuse an unknown setting.
SEED: Final = int(os.environ.pop("TASKMACHINE_SEED", "20261116"))
