"""Which checkpoints a node that outlives the first one offers: the newest whole ones."""

from __future__ import annotations

import json
from pathlib import Path

from worker.elastic.rescue import rescued
from worker.fence import step_name
from worker.plan import RunPaths


def test_the_newest_are_offered_also_where_their_steps_have_a_digit_more(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path, part="node-2")
    for step in (7, 99_999_999, 100_000_000, 250_000_000):
        folder = paths.checkpoints / step_name(step)
        folder.mkdir(parents=True)
        (folder / "state.pt").write_bytes(b"1234")
        (folder / "MANIFEST.json").write_text(json.dumps({"files": {"state.pt": {"bytes": 4}}}))
    assert rescued(paths) == ["step-250000000", "step-100000000"]
