"""What a restore says on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.backup import __main__ as command
from harness.backup import restoring


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        (0, ""),
        (1, "1 run was under way; it resumes from its newest checkpoint."),
        (1200, "1,200 runs were under way; they resume from their newest checkpoint."),
    ],
)
def test_runs_that_were_under_way_are_counted(
    lost: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = restoring.Restored(home=tmp_path, made_at="today", files=1, rows=2, lost=lost, secrets=True)
    monkeypatch.setattr(restoring, "backup_restore", lambda *_, **__: back)
    text, told = command.restore(tmp_path / "x.dlh", tmp_path, lambda *_: None)
    assert words in text and ("under way" in text) is bool(lost) and told["lost"] == lost
