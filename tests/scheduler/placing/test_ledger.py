"""Who makes room: as few as will do, found without asking of everybody by himself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.placing.ledger import least_gone


def needs(weights, least):
    return lambda gone: sum(weights[name] for name in gone) >= least


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(0, 20), st.integers(0, 6))
def test_nobody_goes_without_whom_it_would_do_and_the_first_go_first(held, devices, jobs):
    """As if each were spared in turn, the last one first, wherever the others are enough."""
    weights = {f"j{number}": width for number, width in enumerate(held)}
    tests = [needs(weights, devices), lambda gone: len(gone) >= jobs]
    expected = list(weights)
    for name in reversed(list(weights)):
        fewer = [other for other in expected if other != name]
        if all(test(fewer) for test in tests):
            expected = fewer
    enough = all(test(list(weights)) for test in tests)
    assert least_gone(list(weights), tests) == (expected if enough else None)


def test_of_a_thousand_few_are_asked_of():
    weights, asked = {f"j{number}": 1 for number in range(1000)}, []

    def enough(gone):
        asked.append(len(gone))
        return needs(weights, 8)(gone)

    assert least_gone(list(weights), [enough]) == [f"j{number}" for number in range(8)]
    assert len(asked) <= 20
