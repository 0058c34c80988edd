"""The stores: each through the test kit, then what only it has."""

import pytest

pytest.register_assert_rewrite("taskmachine.adapters.stores.testing")
