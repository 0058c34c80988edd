"""The public interface: the names that most programs import, each loaded on first use.

More names are in the namespaces, which are the folders beside this module, and in the packages
`taskmachine.protocol` and `taskmachine.statemachine`.
"""

from typing import TYPE_CHECKING

__all__ = [
    "DUTIES",
    "TABLE",
    "Audio",
    "Call",
    "CallError",
    "ConfigurationError",
    "Context",
    "Create",
    "Event",
    "File",
    "IllegalTransition",
    "Image",
    "LimitExceeded",
    "Limits",
    "NotFound",
    "Outcome",
    "ResourceLink",
    "Runtime",
    "RuntimeConfig",
    "State",
    "SyncContext",
    "Task",
    "TaskmachineError",
    "Times",
    "ToolError",
    "Tools",
    "__version__",
    "check",
    "choose",
    "confirm",
    "connect",
    "form",
    "lifecycle",
    "open_runtime",
    "sampling",
    "serve",
    "start_runtime",
    "url",
]

if TYPE_CHECKING:
    from taskmachine.adapters.cli.program import Tools
    from taskmachine.adapters.client.connect import connect
    from taskmachine.adapters.conformance.checking import check
    from taskmachine.adapters.runtime.limits import Limits
    from taskmachine.adapters.runtime.runtime import (
        Runtime,
        RuntimeConfig,
        open_runtime,
        start_runtime,
    )
    from taskmachine.adapters.server.serving import serve
    from taskmachine.adapters.tools.content import Audio, File, Image, ResourceLink
    from taskmachine.adapters.tools.context import Context
    from taskmachine.adapters.tools.questions import choose, confirm, form, url
    from taskmachine.adapters.tools.registry import CallError, ToolError
    from taskmachine.adapters.tools.sampling import sampling
    from taskmachine.adapters.tools.sync_context import SyncContext
    from taskmachine.protocol.operations import Create
    from taskmachine.statemachine import (
        DUTIES,
        TABLE,
        Call,
        ConfigurationError,
        Event,
        IllegalTransition,
        LimitExceeded,
        NotFound,
        Outcome,
        State,
        Task,
        TaskmachineError,
        Times,
        lifecycle,
    )

    __version__: str
else:
    _HOMES = {
        "adapters.cli.program": "Tools",
        "adapters.client.connect": "connect",
        "adapters.conformance.checking": "check",
        "adapters.runtime.limits": "Limits",
        "adapters.runtime.runtime": "Runtime RuntimeConfig open_runtime start_runtime",
        "adapters.server.serving": "serve",
        "adapters.tools.content": "Audio File Image ResourceLink",
        "adapters.tools.context": "Context",
        "adapters.tools.questions": "choose confirm form url",
        "adapters.tools.sync_context": "SyncContext",
        "adapters.tools.sampling": "sampling",
        "adapters.tools.registry": "CallError ToolError",
        "protocol.operations": "Create",
        "statemachine": "DUTIES TABLE Call ConfigurationError Event IllegalTransition LimitExceeded"
        " NotFound Outcome State Task TaskmachineError Times lifecycle",
    }
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

    def __getattr__(name):
        if name == "__version__":
            from importlib.metadata import version

            value = version("taskmachine")
        elif name in _HOME_OF:
            # Like `from home import name`, which also finds a submodule of home.
            value = getattr(__import__(f"taskmachine.{_HOME_OF[name]}", fromlist=[name]), name)
        else:
            raise AttributeError(f"module 'taskmachine' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
