"""A forecast learned by two ranks, in the modes that share its work out between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.codegen.time_series import profiled, shops
from tests.worker.runtime import samples
from tests.worker.runtime.ranks import Ranks

pytestmark = pytest.mark.ranks


@pytest.mark.parametrize("mode", ["sync", "async", "pipeline"])
def test_two_ranks_learn_a_forecast_and_it_can_be_gone_on_from(mode: str, tmp_path: Path) -> None:
    profile = profiled(tmp_path / "data", shops(60))
    program = samples.program(
        tmp_path,
        profile,
        task="forecast",
        data={"target": "sold", "horizon": 4, "known": ["rain"]},
        model={"family": "mlp"},
        training={"epochs": 3},
    )
    if mode == "pipeline":
        samples.staged(program)
    elif mode == "async":
        spec = program / "spec.yaml"
        body = yaml.safe_load(spec.read_text())
        spec.write_text(yaml.safe_dump(body | {"mode": mode, "training": body["training"] | {"staleness": 2}}))
    ranks = Ranks(program, 2, backend="torch" if mode == "pipeline" else "horovod")
    assert ranks.wait() == [0, 0], ranks.log()
    results = json.loads((program / "work/results/results.json").read_text())
    assert results["environment"]["world_size"] == 2
    assert {"back_test", "simple_forecasts", "error_by_step"} <= {chart["id"] for chart in results["charts"]}
    (program / "plan.csv").write_text("day,shop,rain\n2020-03-01,north,2.5\n2020-03-02,north,2.1\n")
    done = samples.python(program, "predict.py", "--input", "plan.csv", "--output", "out.csv")
    assert done.returncode == 0, done.stderr
    assert len((program / "out.csv").read_text().splitlines()) == 3
