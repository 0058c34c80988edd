"""The seed of everything that is random in the tests, unless Hypothesis chooses."""

import os
from typing import Final

__all__ = ["SEED"]

# Taken out: to our own servers, which inherit the environment, it would be an unknown setting.
SEED: Final = int(os.environ.pop("TASKMACHINE_SEED", "20261116"))
