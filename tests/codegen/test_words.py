"""How counts are written for people."""

from __future__ import annotations

import pytest

from codegen.words import counted


@pytest.mark.parametrize(("number", "words"), [(0, "0 cores"), (1, "1 core"), (2, "2 cores"), (1024, "1,024 cores")])
def test_only_one_of_a_thing_stands_in_the_singular(number: int, words: str) -> None:
    assert counted(number, "core") == words


@pytest.mark.parametrize(("number", "words"), [(1, "1 row repeats"), (3, "3 rows repeat")])
def test_words_that_are_no_plain_plural_are_given(number: int, words: str) -> None:
    assert counted(number, "row repeats", "rows repeat") == words
