"""One server for all tests of a module."""

from collections.abc import Iterator

import pytest

from tests.wire_faults.server_process import Server, serving


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Run a server with the module's `SETTINGS`."""
    settings = getattr(request.module, "SETTINGS", {})
    with serving(tmp_path_factory.mktemp("server"), **settings) as server:
        yield server
