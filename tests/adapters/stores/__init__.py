"""The stores: each through the test kit, then what only it has."""

import pytest

for part in (
    "contract",
    "contract_reading",
    "contract_scenes",
    "contract_sessions",
    "contract_world",
    "contract_writing",
):
    pytest.register_assert_rewrite(f"taskmachine.adapters.stores.{part}")
