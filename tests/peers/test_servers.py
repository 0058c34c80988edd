"""`taskmachine check` finds the known failures of third-party servers."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import REPOSITORY
from tests.peers.checked import SERVERS, check
from tests.peers.installed import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.peers]

Reports = Mapping[str, Future[tuple[int, Mapping[str, Any]]]]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reports]:
    """Check all servers concurrently, as they mostly wait, but install them one by one."""
    with ThreadPoolExecutor(3) as pool:
        found: dict[str, Future[tuple[int, Mapping[str, Any]]]] = {}
        for name, server in SERVERS.items():
            try:
                server.command()
            except Unavailable as error:
                found[name] = Future()
                found[name].set_exception(error)
            else:
                found[name] = pool.submit(check, server, tmp_path_factory.mktemp(name))
        yield found


@pytest.mark.parametrize("name", SERVERS)
def test_check_finds_the_known_failures_of_third_party_servers(
    name: str, reports: Reports, tmp_path: Path
) -> None:
    try:
        status, report = reports[name].result()
    except Unavailable as error:
        pytest.skip(str(error))
    assert status == 1
    broken = _broken(report)
    if not broken >= SERVERS[name].known:  # some are races and get a second chance
        broken |= _broken(check(SERVERS[name], tmp_path)[1])
    assert broken >= SERVERS[name].known


def _broken(report: Mapping[str, Any]) -> set[str]:
    findings = [finding for run in report["runs"] for finding in run["findings"]]
    return {f["id"] for f in findings if f["verdict"] in ("fail", "warning")}


@pytest.mark.parametrize("name", SERVERS)
def test_findings_page_lists_the_known_failures_of_third_party_servers(name: str) -> None:
    page = (Path(REPOSITORY) / "docs" / "explanation" / "findings.md").read_text()
    for id in SERVERS[name].known:
        assert f"`{id}`" in page
