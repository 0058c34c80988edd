"""Tests of tools in memory, and test kits for authors of stores and engines.

The kits need `pip install 'taskmachine[testing]'`; everything else needs nothing more.
"""

from typing import TYPE_CHECKING

from taskmachine.adapters.bridges.required import require
from taskmachine.adapters.runtime.testing.virtual_loop import Process, Stuck, VirtualLoop
from taskmachine.adapters.testing.loop import run
from taskmachine.adapters.testing.server import CallResult, MemoryServer, open_server

__all__ = [
    "CallResult",
    "EngineContract",
    "MemoryServer",
    "NewPlace",
    "NewRuntimePlace",
    "PersistentStoreContract",
    "Place",
    "Process",
    "RuntimePlace",
    "StoreContract",
    "Stuck",
    "VirtualLoop",
    "open_server",
    "run",
]

if TYPE_CHECKING:
    from taskmachine.adapters.runtime.testing.contract import (
        EngineContract,
        NewRuntimePlace,
        RuntimePlace,
    )
    from taskmachine.adapters.stores.testing.contract import (
        NewPlace,
        PersistentStoreContract,
        Place,
        StoreContract,
    )
else:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module 'taskmachine.testing' has no attribute {name!r}")
        require("pytest", "testing", "9.0")
        require("hypothesis", "testing", "6.150")
        from taskmachine.adapters.runtime.testing import contract as engines
        from taskmachine.adapters.stores.testing import contract as stores

        return getattr(stores if hasattr(stores, name) else engines, name)
