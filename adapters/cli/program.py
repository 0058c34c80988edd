"""A program that serves its own tools: `tools.run()` at the end of a file."""

import os
import sys
from types import TracebackType

from taskmachine.adapters.cli.failing import print_error
from taskmachine.adapters.tools import registry
from taskmachine.adapters.tools.import_errors import describe
from taskmachine.adapters.tools.lifespan import LifespanFunction
from taskmachine.statemachine import ConfigurationError

__all__ = ["Tools"]


class Tools(registry.Tools):
    """The tools of a server, by name."""

    def __init__(self, *, lifespan: LifespanFunction | None = None) -> None:
        super().__init__(lifespan=lifespan)
        if sys.excepthook is sys.__excepthook__:
            sys.excepthook = _one_line

    def run(self) -> None:
        """Serve these tools until SIGINT or SIGTERM, as the arguments of the program say.

        The arguments are those of `taskmachine serve`; without any it serves standard input and
        output.  An error is one line, and the program exits with its status.
        """
        if _is_importing():
            raise ConfigurationError(
                'tools.run() would start a second server: put it below `if __name__ == "__main__":`'
            )
        # Here, as most programs only register tools.
        from taskmachine.adapters.cli.main import run_command
        from taskmachine.adapters.cli.parser import Parser, read_options
        from taskmachine.adapters.cli.serve import add_options, serve_tools

        parser = Parser(description="Serve the tools of this program over stdio (default) or HTTP.")
        parser.add_argument("--debug", action="store_true", help="show a traceback on errors")
        add_options(parser)
        parser.set_defaults(run=lambda options: serve_tools(options, self))
        status = run_command(read_options(parser, sys.argv[1:]), parser.prog)
        if status:
            sys.exit(status)


def _is_importing() -> bool:
    """Return whether an import of a module is below in the call stack of this thread."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
    return False


def _one_line(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Report a tool that cannot be registered like other wrong usage, except in a console."""
    has_traceback = "--debug" in sys.argv or hasattr(sys, "ps1")
    if has_traceback or not isinstance(error, ConfigurationError):
        sys.__excepthook__(kind, error, at)
        return
    program = os.path.basename(sys.argv[0])
    print_error(describe(error, program), program)
    sys.exit(2)
