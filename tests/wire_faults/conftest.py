"""One server for the tests of a module that leave it as they found it."""

from collections.abc import Iterator

import pytest

from tests.wire_faults.server_process import Server, serving


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """With the settings that the module has in `SETTINGS`."""
    settings = getattr(request.module, "SETTINGS", {})
    with serving(tmp_path_factory.mktemp("server"), **settings) as server:
        yield server
