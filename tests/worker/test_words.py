"""How counts are written for people, on nodes too."""

from __future__ import annotations

import pytest

from codegen import words as codegen_words
from worker.words import counted


@pytest.mark.parametrize(("number", "said"), [(0, "0 ranks"), (1, "1 rank"), (2, "2 ranks"), (1024, "1,024 ranks")])
def test_only_one_of_a_thing_stands_in_the_singular_and_both_sides_write_it_alike(number: int, said: str) -> None:
    assert counted(number, "rank") == said == codegen_words.counted(number, "rank")
