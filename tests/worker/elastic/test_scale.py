"""An elastic run in float16: the scale of its loss goes back with the rest of the copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.elastic.test_members import COMMIT_STEPS, FAR, GATE, PLACE, Held
from tests.worker.runtime import samples
from tests.worker.runtime.test_async import newest, results
from tests.worker.runtime.test_fp16 import BEGINNING, NET, STEP, TRAINING

pytestmark = pytest.mark.ranks


def test_a_rank_is_lost_and_the_other_goes_on_with_the_scale_of_both(tmp_path: Path) -> None:
    program = tmp_path / "program"
    training = TRAINING | {"epochs": 8}
    samples.program(program, samples.wine(program / "data"), own_model=NET, training=training)
    samples.change_spec(program, checkpoints={"commit_steps": COMMIT_STEPS})
    once = STEP.replace("steps == ", "run.position.step == ")  # whoever comes back counts its own steps anew
    train = (program / "train.py").read_text().replace("import math\n", "import math\nsteps = 0\n")
    (program / "train.py").write_text(train.replace(PLACE, GATE + once + PLACE))
    held = Held(program, tmp_path / "work", least=1, ranks=2, BURSTS="1", BURSTS_AT="2")
    try:
        held.reach(10)
        held.lose(1, 12)
        held.open_to(FAR)
        assert held.ranks.wait() == 0, held.ranks.log()
    finally:
        held.ranks.end()
    assert held.ranks.sizes()[:2] == [2, 1]
    assert results(held.work)["timing"]["skipped_steps"] == 1
    assert newest(held.work)["loss_scale"]["scaler"]["scale"] == BEGINNING / 2
