"""Names of devices carry a declared slowdown and a mixture, and can be read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimation.values import Allocation
from scheduler.kinds import checked_parts, declared_name, mixed_name, real_name
from scheduler.types import Option

NAMES = st.sampled_from(["", "Xeon", "Core i7, 4th generation", "A100 (80 GB)", "mine, as slow"])


@given(NAMES, st.floats(1.0, 1000.0).map(lambda factor: round(factor, 6)))
def test_a_declared_slowdown_is_read_back_from_the_name(name: str, factor: float) -> None:
    assert real_name(declared_name(name, factor)) == (name, factor)


def test_an_undeclared_device_keeps_its_makers_name() -> None:
    assert declared_name("Xeon", 1.0) == "Xeon"
    assert declared_name("Xeon", 2.5) == "Xeon, declared 2.5 times as slow"


def test_a_mixture_is_never_taken_for_one_slow_device() -> None:
    name = mixed_name([("Xeon", 1), (declared_name("Xeon", 3.0), 2)])
    assert name == "mixed: 1 Xeon + 2 Xeon, declared 3 times as slow"
    assert real_name(name) == (name, 1.0)


NO_MIXTURES = (
    [("A", 3)],
    [("A", 1), ("A", 2)],
    [("A", 1), ("", 2)],
    [("A", 0), ("B", 3)],
    [("A", 1), ("B", 1)],
)


@pytest.mark.parametrize("parts", NO_MIXTURES)
def test_what_is_no_mixture_of_so_many_devices_is_refused(parts) -> None:
    with pytest.raises(ValueError, match="mixture"):
        checked_parts(parts, 3)


def test_parts_survive_plain_values() -> None:
    parts = (("A", 1), ("B", 2))
    for made in (
        Option(kind="cpu", count=3, model_name=mixed_name(parts), parts=[["A", 1], ["B", 2]]),
        Allocation(kind="cpu", count=3, model_name="m", mode="sync", batch_split=(1, 1, 1), parts=[["A", 1], ["B", 2]]),
    ):
        assert made.parts == parts
        hash(made)
    assert Option(kind="cpu", count=3, parts=[]) == Option(kind="cpu", count=3)
