"""One database, and two fleets on it that differ in engine and authentication."""

from collections.abc import Iterator

import pytest

from tests.adapters.stores import postgres_server
from tests.adapters.stores.postgres_server import running
from tests.replicas.fleet import Engine, Fleet, running_fleet


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
    """Without tokens each session is its own owner; with tokens sessions can share an owner."""
    engine: Engine = request.param
    folder = tmp_path_factory.mktemp(engine)
    has_tokens = engine == "procrastinate"
    with running_fleet(folder, database.new_url(), engine, has_tokens=has_tokens) as fleet:
        yield fleet
