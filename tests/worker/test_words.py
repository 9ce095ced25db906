"""How counts are written for people, on nodes too."""

from __future__ import annotations

import pytest

from codegen import words as codegen_words
from worker.words import counted, step_words


@pytest.mark.parametrize(("number", "said"), [(0, "0 ranks"), (1, "1 rank"), (2, "2 ranks"), (1024, "1,024 ranks")])
def test_only_one_of_a_thing_stands_in_the_singular_and_both_sides_write_it_alike(number: int, said: str) -> None:
    assert counted(number, "rank") == said == codegen_words.counted(number, "rank")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0042, "4.2 ms"), (0.9994, "999 ms"), (0.9996, "1 s"), (1.534, "1.53 s"), (99.97, "100 s"), (1234.5, "1234 s")],
)
def test_the_time_of_a_step_is_never_written_as_a_power_of_ten(seconds: float, said: str) -> None:
    assert step_words(seconds) == said
