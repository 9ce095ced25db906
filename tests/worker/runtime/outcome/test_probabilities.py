"""Probabilities are those of softmax, though never all of them are made at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from worker.runtime.metrics import classification_metrics, mean_roc_area
from worker.runtime.outcome import probabilities
from worker.runtime.outcome.probabilities import Probabilities, row_blocks

ODD = [[math.inf, 1.0, 0.0], [math.nan, 1.0, 0.0], [-math.inf] * 3, [-math.inf, 2.0, 3.0], [3e38, -3e38, 0.0]]


@pytest.mark.parametrize("block_bytes", [1, 100, 1 << 20])
def test_each_class_is_as_probable_as_by_softmax(block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probabilities, "BLOCK_BYTES", block_bytes)
    logits = torch.cat([torch.randn(50, 3, generator=torch.Generator().manual_seed(1)) * 9, torch.tensor(ODD)])
    expected = logits.double().softmax(1).numpy()
    made = Probabilities(logits)
    found = np.stack([made.of_class(place) for place in range(3)], 1)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    classes = torch.arange(len(logits)) % 3
    np.testing.assert_array_equal(made.of_rows(classes), found[np.arange(len(found)), classes.numpy()])


@pytest.mark.parametrize("block_bytes", [1, 100])
def test_metrics_do_not_depend_on_how_many_rows_are_worked_off_at_once(
    block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = torch.randn(60, 4, generator=torch.Generator().manual_seed(2))
    targets = torch.arange(60) % 4
    at_once = classification_metrics(logits, targets)
    monkeypatch.setattr(probabilities, "BLOCK_BYTES", block_bytes)
    assert classification_metrics(logits, targets) == pytest.approx(at_once, rel=1e-14)


def test_going_through_many_classes_is_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[None] = []
    monkeypatch.setattr(probabilities.pulse, "beat", lambda: beats.append(None))
    mean_roc_area(torch.randn(60, 30, generator=torch.Generator().manual_seed(3)), torch.arange(60) % 30)
    assert len(beats) >= 30


def test_no_rows_have_no_blocks_and_every_row_is_of_one() -> None:
    assert list(row_blocks(torch.empty(0, 3))) == []
    many = torch.empty(10, 1).expand(10, probabilities.BLOCK_BYTES)
    assert list(row_blocks(many)) == [slice(at, at + 1) for at in range(10)]
