"""The conformance tests of `taskmachine check`, for programs.  See docs/howto/check.md."""

from taskmachine.adapters.bridges.required import require

require("hypothesis", "check", "6.150")

from taskmachine.adapters.conformance.checking import check, check_client  # noqa: E402
from taskmachine.adapters.conformance.errors import CannotCheck  # noqa: E402
from taskmachine.adapters.conformance.report import Report  # noqa: E402
from taskmachine.adapters.conformance.run import Options  # noqa: E402
from taskmachine.adapters.conformance.target import Target  # noqa: E402

__all__ = ["CannotCheck", "Options", "Report", "Target", "check", "check_client"]
