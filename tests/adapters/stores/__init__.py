"""Tests of the stores: the test kit for each, then its specific features."""

import pytest

pytest.register_assert_rewrite("taskmachine.adapters.stores.testing")
