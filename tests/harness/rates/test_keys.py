"""What a range test's answer is known by: an edited spec.yaml may hold anything, and costs no more than its letters."""

from __future__ import annotations

import pytest

from harness.rates.keys import rate_key, run_setting

MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{at}: &a{at} {{<<: [{f'*a{at - 1}, ' * 9}]}}\n" for at in range(1, 9))
"""Nine lines of which the last merges 43 million mappings."""


@pytest.mark.parametrize(
    "text", [MERGES, "training: {<<: &a {epochs: 3}, x: *a}\n", "- " * 30, "!!bool 3", "{", "word", ""]
)
def test_a_strange_spec_is_told_by_its_own_text(text: str) -> None:
    keys = {rate_key({"spec.yaml": told}, "data") for told in (text, text + "# other\n")}
    assert len(keys) == 2 and run_setting({"spec.yaml": text}) == {}


def test_a_long_spec_is_told_without_its_rate_too() -> None:
    long = "mine: [" + "a, " * 20_000 + "]\n"
    texts = [
        f"training: {{learning_rate: {rate}, batch_size: {size}}}\n{long}" for rate, size in ((1, 8), (2, 8), (2, 9))
    ]
    keys = [rate_key({"spec.yaml": text}, "data") for text in texts]
    assert keys[0] == keys[1] != keys[2]


def test_another_rate_is_no_other_program_and_another_length_another_setting() -> None:
    texts = [
        f"training: {{epochs: {epochs}, learning_rate: {rate}, batch_size: 8}}\n" for epochs, rate in ((3, 1), (4, 2))
    ]
    assert len({rate_key({"spec.yaml": text}, "data") for text in texts}) == 1
    assert [run_setting({"spec.yaml": text})["epochs"] for text in texts] == [3, 4]
