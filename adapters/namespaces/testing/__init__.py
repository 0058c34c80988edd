"""Test kits for authors of stores and engines, and an event loop with a virtual clock."""

from taskmachine.adapters.bridges.required import require

require("pytest", "testing", "9.0")
require("hypothesis", "testing", "6.150")

from taskmachine.adapters.runtime.testing.contract import (  # noqa: E402
    EngineContract,
    NewRuntimePlace,
    RuntimePlace,
)
from taskmachine.adapters.runtime.testing.virtual_loop import (  # noqa: E402
    Process,
    Stuck,
    VirtualLoop,
)
from taskmachine.adapters.stores.testing.contract import (  # noqa: E402
    NewPlace,
    PersistentStoreContract,
    Place,
    StoreContract,
)

__all__ = [
    "EngineContract",
    "NewPlace",
    "NewRuntimePlace",
    "PersistentStoreContract",
    "Place",
    "Process",
    "RuntimePlace",
    "StoreContract",
    "Stuck",
    "VirtualLoop",
]
