"""The corpus: we describe and call a function as FastMCP and the official SDK do.

Each difference is listed with its reason.
"""

import logging
from collections.abc import Iterator

import pytest

from tests.adapters.tools.corpus.cases import CASES
from tests.adapters.tools.corpus.differences import DIFFERENCES
from tests.adapters.tools.corpus.libraries import OURS, plain, shown

PEERS = ("fastmcp", "mcp")


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """The libraries log each refused call with its traceback."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def differences(case: str, peer: str) -> tuple[str, ...]:
    """Return in which respects a peer shows a case in another way than we do."""
    ours, theirs = shown()[OURS, case], shown()[peer, case]
    if (ours.input is None) != (theirs.input is None):
        return ("registered",)
    expected = plain(theirs.input)
    if peer == "mcp" and expected is not None:
        expected["additionalProperties"] = (
            False  # it ignores unknown arguments, and does not say so
        )
    found = ["input"] if plain(ours.input) != expected else []
    found += ["output"] if plain(ours.output) != plain(theirs.output) else []
    pairs = enumerate(zip(ours.calls, theirs.calls, strict=True))
    return (*found, *(f"call {i}" for i, (one, other) in pairs if one != other))


def test_the_corpus_is_large() -> None:
    assert len(CASES) >= 80


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("case", CASES)
def test_we_show_and_do_the_same(case: str, peer: str) -> None:
    expected, _ = DIFFERENCES.get((case, peer), ((), ""))
    assert differences(case, peer) == expected


def test_each_listed_difference_is_of_a_case() -> None:
    assert {case for case, _ in DIFFERENCES} <= CASES.keys()
    assert {peer for _, peer in DIFFERENCES} <= {*PEERS}
