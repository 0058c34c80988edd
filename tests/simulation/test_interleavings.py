"""No interleaving of loads, commits and effects violates an invariant."""

from tests.simulation.interleavings import explore, scripts


def test_every_interleaving_of_six_events_is_legal() -> None:
    explored = [explore(script) for script in scripts(6)]
    states = sum(exploration.states for exploration in explored)
    interleavings = sum(exploration.interleavings for exploration in explored)
    print(
        f"\n{len(explored)} scripts of six events: {states:,} states,"
        f" {interleavings:,} interleavings, {sum(e.ends for e in explored):,} ends"
    )
    # Lower bounds, so that no change shrinks the exploration unnoticed.
    assert len(explored) >= 390
    assert states >= 900_000
    assert interleavings >= 10**15
