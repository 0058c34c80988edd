"""One database, and two fleets on it: each knows its callers, and runs its tasks, differently."""

from collections.abc import Iterator

import pytest

from tests.adapters.stores import postgres_server
from tests.adapters.stores.postgres_server import running
from tests.replicas.fleet import Engine, Fleet, sailing


@pytest.fixture(scope="package")
def database() -> Iterator[postgres_server.Server]:
    with running() as database:
        yield database


@pytest.fixture(
    scope="package",
    params=[
        "local",
        pytest.param("procrastinate", marks=[pytest.mark.slow, pytest.mark.replicas]),
    ],
)
def fleet(
    request: pytest.FixtureRequest,
    database: postgres_server.Server,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Fleet]:
    """Anonymous sessions are their own owners; else several sessions may have the same one."""
    engine: Engine = request.param
    folder = tmp_path_factory.mktemp(engine)
    has_tokens = engine == "procrastinate"
    with sailing(folder, database.new_url(), engine, has_tokens=has_tokens) as fleet:
        yield fleet
