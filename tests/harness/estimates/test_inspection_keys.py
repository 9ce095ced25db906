"""What a program's reading is known by: an edited spec.yaml may hold anything, and costs no more than its letters."""

from __future__ import annotations

import pytest

from harness.estimates.inspection import _spec_told, content_key

BOMB = "\n".join(["a0: &a0 [1, 1]", *(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 7))])
"""Seven lines of which the last stands for a million numbers."""


@pytest.mark.parametrize("text", [BOMB, "training: &all\n  rest: *all\n", "2020-01-01: 3\n", "{", "word"])
def test_a_strange_spec_is_told_by_its_own_text(text: str) -> None:
    assert _spec_told(text) == text
    assert len(content_key({"spec.yaml": text}, "data")) == 64


def test_what_changes_no_step_changes_no_key() -> None:
    spec = "training: {epochs: 3}\nmode: single\n"
    assert content_key({"spec.yaml": spec}, "data") == content_key({"spec.yaml": spec + "name: a*b\n"}, "data")
    assert content_key({"spec.yaml": spec}, "data") != content_key({"spec.yaml": spec.replace("3", "4")}, "data")


def test_what_layers_compute_in_makes_another_key() -> None:
    spec = "training: {epochs: 3, precision: auto}\n"
    assert content_key({"spec.yaml": spec}, "data") != content_key({"spec.yaml": spec.replace("auto", "bf16")}, "data")
