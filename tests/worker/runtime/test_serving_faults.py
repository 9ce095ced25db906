"""Weights that cannot be read for a prediction: what is told of the checkpoint is true."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from torch import nn

from worker.runtime import serving
from worker.runtime.checkpoint import CheckpointStore
from worker.runtime.tables import InputError


def test_a_disk_that_fails_makes_no_checkpoint_a_damaged_one_to_who_predicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = nn.Linear(2, 1)
    store = CheckpointStore(tmp_path, keep=2, larger_is_better=True)
    made = tmp_path / store.save({"parts": {"net": net.state_dict()}}, step=1, epoch=1.0, metric=None).name

    def failing(path: Path) -> tuple[int, str]:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(serving, "file_sha256", failing)
        with pytest.raises(InputError, match="cannot be read: Input/output error"):
            serving.load_weights(net, made)
    serving.load_weights(net, made)
    (made / "state.pt").unlink()
    with pytest.raises(InputError, match="is damaged, or was removed"):
        serving.load_weights(net, made)
